// The page of one run: its heading, branch and environment, and what is below them.

import { configOf } from "./config.js";
import { ago, count, moment } from "./format.js";
import { html } from "./lib.js";
import { Later } from "./later.js";
import { Live } from "./live.js";
import { Connection, ModeBadge, Problem, useNow, useTitle, WarningBadge } from "./parts.js";
import { href } from "./hash.js";
import { go } from "./route.js";
import { isGone, useRunData } from "./run_data.js";
import { readView, viewQuery } from "./view.js";
import { MODES } from "./words.js";

const TABS = { "": "Live", "what-if": "What-if", operate: "Operate" };

/** `tab` is a key of TABS, `query` what stands behind "?" in the address. */
export function RunPage({ project, run, tab, query }) {
  const branch = query.get("branch") ?? "";
  return html`<${RunOfBranch} key=${JSON.stringify([project, run, branch])} ...${{ project, run, branch, tab, query }} />`;
}

function RunOfBranch({ project, run, branch, tab, query }) {
  useTitle(`${run} (${project})`);
  const view = readView(query);
  const data = useRunData(project, run, branch, view);
  const { message, series, problem } = data;
  const environments = series ? Object.keys(series.environments) : [];
  const wanted = query.get("env");
  const environment = environments.includes(wanted) ? wanted : environments[0];
  const path = ["runs", project, run];
  const kept = { branch, env: wanted ?? "" };
  const gone = problem !== null && isGone(problem);
  const config = message && configOf(message);
  return html`<main id="content" class="run">
    <${Heading} ...${{ project, run, data, config: gone ? null : config, gone }} />
    <div class="bar">
      <nav class="tabs" aria-label="About this run">
        ${Object.entries(TABS).map(
          ([name, title]) => html`<a key=${name} href=${href(name ? [...path, name] : path, { ...kept, ...viewQuery(view) })} aria-current=${name === tab ? "page" : null}>${title}</a>`,
        )}
      </nav>
      <${Choices} ...${{ message, branch, environments, environment, query, path: tab ? [...path, tab] : path }} />
    </div>
    <${Problem} error=${gone ? noRun(project, run) : problem} />
    ${!gone && series?.newest?.warnings?.length > 0 && html`<${Warnings} warnings=${series.newest.warnings} />`}
    ${!(gone && tab === "operate") && body({ data, message, config, environment, view, tab, project, run, branch, path, kept, query })}
  </main>`;
}

const loadOperate = () => import("./operate.js").then((module) => module.Operate);
const loadWhatIf = () => import("./what_if.js").then((module) => module.WhatIf);

function body(all) {
  const { data, message, environment, tab } = all;
  if (tab === "operate" && message) return html`<${Later} load=${loadOperate} ...${all} />`;
  if (!data.series) return data.problem ? null : html`<p class="quiet loading">Loading.</p>`;
  if (!environment) {
    return html`<p class="quiet loading">No observation yet. The charts start with the trainer's first report.</p>`;
  }
  if (tab === "what-if") return html`<${Later} key=${environment} load=${loadWhatIf} ...${all} />`;
  return html`<${Live} ...${all} query=${{ ...all.kept, ...viewQuery(all.view) }} />`;
}

const noRun = (project, run) =>
  new Error(`There is no run ${run} in project ${project}: it was deleted, or no trainer has made it yet. This page goes on as soon as one does.`);

function Heading({ project, run, data, config, gone }) {
  const { message, series, connection, problem } = data;
  const completed = !gone && message?.state === "STATE_COMPLETED";
  const now = useNow();
  const newest = series?.newest;
  const reported = newest ? newest.time * 1000 : Date.parse(message?.observe_time ?? "");
  return html`<div class="heading">
    <div>
      <p class="crumbs"><a href="#/">Runs</a> / ${project} /</p>
      <h1 tabindex="-1">${run}</h1>
      ${completed && html`<span class="badge">completed</span>`}
      ${config && !(completed && config.mode === "active") && html`<${ModeBadge} mode=${config.mode} />`}
      ${!gone && (series || !problem) && html`<${Connection} state=${connection} />`}
    </div>
    ${config && html`<p class="quiet">${completed ? "The trainer has ended this run: it takes no more reports." : MODES[config.mode]}</p>`}
    ${series &&
    html`<p class="facts">
      <span>revision <b class="revision">${count(series.head)}</b></span>
      ${newest?.trainer_step != null && html`<span>trainer step <b>${count(newest.trainer_step)}</b></span>`}
      ${Number.isFinite(reported) && html`<span>last report <b title=${moment(reported / 1000)}>${ago(new Date(reported).toISOString(), now)}</b></span>`}
      ${newest?.observation_id && html`<span>observation <b class="id">${newest.observation_id}</b></span>`}
    </p>`}
  </div>`;
}

function Choices({ message, branch, environments, environment, query, path }) {
  const choose = (name) => (event) => go(href(path, { ...Object.fromEntries(query), [name]: event.target.value }));
  if (!message) return null;
  const branches = [...message.branches].reverse();
  return html`<div class="choices">
    <label>
      <span>Branch</span>
      <select value=${branch} onChange=${choose("branch")} disabled=${branches.length < 2 && !branch}>
        <option value="">${`${message.branch} (current)`}</option>
        ${branches
          .filter((each) => each.id !== message.branch || each.id === branch)
          .map((each) => html`<option key=${each.id} value=${each.id}>${each.id}</option>`)}
      </select>
    </label>
    ${environments.length > 0 &&
    html`<label>
      <span>Environment</span>
      <select value=${environment} onChange=${choose("env")} disabled=${environments.length < 2}>
        ${environments.map((name) => html`<option key=${name} value=${name}>${name}</option>`)}
      </select>
    </label>`}
  </div>`;
}

function Warnings({ warnings }) {
  return html`<section class="notice warnings" aria-label="Warnings of the newest observation">
    <ul>
      ${warnings.map(
        (warning) => html`<li key=${`${warning.reason} ${warning.environment}`}>
          <${WarningBadge} reason=${warning.reason} /> ${warning.environment && html`<b>${warning.environment}</b>: `}${warning.text}
        </li>`,
      )}
    </ul>
  </section>`;
}
