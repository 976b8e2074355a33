// What other settings would have done along the telemetry that the run recorded.

import { mayPass, post, RETRY_MS } from "./api.js";
import { revisionAxis } from "./axes.js";
import { Chart } from "./chart.js";
import { LinesLegend, linesOption, lookOf } from "./compare.js";
import { useFields } from "./config.js";
import { brief, count, fixed, percent } from "./format.js";
import { html, useEffect, useMemo, useState } from "./lib.js";
import { Problem, useSettled } from "./parts.js";
import { href } from "./hash.js";
import { go } from "./route.js";
import { Meanings, Setting } from "./setting.js";
import { between, bounds, viewQuery } from "./view.js";

const MOST_SETTINGS = 4;
const POINTS = 600;
/** A slider on its way does not ask for each place that it passes. */
const SETTLING_MS = 60;
const ADDRESS_MS = 300;

const NOTE =
  "Solve rates and entropies stay as the run recorded them. A policy trained on another schedule would have reported others, " +
  "so the further a setting is from the run's own, the less this tells.";

const nats = (value) => fixed(value, 3);

const PANELS = [
  { column: "alpha", title: "Alpha", about: "Above 1: hard prompts weigh more.", format: fixed, range: [0, null] },
  { column: "delta", title: "Delta", about: "Below 1: failures weigh more.", format: fixed, range: [0, null] },
  { column: "solve_rate", title: "Average solve rate", about: "Sets alpha; ema_weight says how slowly it follows.", format: percent, range: [0, 1], interval: 0.25 },
  { column: "entropy_nats", title: "Average entropy and targets", about: "Nats per token. Dotted: each one's target, under which delta falls below 1.", format: nats },
];

/** Settings stand in the address: set=alpha_max:4,ema_weight:0.05 for each. */
export function WhatIf({ data, config, environment, view, project, run, branch, path, kept, query }) {
  const [fields, fieldsProblem] = useFields();
  const [settings, change] = useState(() => read(query));
  const { head, branch: line } = data.series;
  const { answer, problem, busy, again } = useSimulation(project, run, branch, settings, line);
  const to = (next, shown) => href([...path, "what-if"], [...Object.entries({ ...kept, ...viewQuery(shown) }), ...written(next)]);
  const settled = useSettled(settings, ADDRESS_MS);
  useEffect(() => go(to(settled, view), { replace: true }), [settled]);

  const range = bounds(view, answer?.revision ?? head);
  const zoomed = (from, until) => go(to(settings, between(from, until, head)));
  const curves = useMemo(() => (answer ? curvesOf(answer, environment) : []), [answer, environment]);
  return html`
    <p class="notice">${answer?.note ? sentence(answer.note) : NOTE}</p>
    <${Problem} error=${problem ?? fieldsProblem} />
    <div class="beside">
      <div class="settings">
        ${fields &&
        config &&
        settings.map(
          (setting, place) => html`<${Setting}
            key=${place}
            name=${nameOf(place)}
            look=${lookOf(place)}
            ...${{ fields, config, setting, columns: data.series.environments[environment] }}
            onChange=${(next) => change(settings.with(place, next))}
            onRemove=${settings.length > 1 ? () => change(settings.filter((_, other) => other !== place)) : null}
          />`,
        )}
        ${settings.length < MOST_SETTINGS &&
        html`<button type="button" class="add" onClick=${() => change([...settings, settings.at(-1)])}>Add setting ${nameOf(settings.length)}</button>`}
        ${fields && html`<${Meanings} fields=${fields} />`}
      </div>
      <div>
        <div class="standing">
          <p class="quiet" role="status">${busy ? "Computing." : answer ? `Recorded up to revision ${count(answer.revision)}.` : ""}</p>
          ${answer && head > answer.revision && html`<button type="button" disabled=${busy} onClick=${again}>Go on to revision ${count(head)}</button>`}
          ${view.kind !== "all" && html`<button type="button" onClick=${() => go(to(settings, { kind: "all" }))}>Whole run</button>`}
        </div>
        <div class="panels two">
          ${curves.length > 0 && PANELS.map((panel) => html`<${Panel} key=${panel.column} ...${{ panel, curves, range, zoomed }} />`)}
        </div>
        ${curves.length > 0 && html`<${Outcomes} curves=${curves} />`}
      </div>
    </div>
  `;
}

