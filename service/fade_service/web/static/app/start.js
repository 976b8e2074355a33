// Asks for what the page will draw while the rest of it is still on its way.

import { askEarly } from "./api.js";
import { readRoute } from "./hash.js";
import { readView, seriesQuery } from "./view.js";

const { path, query } = readRoute();
const [page, project, run] = path;
if (page === "runs" && run) {
  const view = readView(query);
  if (view.kind !== "newest") askEarly(["runs", project, run, "series"], seriesQuery(view, query.get("branch") ?? ""));
}
askEarly(["session"]);
