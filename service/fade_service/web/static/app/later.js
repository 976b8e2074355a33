// Parts of the page that are fetched when they are first shown.

import { RETRY_MS } from "./api.js";
import { html, useEffect, useState } from "./lib.js";

/** The component that `load()` promises, with all other properties; `load` is one function for one component. */
export function Later({ load, ...properties }) {
  const [found, set] = useState(null);
  const [missed, miss] = useState(false);
  useEffect(() => {
    let gone = false;
    let timer = 0;
    const fetchIt = () =>
      load().then(
        (component) => gone || set({ load, component }),
        () => {
          miss(true);
          if (!gone) timer = setTimeout(fetchIt, RETRY_MS);
        },
      );
    fetchIt();
    return () => {
      gone = true;
      clearTimeout(timer);
    };
  }, [load]);
  if (found?.load !== load) return html`<p class="quiet loading">${missed ? "The server does not answer; trying again." : "Loading."}</p>`;
  return html`<${found.component} ...${properties} />`;
}
