// A run's live charts, and what is zoomed to.

import { Chart } from "./chart.js";
import { count } from "./format.js";
import { Headline } from "./headline.js";
import { html, useEffect, useMemo, useState } from "./lib.js";
import { Marks } from "./marks.js";
import { PANELS, panelOption, summary } from "./panels.js";
import { href } from "./hash.js";
import { go } from "./route.js";
import { marksOf, newestOf } from "./series.js";
import { between, bounds, moved, stretched, viewQuery } from "./view.js";

/** The newest numbers and the charts of one environment. */
export function Live({ data, config, environment, view, path, query }) {
  const { series, busy } = data;
  const columns = series.environments[environment];
  const newest = newestOf(series, environment);
  const [from, to] = bounds(view, series.head);
  const marks = useMemo(() => marksOf(series, environment, from, to), [series, environment, from, to]);
  const show = (next, options) => go(href(path, { ...query, newest: "", from: "", to: "", ...viewQuery(next) }), options);
  const zoomed = (from, to) => show(between(from, to, series.head));
  return html`
    <${Headline} newest=${newest} config=${config} />
    <${Zoom} view=${view} series=${series} busy=${busy} show=${show} />
    <div class="panels">
      ${PANELS.map(
        (panel) => html`<figure key=${panel.id} class="panel" id=${`panel-${panel.id}`}>
          <figcaption>
            <h2>${panel.title}</h2>
            <p class="about">${panel.about}</p>
            <${Legend} panel=${panel} newest=${newest} />
          </figcaption>
          <${Chart}
            option=${(colours) => panelOption(panel, columns, marks, [from, to], series.stretch, colours)}
            inputs=${[columns, marks, from, to]}
            label=${summary(panel, newest)}
            onZoom=${zoomed}
          />
        </figure>`,
      )}
    </div>
    <${Marks} marks=${marks} head=${series.head} path=${path} query=${query} />
  `;
}

/** Names and newest values: the legend, and the chart in words. */
function Legend({ panel, newest }) {
  return html`<ul class="legend">
    ${panel.lines.map(
      (line) => html`<li key=${line.column}>
        <span class=${`swatch ${line.colour} ${line.back || line.faint ? "back" : ""} ${line.dash ? "dash" : ""}`} aria-hidden="true"></span>
        ${line.name} <b>${panel.format(newest[line.column])}</b>
      </li>`,
    )}
  </ul>`;
}

function Zoom({ view, series, busy, show }) {
  const head = series.head;
  const [from, to] = bounds(view, head);
  const points = series.stretch > 1 ? `each point is the average of ${count(series.stretch)}` : "every observation is shown";
  const pressed = (kind, size) => String(view.kind === kind && view.count === size);
  return html`<section class="zoom" aria-label="Revisions shown">
    <div class="buttons">
      <button type="button" aria-pressed=${pressed("all")} onClick=${() => show({ kind: "all" })}>Whole run</button>
      ${[100, 1000]
        .filter((size) => size < head)
        .map(
          (size) => html`<button key=${size} type="button" aria-pressed=${pressed("newest", size)} onClick=${() => show({ kind: "newest", count: size })}>
            Newest ${count(size)}
          </button>`,
        )}
      <button type="button" onClick=${() => show(stretched(view, head, 0.5))} aria-label="Zoom in">+</button>
      <button type="button" onClick=${() => show(stretched(view, head, 2))} aria-label="Zoom out">−</button>
      <button type="button" onClick=${() => show(moved(view, head, -0.5))} aria-label="Earlier">←</button>
      <button type="button" onClick=${() => show(moved(view, head, 0.5))} aria-label="Later">→</button>
    </div>
    <${Range} from=${from} to=${to} head=${head} show=${show} />
    <p class="quiet" aria-live="off">
      ${points}${view.kind === "range" ? "" : ", live"}${busy ? ", loading finer points" : ""}
      <span class="fine">; drag across a chart to zoom</span>
    </p>
  </section>`;
}

function Range({ from, to, head, show }) {
  const [edited, edit] = useState(null);
  useEffect(() => edit(null), [from, to]);
  const submit = (event) => {
    event.preventDefault();
    const [first, last] = [Number(event.target.first.value), Number(event.target.last.value)];
    if (first < last) show(between(first, last, head));
  };
  const input = (name, value, text) => html`<label>
    <span>${text}</span>
    <input name=${name} type="number" min="1" max=${head} value=${edited?.[name] ?? value} onInput=${(event) => edit({ ...edited, [name]: event.target.value })} />
  </label>`;
  return html`<form class="range" onSubmit=${submit}>
    ${input("first", from, "Revisions")} ${input("last", to, "to")}
    ${edited && html`<button type="submit">Show</button>`}
  </form>`;
}
