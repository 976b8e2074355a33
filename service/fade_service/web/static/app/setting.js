// One setting of the what-if page: sliders for the fields that matter.

import { shown, valueOf } from "./config.js";
import { brief } from "./format.js";
import { html } from "./lib.js";
import { Doc } from "./parts.js";
import { Swatch } from "./swatch.js";

/** Where the sliders end; a value beyond is the form's of Operate to give. */
const SLIDERS = [
  { name: "alpha_min", low: 1, high: 4, step: 0.05 },
  { name: "alpha_max", low: 1, high: 6, step: 0.05 },
  { name: "delta_min", low: 0.05, high: 1, step: 0.01 },
  { name: "delta_max", low: 0.3, high: 1.5, step: 0.01 },
  { name: "delta", low: 0.05, high: 1.5, step: 0.01, only: (values) => values.delta_rule === "fixed" },
  { name: "target_entropy_nats", low: 0.01, high: null, step: 0.01 },
  { name: "ema_weight", low: 0.001, high: 1, step: 0.01, log: true },
];

/**
 * `setting` holds the fields that differ from the run's `config`; `onChange` gets the next one. `columns` are the environment's
 * series, from which the entropies' range comes. `onRemove` is null for the last one.
 */
export function Setting({ name, look, fields, config, setting, columns, onChange, onRemove }) {
  const field = (wanted) => fields.find((each) => each.name === wanted);
  const own = (wanted) => valueOf(config, field(wanted));
  const values = new Proxy({}, { get: (_, wanted) => setting[wanted] ?? own(wanted) });
  const put = (wanted, value) => {
    const { [wanted]: _, ...rest } = setting;
    onChange(value === own(wanted) ? rest : { ...rest, [wanted]: value });
  };
  const rules = field("delta_rule");
  return html`<fieldset class="setting">
    <legend>
      <${Swatch} ...${look} /> Setting ${name}
    </legend>
    <div class="buttons">
      <button type="button" disabled=${Object.keys(setting).length === 0} onClick=${() => onChange({})}>As the run</button>
      ${onRemove && html`<button type="button" onClick=${onRemove} aria-label=${`Remove setting ${name}`}>Remove</button>`}
    </div>
    <label class="slider">
      <span>delta_rule</span>
      <select value=${values.delta_rule} onChange=${(event) => put("delta_rule", event.target.value)} title=${rules.doc}>
        ${rules.choices.map((choice) => html`<option key=${choice} value=${choice}>${choice}</option>`)}
      </select>
    </label>
    ${SLIDERS.filter((slider) => !slider.only || slider.only(values)).map(
      (slider) => html`<${Slider}
        key=${slider.name}
        ...${slider}
        high=${slider.high ?? highest(columns)}
        field=${field(slider.name)}
        value=${values[slider.name]}
        unset=${columns?.target_entropy_nats?.at(-1)}
        own=${own(slider.name)}
        onInput=${(value) => put(slider.name, value)}
      />`,
    )}
  </fieldset>`;
}

/** What the fields of the sliders do, in words of the table of fields. */
export function Meanings({ fields }) {
  const names = ["delta_rule", ...SLIDERS.map((slider) => slider.name)];
  return html`<details class="meanings">
    <summary>What these do</summary>
    <dl>
      ${names.map(
        (name) => html`<dt key=${name}><code>${name}</code></dt>
          <dd key=${`${name} does`}><${Doc} text=${fields.find((field) => field.name === name).doc} /></dd>`,
      )}
    </dl>
  </details>`;
}

function Slider({ name, low, high, step, log, field, value, unset, own, onInput }) {
  const [to, from] = log ? [Math.log10, (place) => Number((10 ** place).toPrecision(2))] : [Number, Number];
  const place = value ?? unset ?? high / 2;
  const told = value == null ? `unset (${brief(unset)})` : brief(value, 4);
  return html`<label class="slider" title=${field.doc}>
    <span>${name}${field.unit && html` <small>${field.unit}</small>`}</span>
    <span class=${value === own ? "told" : "told changed"}>${told}${value === own ? "" : html` <small>run: ${shown(own)}</small>`}</span>
    <input
      type="range"
      name=${name}
      aria-label=${`${name} ${field.unit}`.trim()}
      min=${to(low)}
      max=${to(high)}
      step=${step}
      value=${to(place)}
      aria-valuetext=${told}
      onInput=${(event) => onInput(from(event.target.value))}
    />
  </label>`;
}

/** Twice the largest entropy seen, to the next tenth. */
function highest(columns) {
  const seen = [...(columns?.entropy_nats ?? []), ...(columns?.target_entropy_nats ?? [])].filter((value) => value != null);
  return Math.max(0.1, Math.ceil(20 * Math.max(...seen, 0)) / 10);
}
