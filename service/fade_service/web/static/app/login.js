// Logging in with a token.

import { html, useState } from "./lib.js";
import { Problem, useTitle } from "./parts.js";

/** `login(token)` refuses a wrong one with an error. */
export function LoginPage({ login }) {
  useTitle("Log in");
  const [error, setError] = useState(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event) => {
    event.preventDefault();
    setBusy(true);
    try {
      await login(event.target.token.value.trim());
    } catch (refused) {
      setError(refused);
      setBusy(false);
    }
  };
  return html`<main id="content" class="login">
    <h1 tabindex="-1">Log in</h1>
    <p>This server asks for a token. Whoever runs it makes one for you:</p>
    <pre><code>fade token NAME --project PROJECT --role read</code></pre>
    <p>It starts with <code>fade_</code> and is shown once, when it is made. The role <b>read</b> is enough to look; changing a run's configuration needs <b>admin</b>.</p>
    <form onSubmit=${submit}>
      <label><span>Token</span><input name="token" type="password" autocomplete="current-password" required spellcheck="false" /></label>
      <button type="submit" class="primary" disabled=${busy}>Log in</button>
    </form>
    <${Problem} error=${error} />
    <p class="quiet">It is kept in a cookie that scripts cannot read and that is sent to this server alone.</p>
  </main>`;
}
