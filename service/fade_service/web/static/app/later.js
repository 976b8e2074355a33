// Parts of the page that are fetched when they are first shown.

import { html, useEffect, useState } from "./lib.js";

/** The component that `load()` promises, with all other properties; `load` is one function for one component. */
export function Later({ load, ...properties }) {
  const [found, set] = useState(null);
  useEffect(() => {
    let gone = false;
    load().then((component) => gone || set({ load, component }));
    return () => (gone = true);
  }, [load]);
  if (found?.load !== load) return html`<p class="quiet loading">Loading.</p>`;
  return html`<${found.component} ...${properties} />`;
}
