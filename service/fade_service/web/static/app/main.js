// The page: which part of it the address names, what is above it, and who is logged in.

import { html, render, useEffect, useRef } from "./lib.js";
import { Later } from "./later.js";
import { useTitle } from "./parts.js";
import { useRoute } from "./route.js";
import { RunPage } from "./run.js";
import { RunsPage } from "./runs.js";
import { Session, useSessionOfPage } from "./session.js";
import { nextTheme, useTheme } from "./theme.js";

const loadLogin = () => import("./login.js").then((module) => module.LoginPage);
const loadExplorer = () => import("./explorer.js").then((module) => module.ExplorerPage);

function Page() {
  const { path, query } = useRoute();
  const { session, login, logout } = useSessionOfPage();
  const place = path.slice(0, 3).join("/");
  useFocusOnMove(place);
  return html`<${Session.Provider} value=${session}>
    <a class="skip" href="#content" onClick=${skip}>Skip to the content</a>
    <${TopBar} ...${{ path, session, logout }} />
    ${session === null ? html`<${Later} load=${loadLogin} login=${login} />` : pageOf(path, query)}
  <//>`;
}

function pageOf(path, query) {
  const [page, project, run, tab = ""] = path;
  if (page === undefined) return html`<${RunsPage} query=${query} />`;
  if (page === "explorer") return html`<${Later} load=${loadExplorer} query=${query} />`;
  if (page === "runs" && run) return html`<${RunPage} ...${{ project, run, tab, query }} />`;
  return html`<${NotFound} />`;
}

function NotFound() {
  useTitle("Not found");
  return html`<main id="content"><h1 tabindex="-1">Not found</h1><p>There is no such page. <a href="#/">To the runs</a></p></main>`;
}

function TopBar({ path, session, logout }) {
  const { choice } = useTheme();
  const here = (page) => (path[0] === page ? "page" : null);
  return html`<header class="top">
    <a class="brand" href="#/">FADE <span>scheduler</span></a>
    <nav aria-label="Pages">
      <a href="#/" aria-current=${path.length === 0 ? "page" : null}>Runs</a>
      <a href="#/explorer" aria-current=${here("explorer")}>Explorer</a>
    </nav>
    <div class="right">
      ${session?.login_required &&
      html`<span class="who"><b>${session.token}</b> ${session.role}</span><button type="button" onClick=${logout}>Log out</button>`}
      <button type="button" onClick=${nextTheme} title="Auto, light, dark">Theme: ${choice}</button>
    </div>
  </header>`;
}

function skip(event) {
  event.preventDefault(); // the address is the view's
  document.querySelector("#content h1")?.focus();
}

/** Another page is another place to read from, not the link that led there. */
function useFocusOnMove(place) {
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) {
      scrollTo(0, 0);
      document.querySelector("#content h1")?.focus({ preventScroll: true });
    }
    first.current = false;
  }, [place]);
}

render(html`<${Page} />`, document.getElementById("app"));
