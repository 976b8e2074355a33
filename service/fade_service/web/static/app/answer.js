// What one call of the API answers, as a hook.

import { address, get, mayPass, RETRY_MS } from "./api.js";
import { useEffect, useState } from "./lib.js";

/**
 * [answer, problem] of a GET. An answer stays until the next one is there; where the server was away it is asked again. `version`
 * is anything: another one asks anew.
 */
export function useAnswer(parts, query, version) {
  const [answer, set] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const own = new AbortController();
    let timer = 0;
    const ask = async () => {
      try {
        set(await get(parts, query, own.signal));
        setProblem(null);
      } catch (error) {
        if (own.signal.aborted) return;
        setProblem(error);
        if (mayPass(error)) timer = setTimeout(ask, RETRY_MS);
      }
    };
    ask();
    return () => {
      clearTimeout(timer);
      own.abort();
    };
  }, [address(parts, query), version]);
  return [answer, problem];
}
