// The address behind "#" says where the page stands, so that a reload or a shared link opens the same view.

/** "#/runs/lab/qwen?branch=main" as {path: ["runs", "lab", "qwen"], query: URLSearchParams}. */
export function readRoute() {
  const [path, search = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decoded), query: new URLSearchParams(search) };
}

/** The address of a view; `query` is an object or a list of pairs, and empty values are left out. */
export function href(path, query = {}) {
  const pairs = (Array.isArray(query) ? query : Object.entries(query)).filter(([, value]) => value !== "" && value != null);
  const search = new URLSearchParams(pairs).toString();
  return `#/${path.map(encodeURIComponent).join("/")}${search ? `?${search}` : ""}`;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
