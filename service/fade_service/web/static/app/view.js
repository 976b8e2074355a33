// Which revisions are shown: all, the newest so many (both go along as observations arrive), or from one to another.

/** By the address: {kind: "all"} | {kind: "newest", count} | {kind: "range", from, to}. */
export function readView(query) {
  const whole = (name) => (/^[1-9]\d{0,14}$/.test(query.get(name) ?? "") ? Number(query.get(name)) : 0);
  const [newest, from, to] = [whole("newest"), whole("from"), whole("to")];
  if (newest) return { kind: "newest", count: newest };
  return from && to > from ? { kind: "range", from, to } : { kind: "all" };
}

/** The inverse: what the address says of it. */
export function viewQuery(view) {
  if (view.kind === "newest") return { newest: view.count };
  return view.kind === "range" ? { from: view.from, to: view.to } : {};
}

/** Its first and last revision, on a line of so many. */
export function bounds(view, head) {
  if (view.kind === "range") return [view.from, view.to];
  return [view.kind === "newest" ? Math.max(1, head - view.count + 1) : 1, Math.max(head, 1)];
}

/** A view around the same middle, so many times as long. */
export function stretched(view, head, factor) {
  const [from, to] = bounds(view, head);
  const half = Math.max(5, ((to - from) * factor) / 2);
  return between((from + to) / 2 - half, (from + to) / 2 + half, head);
}

/** A view of the same length, moved by a part of it. */
export function moved(view, head, part) {
  const [from, to] = bounds(view, head);
  const by = Math.min(Math.max((to - from) * part, 1 - from), head - to);
  return between(from + by, to + by, head);
}

/** From one revision to another, inside the line; everything where nothing is left out. */
export function between(from, to, head) {
  const first = Math.max(1, Math.round(from));
  const last = Math.min(head, Math.round(to));
  if (last - first < 1 || (first === 1 && last === head)) return { kind: "all" };
  return { kind: "range", from: first, to: last };
}

const POINTS = 600;

/** What the server is asked for: so many points between the bounds, and the newest wherever the end is open. */
export function seriesQuery(view, branch, head) {
  const [first, last] = view.kind === "all" ? ["", ""] : bounds(view, head);
  return { branch, first, last: view.kind === "range" ? last : "", points: POINTS };
}
