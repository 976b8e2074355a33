// Changing a run's configuration: knobs, shadow, pin and unpin, with what changes, a reason, and a confirmation.

import { useAnswer } from "./answer.js";
import { ApiError, patch } from "./api.js";
import { shown, useFields, valueOf } from "./config.js";
import { Confirm } from "./confirm.js";
import { count, fixed, moment } from "./format.js";
import { html, useState } from "./lib.js";
import { Doc, Problem } from "./parts.js";
import { newestOf } from "./series.js";
import { useSession } from "./session.js";
import { MODES } from "./words.js";

/** `config` is the one in force, null until it is known. */
export function Operate({ data, message, config, environment, project, run }) {
  const session = useSession();
  const [fields, problem] = useFields();
  const [edits, edit] = useState({});
  const [asking, ask] = useState(null);
  const [done, tell] = useState("");
  const [refusal, refuse] = useState(null);
  const [history] = useAnswer(["runs", project, run, "config_changes"], {}, message?.config_revision);
  if (!fields || !config) return html`<${Problem} error=${problem} /><p class="quiet loading">Loading.</p>`;

  const admitted = session === undefined || session.role === "admin";
  const completed = message.state === "STATE_COMPLETED";
  const allowed = admitted && !completed;
  const newest = data.series && environment ? newestOf(data.series, environment) : null;
  /** What is asked and confirmed is a change of the configuration as it was then: a newer one is refused, and shown. */
  const review = async (wanted, title) => {
    const change = { config: wanted, etag: message.etag };
    const rows = fields.filter((field) => field.name in wanted).map((field) => ({ field, before: valueOf(config, field), after: wanted[field.name] }));
    refuse(null);
    tell("");
    try {
      await patch(["runs", project, run], { ...change, validate_only: true });
      ask({ change, title, rows, caution: cautionOf(wanted) });
    } catch (error) {
      failed(error);
    }
  };
  const failed = (error) => {
    refuse(error.status === 409 ? conflict(error) : error);
    data.refresh();
  };
  const confirm = async (reason) => {
    try {
      data.learn(await patch(["runs", project, run], { ...asking.change, reason }));
      edit({});
      tell(`Changed: ${asking.title.toLowerCase()}. It takes effect with the next observation.`);
    } catch (error) {
      failed(error);
    }
    ask(null);
  };
  return html`
    ${completed && html`<p class="notice">The trainer has ended this run: nothing here would have an effect any more.</p>`}
    ${!admitted && html`<p class="notice">You see this form but cannot use it: your token <b>${session.token}</b> has the role <b>${session.role}</b>, and changing a run's configuration needs <b>admin</b>. Log out and in again with such a token.</p>`}
    <p role="status" class=${done ? "notice" : "hidden"}>${done}</p>
    <${Problem} error=${refusal} />
    <${Mode} ...${{ config, newest, environment, allowed, review }} />
    <${Knobs} ...${{ fields, config, edits, edit, allowed }} onReview=${() => review(edits, "Knobs")} />
    <${History} ...${{ changes: history?.changes ?? [], fields }} />
    <${Branches} message=${message} />
    ${asking && html`<${Confirm} title=${asking.title} rows=${asking.rows} caution=${asking.caution} onConfirm=${confirm} onCancel=${() => ask(null)} />`}
  `;
}

/** As `fade pin` says it: weights that a run may be pinned at without a word, and what is said of others. */
const USUAL = { alpha: 10, delta: [0.05, 20] };

const cautionOf = ({ pinned_alpha: alpha = 1, pinned_delta: delta = 1 }) =>
  alpha <= USUAL.alpha && USUAL.delta[0] <= delta && delta <= USUAL.delta[1]
    ? ""
    : `Far outside what is usual: alpha up to ${USUAL.alpha}, delta ${USUAL.delta[0]} to ${USUAL.delta[1]}.`;

const conflict = (error) =>
  new ApiError(409, {
    code: "ABORTED",
    reason: error.reason,
    message: `Somebody changed the configuration meanwhile, and nothing of yours was applied (${error.message}). The form shows the newest values beside yours: review again.`,
  });

function Mode({ config, newest, environment, allowed, review }) {
  const [pin, setPin] = useState({});
  const pinned = config.mode === "pinned";
  const start = { alpha: pinned ? config.pinned_alpha : newest?.alpha, delta: pinned ? config.pinned_delta : newest?.delta };
  const value = (name) => pin[name] ?? (start[name] == null ? "1" : fixed(start[name], 3));
  const submit = (event) => {
    event.preventDefault();
    review({ mode: "pinned", pinned_alpha: Number(value("alpha")), pinned_delta: Number(value("delta")) }, "Pin");
  };
  const input = (name, least) => html`<label>
    <span>${name}</span>
    <input type="number" name=${`pinned_${name}`} min=${least} step="any" required value=${value(name)} disabled=${!allowed} onInput=${(event) => setPin({ ...pin, [name]: event.target.value })} />
  </label>`;
  return html`<section aria-labelledby="mode">
    <h2 id="mode">Mode: ${config.mode} <span class="aside">${MODES[config.mode]}</span></h2>
    <div class="modes">
      <form class="pin" onSubmit=${submit}>
        ${input("alpha", 0.5)} ${input("delta", 0.001)}
        <button type="submit" disabled=${!allowed}>${pinned ? "Pin at these" : "Pin"}</button>
        <p class="quiet">Holds both for every environment${newest ? `; filled in with what ${pinned ? "is pinned" : `${environment} has now`}` : ""}.</p>
      </form>
      <div class="buttons">
        ${pinned && html`<button type="button" disabled=${!allowed} onClick=${() => review({ mode: "active" }, "Unpin")}>Unpin</button>`}
        ${config.mode === "shadow" && html`<button type="button" disabled=${!allowed} onClick=${() => review({ mode: "active" }, "Switch on")}>Switch on</button>`}
        ${config.mode !== "shadow" && html`<button type="button" disabled=${!allowed} onClick=${() => review({ mode: "shadow" }, "Shadow")}>To shadow</button>`}
      </div>
    </div>
  </section>`;
}

const MODE_FIELDS = ["mode", "pinned_alpha", "pinned_delta"];

/** A form made from the table of fields. `edits` holds what was changed: a field's new value, null being unset or its default. */
function Knobs({ fields, config, edits, edit, allowed, onReview }) {
  const put = (field, value) => {
    const { [field.name]: _, ...rest } = edits;
    edit(value === valueOf(config, field) ? rest : { ...rest, [field.name]: value });
  };
  const submit = (event) => {
    event.preventDefault();
    onReview();
  };
  const number = Object.keys(edits).length;
  return html`<section>
    <h2 id="knobs">Knobs</h2>
    <form onSubmit=${submit}>
      <div class="scroll" role="region" aria-labelledby="knobs" tabindex="0">
        <table class="knobs stacks">
          <thead>
            <tr><th scope="col">Field</th><th scope="col">Value</th><th scope="col" class="wide">Default</th><th scope="col">What it does</th></tr>
          </thead>
          <tbody>
            ${fields
              .filter((field) => !MODE_FIELDS.includes(field.name))
              .map(
                (field) => html`<tr key=${field.name} class=${field.name in edits ? "changed" : ""}>
                  <th scope="row"><code>${field.name}</code></th>
                  <td><${Control} field=${field} value=${field.name in edits ? edits[field.name] : valueOf(config, field)} disabled=${!allowed} onChange=${(value) => put(field, value)} /></td>
                  <td class="wide quiet">${shown(field.default)}</td>
                  <td class="text"><${Doc} text=${field.doc} /> ${!field.live && html`<span class="quiet">Cannot change here.</span>`}</td>
                </tr>`,
              )}
          </tbody>
        </table>
      </div>
      <div class="submit">
        <button type="submit" class="primary" disabled=${!allowed || number === 0}>Review ${number === 0 ? "changes" : number === 1 ? "1 change" : `${number} changes`}</button>
        ${number > 0 && html`<button type="button" onClick=${() => edit({})}>Forget ${number === 1 ? "it" : "them"}</button>`}
      </div>
    </form>
  </section>`;
}

function Control({ field, value, disabled, onChange }) {
  if (!field.live) return html`<span>${shown(value)}</span> <span class="quiet">${field.unit}</span>`;
  const common = { name: field.name, disabled, "aria-label": field.name };
  if (field.type === "choice") {
    return html`<select ...${common} value=${value} onChange=${(event) => onChange(event.target.value)}>
      ${field.choices.map((choice) => html`<option key=${choice} value=${choice}>${choice}</option>`)}
    </select>`;
  }
  if (field.type === "boolean") {
    return html`<input ...${common} type="checkbox" checked=${value} onChange=${(event) => onChange(event.target.checked)} />`;
  }
  const read = (text) => (text === "" ? null : Number(text));
  const step = field.type === "integer" ? "1" : "any";
  return html`<input ...${common} type="number" step=${step} value=${value ?? ""} placeholder=${field.nullable ? "unset" : shown(field.default)} onInput=${(event) => onChange(read(event.target.value))} />
    ${field.unit && html` <span class="quiet">${field.unit}</span>`}`;
}

/** Every version of the configuration, newest first, by what it changed. */
function History({ changes, fields }) {
  const differences = (place) =>
    fields
      .map((field) => [field.name, changes[place - 1]?.config[field.name] ?? null, changes[place].config[field.name] ?? null])
      .filter(([, before, after]) => place > 0 && before !== after)
      .map(([name, before, after]) => `${name} ${shown(before)} → ${shown(after)}`)
      .join(", ");
  return html`<section>
    <h2 id="changes">Changes</h2>
    <div class="scroll" role="region" aria-labelledby="changes" tabindex="0">
      <table class="stacks">
        <thead>
          <tr><th scope="col" class="number">Version</th><th scope="col">When</th><th scope="col">Branch</th><th scope="col" class="number">After revision</th><th scope="col">What</th><th scope="col">Reason</th></tr>
        </thead>
        <tbody>
          ${changes
            .map(
              (change, place) => html`<tr key=${change.config_revision}>
                <td class="number" data-name="version">${count(change.config_revision)}</td>
                <td class="when">${moment(change.create_time)}</td>
                <td data-name="branch">${change.branch}</td>
                <td class="number" data-name="after revision">${count(change.revision)}</td>
                <td class="text">${place === 0 ? "created" : differences(place) || "entropy average started anew"}</td>
                <td class="text reason">${change.reason}</td>
              </tr>`,
            )
            .reverse()}
        </tbody>
      </table>
    </div>
  </section>`;
}

function Branches({ message }) {
  return html`<section>
    <h2 id="branches">Branches <span class="aside">one for each time a trainer went back to a checkpoint</span></h2>
    <div class="scroll" role="region" aria-labelledby="branches" tabindex="0">
      <table class="stacks">
        <thead>
          <tr><th scope="col">Branch</th><th scope="col">Opened</th><th scope="col">From</th><th scope="col">Writer</th></tr>
        </thead>
        <tbody>
          ${message.branches
            .map(
              (branch) => html`<tr key=${branch.id}>
                <th scope="row">${branch.id}${branch.id === message.branch ? " (current)" : ""}</th>
                <td class="when">${moment(branch.create_time)}</td>
                <td data-name="from">${branch.parent ? `${branch.parent}, revision ${count(Number(branch.parent_revision))}` : "the start"}</td>
                <td class="text" data-name="writer">${branch.writer || "nobody yet"}</td>
              </tr>`,
            )
            .reverse()}
        </tbody>
      </table>
    </div>
  </section>`;
}
