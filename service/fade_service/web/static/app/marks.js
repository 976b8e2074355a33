// What happened along the line: warnings, configuration changes, late reports.

import { count } from "./format.js";
import { html, useState } from "./lib.js";
import { href } from "./hash.js";
import { go } from "./route.js";
import { keyOf } from "./series.js";
import { between } from "./view.js";
import { MARKS, reasonWords } from "./words.js";

const FEW = 12;
/** Revisions shown on either side of a mark that was chosen. */
const AROUND = 100;

/** The marks in the view, newest first; choosing one zooms to it. */
export function Marks({ marks, head, path, query }) {
  const [all, showAll] = useState(false);
  const newestFirst = folded(marks).reverse();
  const shown = all ? newestFirst : newestFirst.slice(0, FEW);
  const zoomTo = (revision) => {
    const view = between(revision - AROUND, revision + AROUND, head);
    go(href(path, { ...query, newest: "", from: view.from, to: view.to }));
  };
  return html`<section>
    <h2 id="marks">Marks <span class="aside">warnings, configuration changes and late reports in this view</span></h2>
    ${marks.length === 0 && html`<p class="quiet">None.</p>`}
    ${marks.length > 0 &&
    html`<div class="scroll" role="region" aria-labelledby="marks" tabindex="0">
      <table class="marks stacks">
        <thead>
          <tr><th scope="col" class="number">Revision</th><th scope="col">Kind</th><th scope="col">Environment</th><th scope="col">What</th></tr>
        </thead>
        <tbody>
          ${shown.map(
            (mark) => html`<tr key=${keyOf(mark)}>
              <td class="number">
                <button class="link" type="button" onClick=${() => zoomTo(mark.revision)} title="Zoom to it">${count(mark.revision)}</button>
              </td>
              <td><span class="kind"><${Sign} kind=${mark.kind} /> ${MARKS[mark.kind].name}</span></td>
              <td>${mark.environment || html`<span class="kind">all environments</span>`}</td>
              <td class="text">
                ${what(mark)}
                ${mark.times > 1 && html` <span class="quiet">The newest of ${count(mark.times)} times since revision ${count(mark.since)}.</span>`}
              </td>
            </tr>`,
          )}
        </tbody>
      </table>
    </div>`}
    ${newestFirst.length > FEW &&
    html`<button type="button" onClick=${() => showAll(!all)}>${all ? "Show fewer" : `Show all ${count(newestFirst.length)}`}</button>`}
  </section>`;
}

/** A mark's sign as charts have it. */
export const Sign = ({ kind }) => html`<span class=${`sign ${kind}`} aria-hidden="true">${MARKS[kind].sign}</span>`;

/** The same thing over and over is one entry: the newest, with how often it began and since when. */
function folded(marks) {
  const entries = [];
  for (const mark of marks) {
    const last = entries.at(-1);
    const same = last && mark.kind !== "config" && ["kind", "reason", "environment"].every((key) => last[key] === mark[key]);
    if (same) entries[entries.length - 1] = { ...mark, times: last.times + 1, since: last.since };
    else entries.push({ ...mark, times: 1, since: mark.revision });
  }
  return entries;
}

function what(mark) {
  if (mark.kind === "warning") return html`<strong>${reasonWords(mark.reason)}</strong>: ${mark.text}`;
  if (mark.kind === "config" && mark.reason) return html`${mark.text}. <q>${mark.reason}</q>`;
  return mark.text;
}
