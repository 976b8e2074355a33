// A run's live charts, and what is zoomed to.

import { Chart } from "./chart.js";
import { count } from "./format.js";
import { Headline } from "./headline.js";
import { html, useEffect, useMemo, useState } from "./lib.js";
import { Marks, Sign } from "./marks.js";
import { PANELS, panelOption, summary } from "./panels.js";
import { href } from "./hash.js";
import { go } from "./route.js";
import { lastOf, marksOf, newestOf } from "./series.js";
import { AreaSwatch, Swatch } from "./swatch.js";
import { between, bounds, moved, stretched, viewQuery } from "./view.js";
import { MARKS } from "./words.js";

/** The newest numbers and the charts of one environment. */
export function Live({ data, config, environment, view, path, query }) {
  const { series, busy } = data;
  const columns = series.environments[environment];
  const newest = newestOf(series, environment);
  const drawn = view.kind === "range" ? lastOf(columns) : newest;
  const [from, to] = bounds(view, series.head);
  const marks = useMemo(() => marksOf(series, environment, from, to), [series, environment, from, to]);
  const show = (next, options) => go(href(path, { ...query, newest: "", from: "", to: "", ...viewQuery(next) }), options);
  const zoomed = (from, to) => show(between(from, to, series.head));
  return html`
    <${Headline} newest=${newest} config=${config} />
    <${Zoom} ...${{ view, series, busy, show, marks }} />
    <div class="panels">
      ${PANELS.map(
        (panel) => html`<figure key=${panel.id} class="panel" id=${`panel-${panel.id}`}>
          <figcaption>
            <h2>${panel.title}</h2>
            <p class="about">${panel.about}</p>
            <${Legend} panel=${panel} values=${drawn} />
          </figcaption>
          <${Chart}
            option=${(colours) => panelOption(panel, columns, marks, [from, to], series.stretch, colours)}
            inputs=${[columns, marks, from, to]}
            label=${summary(panel, drawn)}
            onZoom=${zoomed}
          />
        </figure>`,
      )}
    </div>
    <${Marks} marks=${marks} head=${series.head} path=${path} query=${query} />
  `;
}

/** Names, and values at the right end of the chart. */
function Legend({ panel, values }) {
  return html`<ul class="legend">
    ${panel.lines.map(
      (line) => html`<li key=${line.column}>
        <${panel.stacked ? AreaSwatch : Swatch} ...${line} /> ${line.name} <b>${panel.format(values[line.column])}</b>
      </li>`,
    )}
  </ul>`;
}

function Zoom({ view, series, busy, show, marks }) {
  const head = series.head;
  const [from, to] = bounds(view, head);
  const points = series.stretch > 1 ? `each point is the average of ${count(series.stretch)}` : "every observation is shown";
  const pressed = (kind, size) => String(view.kind === kind && view.count === size);
  const step = (sign, name, next) => {
    const isSame = String(bounds(next, head)) === String([from, to]);
    return html`<button type="button" disabled=${isSame} onClick=${() => show(next)} aria-label=${name} title=${name}>${sign}</button>`;
  };
  const kinds = Object.keys(MARKS).filter((kind) => marks.some((mark) => mark.kind === kind));
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
      ${step("+", "Zoom in", stretched(view, head, 0.5))} ${step("−", "Zoom out", stretched(view, head, 2))}
      ${step("←", "Earlier", moved(view, head, -0.5))} ${step("→", "Later", moved(view, head, 0.5))}
    </div>
    <${Range} from=${from} to=${to} head=${head} show=${show} />
    <p class="quiet" aria-live="off">
      ${points}${view.kind === "range" ? "" : ", live"}${busy ? ", loading finer points" : ""}
      <span class="fine">; drag across a chart to zoom</span>
    </p>
    ${kinds.length > 0 && html`<p class="quiet signs">${kinds.map((kind) => html`<span key=${kind}><${Sign} kind=${kind} /> ${MARKS[kind].name}</span>`)}</p>`}
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
