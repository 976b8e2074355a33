// All runs, newest report first.

import { address, get } from "./api.js";
import { ago, count, fixed, moment, percent } from "./format.js";
import { html, useCallback, useEffect, useRef, useState } from "./lib.js";
import { Connection, ModeBadge, PhaseBadge, Problem, useNow, useSettled, useTitle, WarningBadge } from "./parts.js";
import { href } from "./hash.js";
import { go } from "./route.js";
import { useSession } from "./session.js";
import { follow } from "./stream.js";

const PAGE_SIZE = 50;
const TYPING_MS = 200;
/** The list is asked for again at most this often, however many runs report. */
const REFRESH_MS = 1000;
const STATES = { all: "All", active: "Active", completed: "Completed" };

/** `query` has q (search), state and page (from 1). */
export function RunsPage({ query }) {
  useTitle("Runs");
  const state = query.get("state") in STATES ? query.get("state") : "all";
  const page = Math.max(0, Number.parseInt(query.get("page") ?? "1", 10) - 1) || 0;
  const [typed, type] = useState(query.get("q") ?? "");
  const text = useSettled(typed, TYPING_MS);
  const session = useSession();
  const { overview, problem, connection } = useOverview(session?.project, text, state, page);
  const at = (changes) => href([], { q: text, state: state === "all" ? "" : state, page: page ? page + 1 : "", ...changes });

  const first = useRef(true);
  useEffect(() => {
    if (!first.current) go(at({ q: text, page: "" }), { replace: true });
    first.current = false;
  }, [text]);
  useEffect(() => type(query.get("q") ?? ""), [query.get("q")]);

  return html`<main id="content">
    <div class="heading">
      <div>
        <h1 tabindex="-1">Runs</h1>
        <${Connection} state=${connection} />
      </div>
    </div>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label><span>Search</span><input type="search" value=${typed} placeholder="project or run" onInput=${(event) => type(event.target.value)} /></label>
      <div class="buttons" role="group" aria-label="State">
        ${Object.entries(STATES).map(
          ([name, title]) => html`<button key=${name} type="button" aria-pressed=${String(name === state)} onClick=${() => go(at({ state: name === "all" ? "" : name, page: "" }))}>${title}</button>`,
        )}
      </div>
      ${overview && html`<p class="quiet" role="status">${count(overview.total)} ${overview.total === 1 ? "run" : "runs"}</p>`}
    </form>
    <${Problem} error=${problem} />
    ${overview && (overview.runs.length ? html`<${Table} runs=${overview.runs} />` : html`<${Empty} searched=${text || state !== "all"} />`)}
    ${overview && html`<${Pages} ...${{ overview, page, at }} />`}
  </main>`;
}

/** Nothing is asked for before it is known which `project` one may see. */
function useOverview(project, query, state, page) {
  const [overview, set] = useState(null);
  const [problem, setProblem] = useState(null);
  const [connection, setConnection] = useState({ name: "connecting" });
  const live = useRef({ timer: 0, asked: null }).current;

  const load = useCallback(async () => {
    live.timer = 0;
    live.asked?.abort();
    const own = (live.asked = new AbortController());
    try {
      set(await get(["overview"], { ...live.wanted, page_size: PAGE_SIZE }, own.signal));
      setProblem(null);
    } catch (error) {
      if (error.name !== "AbortError") setProblem(error);
    }
  }, []);

  useEffect(() => {
    live.wanted = { project, query, state, page };
    if (project) load();
  }, [project, query, state, page]);

  useEffect(() => {
    if (!project) return undefined;
    const close = follow({
      address: () => address(["events"], { project }),
      events: { overview: () => (live.timer ||= setTimeout(load, REFRESH_MS)) },
      onState: (next) => {
        setConnection(next);
        if (next.name === "reconnecting") get(["session"]).catch(() => {}); // where a login has ended, the page asks for another
        if (next.name === "live") live.timer ||= setTimeout(load, REFRESH_MS); // what was missed while it was away
      },
    });
    return () => {
      clearTimeout(live.timer);
      live.asked?.abort();
      close();
    };
  }, [project]);

  return { overview, problem, connection };
}

