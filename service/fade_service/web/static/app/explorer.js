// Where each advantage puts its gradient mass: curves, axes, formulas and sources.

import { useAnswer } from "./answer.js";
import { xAxis } from "./axes.js";
import { Chart } from "./chart.js";
import { LinesLegend, linesOption, lookOf } from "./compare.js";
import { brief, fixed, percent } from "./format.js";
import { html, useEffect, useMemo, useState } from "./lib.js";
import { Problem, useSettled, useTitle } from "./parts.js";
import { href } from "./hash.js";
import { go } from "./route.js";
import { Swatch } from "./swatch.js";

const START = ["grpo_mean", "grpo_std", "fade:alpha=3,delta=0.3", "maxrl"];
const MOST = 12;
const SETTLING_MS = 150;
const NONE = [];

const PANELS = [
  { column: "mass_success", title: "Success mass mS(p)", about: "How hard successes pull, on prompts of solve rate p." },
  { column: "mass_failure", title: "Failure mass mF(p)", about: "How hard failures push, on prompts of solve rate p." },
  { column: "population_weight", title: "Population weight w(p)", about: "The expected gradient of a prompt is w(p) grad p." },
  { column: "sign_ratios", title: "Sign ratio mS/mF", about: "Logarithmic; above 1 successes outweigh failures. Nothing where one of them is 0.", log: true },
];

/** `query` has a (an advantage as name:parameter=value,..., several times) and g (the group's size). */
export function ExplorerPage({ query }) {
  useTitle("Decomposition explorer");
  const [registered, problemOfList] = useAnswer(["advantages"]);
  const [chosen, choose] = useState(() => (query.getAll("a").length ? query.getAll("a").slice(0, MOST).map(read) : START.map(read)));
  const [size, resize] = useState(() => Math.min(256, Math.max(2, Number.parseInt(query.get("g"), 10) || 8)));
  const wanted = useSettled(JSON.stringify([size, chosen.map(written)]), SETTLING_MS);
  const [g, all] = JSON.parse(wanted);
  useEffect(() => {
    go(href(["explorer"], [["g", g], ...all.map((text) => ["a", text])]), { replace: true });
  }, [wanted]);
  const [answer, problem] = useAnswer(["decompose"], [["group_size", g], ...all.map((text) => ["advantage", text])]);
  const found = answer?.advantages ?? NONE;
  const lines = useMemo(() => found.map((each, place) => ({ ...lookOf(place), id: `${place} ${each.label}`, name: each.label, found: each })), [found]);
  return html`<main id="content" class="explorer">
    <div class="heading">
      <h1 tabindex="-1">Decomposition explorer</h1>
      <p class="quiet">Where rewards say only solved or failed, an advantage is a weight wS on each success and wF on each failure of a group. p is the prompt's solve rate, q = 1 − p.</p>
    </div>
    <${Problem} error=${problem ?? problemOfList} />
    ${registered &&
    html`<section class="chosen" aria-label="Advantages shown">
      <label class="size">
        <span>Rollouts per group, G</span>
        <input type="number" name="g" min="2" max="256" value=${size} onInput=${(event) => event.target.validity.valid && event.target.value && resize(Number(event.target.value))} />
      </label>
      ${chosen.map(
        (each, place) => html`<${Chosen}
          key=${place}
          ...${{ each, registered, look: lookOf(place) }}
          onChange=${(next) => choose(chosen.with(place, next))}
          onRemove=${chosen.length > 1 ? () => choose(chosen.filter((_, other) => other !== place)) : null}
        />`,
      )}
      ${chosen.length < MOST && html`<${Add} registered=${registered} onAdd=${(name) => choose([...chosen, { name, parameters: {} }])} />`}
    </section>`}
    <div class="panels two">${lines.length > 0 && PANELS.map((panel) => html`<${Panel} key=${panel.column} panel=${panel} lines=${lines} />`)}</div>
    ${lines.length > 0 && registered && html`<${Axes} lines=${lines} registered=${registered} />`}
  </main>`;
}

function Panel({ panel, lines }) {
  const drawn = lines.map((line) => ({ ...line, points: line.found.solve_rate.map((p, place) => [p, positive(line.found[panel.column][place], panel.log)]) }));
  const x = { axis: (colours) => xAxis(colours, "p, the prompt's solve rate", 0, 1, (p) => fixed(p, 1)), head: (p) => `p = ${fixed(p, 3)}` };
  const y = { range: panel.log ? undefined : [0, null], format: (value) => brief(value, 4), axis: (value) => brief(value, 3), log: panel.log };
  const half = drawn.map((line) => `${line.name} ${brief(line.points[(line.points.length - 1) / 2][1])}`).join(", ");
  return html`<figure class="panel">
    <figcaption>
      <h2>${panel.title}</h2>
      <p class="about">${panel.about}</p>
      <${LinesLegend} lines=${drawn} />
    </figcaption>
    <${Chart} option=${(colours) => linesOption(drawn, x, y, colours)} inputs=${[lines]} label=${`${panel.title} against the solve rate p. At p = 0.5: ${half}.`} />
  </figure>`;
}

