// The dialog before a change: what was, what will be, and why.

import { shown } from "./config.js";
import { html, useEffect, useRef, useState } from "./lib.js";

const LONGEST_REASON = 1000;

/** `rows` has {field, before, after} for each change, `caution` what should make one think twice; `onConfirm(reason)` makes it. */
export function Confirm({ title, rows, caution, onConfirm, onCancel }) {
  const dialog = useRef(null);
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const shown = dialog.current;
    shown.showModal();
    return () => shown.close(); // which gives the focus back to what had it
  }, []);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    await onConfirm(event.target.reason.value.trim());
  };
  return html`<dialog ref=${dialog} class="confirm" aria-labelledby="confirm-title" onCancel=${onCancel}>
    <form onSubmit=${submit}>
      <h2 id="confirm-title">${title}: confirm</h2>
      <table>
        <thead>
          <tr><th scope="col">Field</th><th scope="col">Before</th><th scope="col">After</th></tr>
        </thead>
        <tbody>
          ${rows.map(
            ({ field, before, after }) => html`<tr key=${field.name}>
              <th scope="row"><code>${field.name}</code></th>
              <td>${shown(before)}</td>
              <td><b>${shown(after ?? field.default)}</b></td>
            </tr>`,
          )}
        </tbody>
      </table>
      ${caution && html`<p class="notice problem" role="alert">${caution}</p>`}
      <label class="why">
        <span>Reason, kept in the run's history</span>
        <textarea name="reason" rows="2" required maxlength=${LONGEST_REASON} onInput=${wantWords}></textarea>
      </label>
      <p class="quiet">The change takes effect with the next observation, for every environment.</p>
      <div class="submit">
        <button type="submit" class="primary" disabled=${busy}>Confirm</button>
        <button type="button" onClick=${onCancel}>Cancel</button>
      </div>
    </form>
  </dialog>`;
}

/** A reason of blanks is none; a textarea knows no pattern. */
function wantWords({ target }) {
  target.setCustomValidity(target.value.trim() ? "" : "Give a reason.");
}