function Panel({ panel, curves, range, zoomed }) {
  const lines = curves.map((curve) => ({ ...curve.look, name: curve.name, points: points(curve, panel.column) }));
  const targets = panel.column === "entropy_nats" ? targetsOf(curves) : [];
  const newest = lines.map((line) => `${line.name} ${panel.format(line.points.at(-1)?.[1])}`).join(", ");
  const x = { axis: (colours) => revisionAxis(colours, ...range), head: (revision) => `revision ${count(revision)}` };
  const y = { ...panel, axis: panel.format === percent ? (value) => percent(value, 0) : brief };
  return html`<figure class="panel">
    <figcaption>
      <h2>${panel.title}</h2>
      <p class="about">${panel.about}</p>
      <${LinesLegend} lines=${lines} format=${panel.format} />
    </figcaption>
    <${Chart} option=${(colours) => linesOption([...lines, ...targets], x, y, colours)} inputs=${[curves, ...range]} label=${`${panel.title}, newest: ${newest}.`} onZoom=${zoomed} />
  </figure>`;
}

/** Where each setting ends, and what it did on the way. */
function Outcomes({ curves }) {
  const mean = (column) => column.reduce((sum, value) => sum + value, 0) / column.length;
  return html`<section>
    <h2 id="outcomes">Outcome</h2>
    <div class="scroll" role="region" aria-labelledby="outcomes" tabindex="0">
      <table class="stacks">
        <thead>
          <tr>
            <th scope="col">Setting</th>
            <th scope="col" class="number">Newest alpha</th>
            <th scope="col" class="number">Mean alpha</th>
            <th scope="col" class="number">Newest delta</th>
            <th scope="col" class="number">Mean delta</th>
            <th scope="col" class="number">Failures weighed more</th>
          </tr>
        </thead>
        <tbody>
          ${curves.map(
            ({ name, columns }) => html`<tr key=${name}>
              <th scope="row">${name}</th>
              <td class="number" data-name="newest alpha">${fixed(columns.alpha.at(-1))}</td>
              <td class="number" data-name="mean alpha">${fixed(mean(columns.alpha))}</td>
              <td class="number" data-name="newest delta">${fixed(columns.delta.at(-1))}</td>
              <td class="number" data-name="mean delta">${fixed(mean(columns.delta))}</td>
              <td class="number" data-name="failures weighed more in">${percent(mean(columns.delta.map((value) => Number(value < 1))), 0)} of observations</td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>
  </section>`;
}

/**
 * The newest settings' answer: an older one that comes late is dropped, and what is drawn stays until then. `line` is the branch
 * that is watched now, `again()` asks for what was recorded since.
 */
function useSimulation(project, run, branch, settings, line) {
  const [state, set] = useState({ answer: null, problem: null, busy: true });
  const [turn, setTurn] = useState(0);
  const settled = useSettled(settings, SETTLING_MS);
  useEffect(() => {
    const own = new AbortController();
    const body = { branch, points: POINTS, settings: settled.map((config, place) => ({ label: nameOf(place), config })) };
    let timer = 0;
    const ask = async () => {
      try {
        set({ answer: await post(["runs", project, run, "simulate"], body, own.signal), problem: null, busy: false });
      } catch (problem) {
        if (own.signal.aborted) return;
        set((old) => ({ ...old, problem, busy: false }));
        if (mayPass(problem)) timer = setTimeout(ask, RETRY_MS);
      }
    };
    set((old) => ({ ...old, busy: true }));
    ask();
    return () => {
      clearTimeout(timer);
      own.abort();
    };
  }, [settled, line, turn]);
  return { ...state, again: () => setTurn(turn + 1) };
}

function curvesOf(answer, environment) {
  const recorded = { name: "Recorded", look: { colour: "text", dash: "solid", back: true }, columns: answer.recorded[environment] };
  const simulated = answer.simulations.map(({ label, environments }, place) => ({
    name: `Setting ${label}`,
    look: lookOf(place),
    columns: environments[environment],
  }));
  return [recorded, ...simulated].filter((curve) => curve.columns?.revision.length);
}

const points = ({ columns }, name) => columns.revision.map((revision, place) => [revision, columns[name][place]]);

function targetsOf(curves) {
  return curves.map((curve) => ({
    ...curve.look,
    back: true,
    dash: "dotted",
    name: `${curve.name}: target`,
    points: points(curve, "target_entropy_nats"),
  }));
}

const nameOf = (place) => "ABCD"[place];

const sentence = (text) => `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}`;

function read(query) {
  const settings = query.getAll("set").slice(0, MOST_SETTINGS);
  return settings.length ? settings.map((text) => Object.fromEntries(text.split(",").filter(Boolean).map(pair))) : [{}];
}

function pair(text) {
  const [name, value = ""] = text.split(":", 2);
  return [name, value !== "" && Number.isFinite(Number(value)) ? Number(value) : value];
}

/** Pairs for the address; one setting that changes nothing is what there is without any. */
function written(settings) {
  if (settings.length === 1 && Object.keys(settings[0]).length === 0) return [];
  return settings.map((setting) => [
    "set",
    Object.entries(setting)
      .map(([name, value]) => `${name}:${value}`)
      .join(",") || ",",
  ]);
}