const positive = (value, log) => (log && !(value > 0) ? null : value);

function Chosen({ each, registered, look, onChange, onRemove }) {
  const known = registered.find((one) => one.name === each.name);
  const put = (name) => (event) => {
    const value = event.target.value;
    if (value !== "" && event.target.validity.valid) onChange({ ...each, parameters: { ...each.parameters, [name]: Number(value) } });
  };
  return html`<div class="one" role="group" aria-label=${each.name}>
    <${Swatch} ...${look} />
    <b class="id">${each.name}</b>
    ${known?.parameters.map(
      (parameter) => html`<label key=${parameter.name}>
        <span>${parameter.name}</span>
        <input
          type="number"
          name=${parameter.name}
          step=${parameter.whole ? 1 : "any"}
          min=${parameter.lowest}
          max=${parameter.highest}
          value=${each.parameters[parameter.name] ?? parameter.default}
          onInput=${put(parameter.name)}
        />
      </label>`,
    )}
    ${onRemove && html`<button type="button" onClick=${onRemove} aria-label=${`Remove ${each.name}`}>Remove</button>`}
  </div>`;
}

/** A button adds it: by the keyboard a list changes with every letter and every arrow. */
function Add({ registered, onAdd }) {
  const submit = (event) => {
    event.preventDefault();
    onAdd(event.target.elements.name.value);
  };
  return html`<form class="add" onSubmit=${submit}>
    <label>
      <span>Another advantage</span>
      <select name="name">
        ${registered.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}
      </select>
    </label>
    <button type="submit">Add</button>
  </form>`;
}

function Axes({ lines, registered }) {
  const source = (name) => registered.find((one) => one.name === name);
  return html`<section>
    <h2 id="axes">Axes <span class="aside">over prompts of every difficulty, p ~ U(0, 1)</span></h2>
    <div class="scroll" role="region" aria-labelledby="axes" tabindex="0">
      <table class="axes stacks">
        <thead>
          <tr>
            <th scope="col">Advantage</th>
            <th scope="col" class="number" title="Total success mass over total failure mass">Sign ratio</th>
            <th scope="col" class="number" title="Mean p under the mass">Centre</th>
            <th scope="col" class="number" title="Standard deviation of p under the mass">Spread</th>
            <th scope="col" class="number" title="The p with the largest mass">Peak</th>
            <th scope="col" class="number" title="Mean mass relative to GRPO without standard deviation">Scale</th>
            <th scope="col">wS</th>
            <th scope="col">wF</th>
            <th scope="col">Source</th>
          </tr>
        </thead>
        <tbody>
          ${lines.map(({ id, name, colour, dash, found }) => {
            const { formula, source: from } = source(found.name) ?? { formula: {} };
            return html`<tr key=${id}>
              <th scope="row"><${Swatch} ...${{ colour, dash }} /> ${name}</th>
              <td class="number" data-name="sign ratio">${signOf(found)}</td>
              <td class="number" data-name="centre">${percent(found.centre)}</td>
              <td class="number" data-name="spread">${percent(found.spread)}</td>
              <td class="number" data-name="peak">${percent(found.peak)}</td>
              <td class="number" data-name="scale">${fixed(found.scale, 3)}</td>
              <td class="formula" data-name="wS"><code>${formula.wS}</code></td>
              <td class="formula" data-name="wF"><code>${formula.wF}</code></td>
              <td class="text">${from}</td>
            </tr>`;
          })}
        </tbody>
      </table>
    </div>
    <p class="quiet">
      Centre, spread and peak say at which solve rate the mass sits; scale is its size relative to GRPO without standard deviation, which acts like a
      learning rate. A dash is what has no value, such as the peak of a mass that is the same everywhere.
    </p>
  </section>`;
}

/** JSON has no infinity: where failures carry no mass at all the ratio is infinite. */
const signOf = (found) => (found.sign_ratio == null && found.mass_success.some((mass) => mass > 0) ? "∞" : fixed(found.sign_ratio, 3));

/** "fade:alpha=3,delta=0.3" as {name, parameters}. */
function read(text) {
  const [name, rest = ""] = text.split(":", 2);
  const pairs = rest.split(",").filter(Boolean).map((pair) => pair.split("=", 2));
  return { name, parameters: Object.fromEntries(pairs.map(([key, value]) => [key, Number(value)])) };
}

function written({ name, parameters }) {
  const given = Object.entries(parameters).map(([key, value]) => `${key}=${value}`);
  return given.length ? `${name}:${given.join(",")}` : name;
}
