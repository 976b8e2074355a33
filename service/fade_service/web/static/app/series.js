// Columns of numbers by environment, as the server gives them, and how more are put behind them.

/** The series with the observations of a piece after its own, and without those before revision `first`. */
export function extended(series, piece, first) {
  const environments = { ...series.environments };
  for (const [name, more] of Object.entries(piece.environments)) {
    environments[name] = joined(environments[name], more, first);
  }
  return {
    ...series,
    environments,
    last_revision: Math.max(series.last_revision, piece.last_revision),
    marks: unique([...series.marks, ...piece.marks]),
    newest: piece.newest ?? series.newest,
  };
}

function joined(old, more, first) {
  const last = old?.revision.at(-1) ?? 0;
  const start = more.revision.findIndex((revision) => revision > last);
  const from = old ? old.revision.findIndex((revision) => revision >= first) : 0;
  const fresh = start < 0 ? more.revision.length : start;
  return Object.fromEntries(
    Object.entries(more).map(([name, column]) => {
      const kept = old ? (from < 0 ? [] : old[name].slice(from)) : [];
      return [name, kept.concat(column.slice(fresh))];
    }),
  );
}

function unique(marks) {
  return [...new Map(marks.map((mark) => [keyOf(mark), mark])).values()];
}

/** What tells one mark from all others. */
export const keyOf = (mark) => [mark.revision, mark.kind, mark.reason, mark.environment, mark.config_revision].join(" ");

/** The longest column's length, over all environments. */
export function pointCount(series) {
  return Math.max(0, ...Object.values(series.environments).map((columns) => columns.revision.length));
}

/** An environment's newest values: exact where the server gives them, else the last point. */
export function newestOf(series, environment) {
  const exact = series.newest?.environments[environment];
  if (exact) return exact;
  return lastOf(series.environments[environment]);
}

/** The last point's values. */
export const lastOf = (columns) => Object.fromEntries(Object.entries(columns).map(([name, column]) => [name, column.at(-1) ?? null]));

/** [revision, value] pairs for a chart. */
export function pairs(columns, name) {
  return columns.revision.map((revision, place) => [revision, columns[name][place]]);
}

/** Place of the point nearest to a revision; -1 where there is none. */
export function nearest(columns, revision) {
  const revisions = columns.revision;
  let [low, high] = [0, revisions.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (revisions[middle] < revision) low = middle + 1;
    else high = middle;
  }
  return low > 0 && revision - revisions[low - 1] < revisions[low] - revision ? low - 1 : revisions.length ? low : -1;
}

/** Marks that concern an environment, from one revision to another. */
export function marksOf(series, environment, from, to) {
  return series.marks.filter(
    (mark) => (!mark.environment || mark.environment === environment) && mark.revision >= from && mark.revision <= to,
  );
}
