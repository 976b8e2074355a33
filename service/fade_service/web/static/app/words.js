// What the numbers mean, in a few words for somebody who has not read the manual.

import { brief, fixed, percent, times } from "./format.js";

export const PHASES = {
  exploring: "delta is at its largest: entropy is at or above its target",
  exploiting: "delta is below its largest: entropy is under its target, and failures weigh more",
  floor: "delta is at its smallest: entropy is far under its target",
};

export const MODES = {
  active: "The trainer applies this schedule.",
  shadow: "Only computed and recorded: the trainer applies neutral weights (alpha = delta = 1).",
  pinned: "An operator holds alpha and delta; averages go on.",
};

/** A warning's reason as words: "ENTROPY_COLLAPSED" is "entropy collapsed". */
export const reasonWords = (reason) => reason.toLowerCase().replaceAll("_", " ");

export function alphaMeans(alpha) {
  if (alpha == null) return "";
  if (Math.abs(alpha - 1) < 0.005) return "Prompts of every difficulty weigh alike, as in GRPO.";
  const ratio = 3 ** (alpha - 1);
  if (alpha < 1) return `Weighs easy prompts more: one solved 3 times in 4 counts ${times(1 / ratio)} one solved 1 in 4.`;
  return `Weighs hard prompts more: one solved 1 time in 4 counts ${times(ratio)} one solved 3 in 4.`;
}

export function deltaMeans(delta) {
  if (delta == null) return "";
  if (Math.abs(delta - 1) < 0.005) return "Successes and failures weigh alike.";
  return delta < 1 ? `Failures weigh ${times(1 / delta)} as much.` : `Failures weigh less: ${brief(1 / delta, 2)} as much.`;
}

export function entropyMeans(entropy, target, rule) {
  if (entropy == null) return "No entropy was reported yet, so delta stays at its largest.";
  if (target == null) return "The target is not known yet.";
  const goal = `Target ${fixed(target, 3)}:`;
  if (rule === "fixed" || rule === "log_decay") return `${goal} delta does not follow entropy under the rule ${rule}.`;
  return entropy < target ? `${goal} below it, so failures weigh more.` : `${goal} at or above it, so nothing is corrected.`;
}

export function massMeans(ratio) {
  if (ratio == null) return "No group had any advantage.";
  if (Math.abs(ratio - 1) < 0.02) return "The total weight is that of GRPO on the same batch.";
  const change = percent(Math.abs(1 - ratio), 0);
  return `The total weight is ${change} ${ratio < 1 ? "smaller" : "larger"} than GRPO's on the same batch; acts like a learning rate.`;
}

export function signMeans(ratio) {
  if (ratio == null) return "No group had any advantage.";
  if (Math.abs(ratio - 1) < 0.02) return "Successes pull as hard as failures push.";
  return ratio < 1 ? "Failures push harder than successes pull." : "Successes pull harder than failures push.";
}

export function centreMeans(centre) {
  return centre == null ? "No group had any advantage." : `The gradient comes from prompts solved ${percent(centre, 0)} of the time, on average.`;
}
