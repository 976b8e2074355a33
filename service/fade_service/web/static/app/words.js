// What the numbers mean, in a few words for somebody who has not read the manual.

import { fixed, percent, times } from "./format.js";

export const PHASES = {
  exploring: "delta is at its largest; where it follows entropy, entropy is at or above its target",
  exploiting: "delta is between its bounds; where it follows entropy, entropy is under its target",
  floor: "delta is at its smallest or below; where it follows entropy, entropy is far under its target",
};

/** What stands beside a run's numbers: its sign in charts, and its name. */
export const MARKS = {
  warning: { sign: "!", name: "warning" },
  config: { sign: "C", name: "configuration change" },
  late: { sign: "L", name: "late report" },
};

export const MODES = {
  active: "The trainer applies this schedule.",
  shadow: "Only computed and recorded: the trainer applies neutral weights (alpha = delta = 1).",
  pinned: "An operator holds alpha and delta; averages go on.",
};

/** A warning's reason as words: "ENTROPY_COLLAPSED" is "entropy collapsed". */
export const reasonWords = (reason) => reason.toLowerCase().replaceAll("_", " ");

/** How a run stands, in one sentence. */
export function inShort({ solve_rate: rate, entropy_nats: entropy, target_entropy_nats: target, alpha, delta }) {
  const solved = rate == null ? "No rollout has a reward yet" : `${percent(rate)} of rollouts are solved on average`;
  const standing = entropy == null || target == null ? "" : `, and entropy is ${entropy < target ? "under" : "at or above"} its target`;
  const prompts = isOne(alpha) ? "prompts of every difficulty weigh alike" : `${alpha > 1 ? "hard" : "easy"} prompts weigh more`;
  const outcomes = isOne(delta) ? "successes and failures weigh alike" : `failures weigh ${times(1 / delta)} as much as successes`;
  return `${solved}${standing}: ${prompts}, ${outcomes}.`;
}

const isOne = (factor) => Math.abs(factor - 1) < 0.005;

export function alphaMeans(alpha) {
  if (alpha == null) return "";
  if (isOne(alpha)) return "Prompts of every difficulty weigh alike, as in GRPO.";
  const ratio = 3 ** (alpha - 1);
  if (alpha < 1) return `Weighs easy prompts more: one solved 3 times in 4 counts ${times(1 / ratio)} one solved 1 in 4.`;
  return `Weighs hard prompts more: one solved 1 time in 4 counts ${times(ratio)} one solved 3 in 4.`;
}

export function deltaMeans(delta) {
  if (delta == null) return "";
  if (isOne(delta)) return "Successes and failures weigh alike.";
  return `Failures weigh ${times(1 / delta)} as much as successes.`;
}

/** `config` may still be unknown. */
export function entropyMeans(entropy, target, config) {
  const follows = deltaFollows(config);
  if (entropy == null) return follows ? "No entropy was reported yet, so delta stays at its largest." : "No entropy was reported yet.";
  if (target == null) return "The target is not known yet.";
  const goal = `Target ${fixed(target, 3)}:`;
  if (!follows) return `${goal} ${entropy < target ? "below" : "at or above"} it, but delta ${config.mode === "pinned" ? "is pinned" : `follows the rule ${config.delta_rule}`}.`;
  return entropy < target ? `${goal} below it, so failures weigh more.` : `${goal} at or above it, so nothing is corrected.`;
}

/** What the slow average of the solve rate is for. */
export function rateMeans(config) {
  if (config?.mode === "pinned") return "Alpha is pinned and does not follow it.";
  if (config && config.alpha_rule !== "solve_rate") return `Alpha follows the rule ${config.alpha_rule} instead.`;
  return "It sets alpha.";
}

/** Whether delta follows entropy. */
export const deltaFollows = (config) => config?.mode !== "pinned" && !["fixed", "log_decay"].includes(config?.delta_rule);

export function massMeans(ratio) {
  if (ratio == null) return "No group had any advantage.";
  if (Math.abs(ratio - 1) < 0.02) return "The total weight is that of GRPO on the same batch.";
  const change = percent(Math.abs(1 - ratio), 0);
  const compared = ratio < 2 ? `${change} ${ratio < 1 ? "smaller" : "larger"} than GRPO's` : `${times(ratio)} that of GRPO`;
  return `The total weight is ${compared} on the same batch; acts like a learning rate.`;
}

export function signMeans(ratio) {
  if (ratio == null) return "No group had any advantage.";
  if (Math.abs(ratio - 1) < 0.02) return "Successes pull as hard as failures push.";
  return ratio < 1 ? "Failures push harder than successes pull." : "Successes pull harder than failures push.";
}

export function centreMeans(centre) {
  return centre == null ? "No group had any advantage." : `The gradient comes from prompts solved ${percent(centre, 0)} of the time, on average.`;
}
