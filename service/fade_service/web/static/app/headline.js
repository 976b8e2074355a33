// The newest numbers of an environment: in one sentence, and each with what it means.

import { count, fixed, percent } from "./format.js";
import { html } from "./lib.js";
import { Figure, PhaseBadge } from "./parts.js";
import { alphaMeans, centreMeans, deltaFollows, deltaMeans, entropyMeans, inShort, massMeans, rateMeans, signMeans } from "./words.js";

/** Where the phase says that delta is at an end of its range. */
const EDGES = { exploring: "It is at its largest.", floor: "It is at its smallest." };

/** `newest` has one value for each column of the series, and the phase where the server tells it. */
export function Headline({ newest, config }) {
  const groups = ["mixed_groups", "all_solved_groups", "all_failed_groups", "singleton_groups"];
  const filtered = ["filtered_solved_groups", "filtered_failed_groups"];
  const all = [...groups, ...filtered].reduce((sum, name) => sum + (newest[name] ?? 0), 0);
  return html`<p class="short">${inShort(newest)}</p>
  <dl class="headline">
    <${Figure} name="Solve rate" value=${percent(newest.solve_rate)}>
      Slow average; the newest step has ${percent(newest.step_solve_rate)}. ${rateMeans(config)}
    <//>
    <${Figure} name="Alpha" value=${fixed(newest.alpha)}>${alphaMeans(newest.alpha)}<//>
    <${Figure} name="Entropy" value=${fixed(newest.entropy_nats, 3)} unit="nats/token">
      ${entropyMeans(newest.entropy_nats, newest.target_entropy_nats, config)}
    <//>
    <${Figure} name="Delta" value=${fixed(newest.delta)}>
      ${newest.phase && html`<${PhaseBadge} phase=${newest.phase} /> `}${deltaMeans(newest.delta)} ${deltaFollows(config) && EDGES[newest.phase]}
    <//>
    <${Figure} name="Mass against GRPO" value=${fixed(newest.mass_vs_grpo)} unit="×">${massMeans(newest.mass_vs_grpo)}<//>
    <${Figure} name="Sign ratio" value=${fixed(newest.sign_ratio)}>${signMeans(newest.sign_ratio)}<//>
    <${Figure} name="Difficulty centre" value=${percent(newest.difficulty_centre, 0)}>${centreMeans(newest.difficulty_centre)}<//>
    <${Figure} name="Groups with signal" value=${`${count(newest.effective_groups)} of ${count(all)}`}>
      The rest were solved or failed throughout, or too small. ${percent(newest.coverage, 0)} of rollouts have a
      reward${newest.held ? ": averages were held" : ""}.
    <//>
  </dl>`;
}