function Table({ runs }) {
  const now = useNow();
  return html`<table class="runs">
    <caption class="hidden">Runs, newest report first, with one line for each environment</caption>
    <thead>
      <tr>
        <th scope="col">Run</th>
        <th scope="col">Last report</th>
        <th scope="col" class="wide number">Revision</th>
        <th scope="col" class="wide" title="Slow average of the first environment over the newest observations, as high as it rose and fell">Solve rate, trend</th>
        <th scope="col">Environment</th>
        <th scope="col" class="number">Solve rate</th>
        <th scope="col" class="wide">Phase</th>
        <th scope="col" class="wide number">Alpha</th>
        <th scope="col" class="wide number">Delta</th>
        <th scope="col" class="wide number" title="Slow average">Entropy : target <small>nats/token</small></th>
      </tr>
    </thead>
    ${runs.map((run) => html`<${Rows} key=${`${run.project}/${run.run}`} run=${run} now=${now} />`)}
  </table>`;
}

function Rows({ run, now }) {
  const environments = run.environments.length ? run.environments : [null];
  const span = environments.length;
  return html`<tbody>
    ${environments.map(
      (environment, place) => html`<tr key=${environment?.name ?? ""}>
        ${place === 0 &&
        html`<th scope="rowgroup" rowspan=${span}>
            <a href=${href(["runs", run.project, run.run])}><span class="project">${run.project} / </span>${run.run}</a>
            <div class="badges">
              ${run.state === "completed" && html`<span class="badge">completed</span>`}
              ${run.mode !== "active" && html`<${ModeBadge} mode=${run.mode} />`}
              ${run.branch !== "main" && html`<span class="badge">${run.branch}</span>`}
              ${run.warnings.map((reason) => html`<${WarningBadge} key=${reason} reason=${reason} />`)}
            </div>
          </th>
          <td class="when" rowspan=${span} title=${run.observe_time ? moment(run.observe_time) : null}>${run.observe_time ? ago(run.observe_time, now) : "never"}</td>
          <td rowspan=${span} class="wide number">${count(run.revision)}</td>
          <td rowspan=${span} class="wide"><${Sparkline} values=${run.sparkline} /></td>`}
        ${environment ? html`<${Numbers} ...${environment} />` : html`<td colspan="6" class="quiet">no observation yet</td>`}
      </tr>`,
    )}
  </tbody>`;
}

function Numbers({ name, phase, alpha, delta, solve_rate: rate, entropy_nats: entropy, target_entropy_nats: target }) {
  const compared = entropy == null || target == null ? "/" : entropy < target ? "<" : "≥";
  return html`<td class="environment">${name}</td>
    <td class="number">${percent(rate)}</td>
    <td class="wide"><${PhaseBadge} phase=${phase} /></td>
    <td class="wide number">${fixed(alpha)}</td>
    <td class="wide number">${fixed(delta)}</td>
    <td class="wide number">${fixed(entropy)} ${compared} ${fixed(target)}</td>`;
}

const [WIDTH, HEIGHT] = [96, 18];
/** A course that spans less is drawn as flat as it is. */
const LEAST_SPAN = 0.1;

/** Average solve rate over the newest observations, as high as it rose and fell. */
function Sparkline({ values }) {
  const known = values.filter((value) => value != null);
  if (known.length < 2) return html`<span class="quiet">too few</span>`;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const span = Math.max(high - low, LEAST_SPAN);
  const bottom = (low + high - span) / 2;
  const step = WIDTH / (known.length - 1);
  const points = known.map((value, place) => `${(place * step).toFixed(1)},${(1 + (1 - (value - bottom) / span) * (HEIGHT - 2)).toFixed(1)}`);
  const [from, to] = [known[0], known.at(-1)].map((value) => percent(value, 0));
  return html`<svg class="spark" role="img" aria-label=${`Solve rate from ${from} to ${to}`} width=${WIDTH} height=${HEIGHT} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`}>
    <polyline points=${points.join(" ")} />
  </svg>`;
}

function Empty({ searched }) {
  if (searched) return html`<p class="quiet">No run matches.</p>`;
  return html`<div class="notice">
    <p>No run yet. A trainer makes one with its first report:</p>
    <pre><code>from fade_client import FadeClient

fade = FadeClient("localhost:50051", run="my-run")
schedule = fade.observe("batch-0", rewards=rewards, groups=groups)</code></pre>
  </div>`;
}

function Pages({ overview, page, at }) {
  const last = Math.ceil(overview.total / overview.page_size) - 1;
  if (last < 1) return null;
  const to = (number) => go(at({ page: number ? number + 1 : "" }));
  return html`<nav class="pages" aria-label="Pages of runs">
    <button type="button" disabled=${page === 0} onClick=${() => to(page - 1)}>Previous</button>
    <span>Page ${page + 1} of ${last + 1}</span>
    <button type="button" disabled=${page >= last} onClick=${() => to(page + 1)}>Next</button>
  </nav>`;
}
