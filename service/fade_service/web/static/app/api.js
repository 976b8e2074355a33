// Calls of the HTTP API.

/** What a call was refused with; status 0 where no server answered. */
export class ApiError extends Error {
  constructor(status, { code, reason, message }) {
    super(message);
    this.status = status;
    this.code = code;
    this.reason = reason;
  }
}

/** How long to wait before asking again what was not answered. */
export const RETRY_MS = 2000;

/** Whether the same call may be answered later: no server was there, or it could not just then. */
export const mayPass = (error) => [0, 502, 503, 504].includes(error.status);

const unauthenticated = new EventTarget();

/** Calls `take` whenever a call was refused for want of a login; returns what ends that. */
export function onUnauthenticated(take) {
  unauthenticated.addEventListener("refused", take);
  return () => unauthenticated.removeEventListener("refused", take);
}

/** Address of a path below /api/v1, its parts encoded; `query` is an object or a list of pairs, and empty values are left out. */
export function address(parts, query = {}) {
  const pairs = (Array.isArray(query) ? query : Object.entries(query)).filter(([, value]) => value !== "" && value != null);
  const search = new URLSearchParams(pairs).toString();
  return `api/v1/${parts.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

const early = new Map();

/** Sends a request whose answer `get` of the same address will take, once: for what is asked before the rest of the page is there. */
export function askEarly(parts, query) {
  const place = address(parts, query);
  const answer = fetch(place);
  answer.catch(() => {}); // whoever takes it is told
  early.set(place, answer);
}

export const get = (parts, query, signal) => call("GET", parts, { query, signal });
export const post = (parts, body, signal) => call("POST", parts, { body, signal });
export const patch = (parts, body) => call("PATCH", parts, { body });
export const remove = (parts) => call("DELETE", parts, {});

async function call(method, parts, { query, body, signal }) {
  const headers = method === "GET" ? {} : { "content-type": "application/json", "x-fade-request": "dashboard" };
  const place = address(parts, query);
  const asked = method === "GET" ? early.get(place) : undefined;
  early.delete(place);
  let response;
  try {
    response = await (asked ?? fetch(place, { method, headers, signal, body: body && JSON.stringify(body) }));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, { code: "UNAVAILABLE", reason: "UNREACHABLE", message: "the server does not answer" });
  }
  if (response.status === 204) return null;
  const content = await response.json().catch(() => null);
  if (response.ok) return content;
  if (response.status === 401) unauthenticated.dispatchEvent(new Event("refused"));
  const message = `the server answered with status ${response.status}`;
  throw new ApiError(response.status, content?.error ?? { code: "INTERNAL", reason: "UNKNOWN", message });
}
