// Numbers and times as people read them. What is unknown is a dash.

export const UNKNOWN = "–";

const known = (value) => typeof value === "number" && Number.isFinite(value);

/** A number with so many decimals. */
export const fixed = (value, decimals = 2) => (known(value) ? value.toFixed(decimals) : UNKNOWN);

/** A share of 1, in percent; no line breaks before the sign. */
export const percent = (value, decimals = 1) => (known(value) ? `${(100 * value).toFixed(decimals)}\u00a0%` : UNKNOWN);

/** A count, thousands set apart. */
export const count = (value) => (known(value) ? value.toFixed(0).replace(/\B(?=(\d{3})+$)/g, ",") : UNKNOWN);

/** At most so many significant digits, without trailing zeros. */
export const brief = (value, digits = 3) => (known(value) ? String(Number(value.toPrecision(digits))) : UNKNOWN);

/** A factor: "1.6 times". */
export const times = (value) => (known(value) ? `${brief(value, 2)} times` : UNKNOWN);

/** Milliseconds since an RFC 3339 time in words: "3 min ago". */
export function ago(time, now) {
  const seconds = (now - Date.parse(time)) / 1000;
  if (!known(seconds)) return "never";
  if (seconds < 3) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 48 * 3600) return `${Math.floor(seconds / 3600)} h ago`;
  return `${Math.floor(seconds / 86400)} d ago`;
}

/** Date and time of day, by Unix seconds or an RFC 3339 text, in the viewer's zone. */
export function moment(time) {
  const date = typeof time === "number" ? new Date(1000 * time) : new Date(time);
  if (Number.isNaN(date.getTime())) return UNKNOWN;
  const two = (value) => String(value).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${clock(date)}`;
}

/** Time of day. */
export function clock(date) {
  return [date.getHours(), date.getMinutes(), date.getSeconds()].map((value) => String(value).padStart(2, "0")).join(":");
}
