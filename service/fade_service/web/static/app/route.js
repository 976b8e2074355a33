// Going from view to view by the address.

import { readRoute } from "./hash.js";
import { useEffect, useState } from "./lib.js";

const MOVED = "fade-moved";

/** Goes there; `replace` leaves no entry in the browser's history. */
export function go(to, { replace = false } = {}) {
  if (to === location.hash) return;
  history[replace ? "replaceState" : "pushState"](null, "", to);
  dispatchEvent(new Event(MOVED));
}

/** The route, and again whenever it changes. */
export function useRoute() {
  const [route, set] = useState(readRoute);
  useEffect(() => {
    const read = () => set(readRoute());
    for (const name of ["hashchange", "popstate", MOVED]) addEventListener(name, read);
    return () => ["hashchange", "popstate", MOVED].forEach((name) => removeEventListener(name, read));
  }, []);
  return route;
}
