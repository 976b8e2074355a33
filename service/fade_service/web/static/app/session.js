// Who is logged in. A server that asks nobody has a session without a token.

import { get, onUnauthenticated, post, remove } from "./api.js";
import { createContext, useContext, useEffect, useState } from "./lib.js";

export const Session = createContext(null);

/** {login_required, token, project, role}; null until it is known. */
export const useSession = () => useContext(Session);

/** Of a server that did not answer: pages try, and say what comes of it. */
const UNKNOWN = { login_required: false, token: "", project: "-", role: "admin" };

/** The session: undefined while unknown, null where one has to log in. */
export function useSessionOfPage() {
  const [session, set] = useState(undefined);
  useEffect(() => {
    get(["session"]).then(set, (error) => error.status !== 401 && set(UNKNOWN));
    return onUnauthenticated(() => set(null));
  }, []);
  return {
    session,
    login: async (token) => set(await post(["session"], { token })),
    logout: async () => {
      await remove(["session"]);
      set(null);
    },
  };
}
