/** A schedule applied to rows: the advantages of FADE (arXiv 2607.01490). */

import { invalidField } from "./errors.js";
import { RowStatus } from "./report.js";

/** Largest difficulty factor of a static alpha below 1. */
const FACTOR_CAP = 4;

/** Rewards up to this fraction of the range's width outside it are clamped. */
const CLAMP_TOLERANCE = 1e-6;

/** @type {number[]} */
const WITHOUT_REWARD = [RowStatus.MISSING, RowStatus.ERROR, RowStatus.PADDING];

/**
 * @typedef {object} Weights
 * @property {number} alpha Difficulty exponent.
 * @property {number} delta Failure divisor.
 * @property {number} scale Factor on every advantage.
 * @property {string} estimator "plug_in" or "subset".
 * @property {number} likelihood Exponent of 1 / solve rate.
 */

/** @typedef {{rewardMin: number, rewardMax: number, solveThreshold?: number}} Range How a run maps its rewards. */

/** @type {Weights} */
export const NEUTRAL = Object.freeze({ alpha: 1, delta: 1, scale: 1, estimator: "plug_in", likelihood: 0 });

/**
 * A_i = (1 - rbar)^(alpha - 1) rbar^-likelihood (r_i - rbar), failures divided by delta; exactly 0 for rows without a reward and for groups with
 * fewer than two scored rollouts, with all rewards equal, or all solved or all failed by their flags.
 *
 * @param {Range} range
 * @param {import("./report.js").Batch} batch
 * @param {Weights[]} weights Per group.
 * @returns {{advantages: Float64Array, mass: number}} (N,) in request order on the mapped [0, 1] scale, and the sum of their
 *   absolute values over rollouts.
 * @throws {import("./errors.js").RejectedError} A reward that the run refuses.
 */
export function weigh(range, batch, weights) {
  const rewards = mapped(range, batch);
  const counted = onceEach(batch, rewards);
  const threshold = range.solveThreshold ?? (range.rewardMin + range.rewardMax) / 2;
  const groups = batch.labels.map(() => ({ rewards: /** @type {number[]} */ ([]), solved: 0 }));
  const solved = batch.solved ?? Array.from(batch.rewards, (reward) => reward >= threshold);
  rewards.forEach((reward, row) => {
    if (!counted[row]) return;
    const group = groups[batch.groupIndex[row]];
    group.rewards.push(reward);
    group.solved += Number(solved[row]);
  });
  const rules = groups.map((group, place) => ruleOf(group, weights[place], batch.solved !== undefined));
  const advantages = rewards.map((reward, row) =>
    Number.isNaN(reward) ? 0 : rules[batch.groupIndex[row]](reward, solved[row]),
  );
  return { advantages, mass: advantages.reduce((sum, value, row) => (counted[row] ? sum + Math.abs(value) : sum), 0) };
}

/**
 * The `match_grpo` factor: the mass of r - rbar over that of the weighed advantages; 1 where there is none.
 *
 * @param {Range} range
 * @param {import("./report.js").Batch} batch
 * @param {Weights[]} weights Per group.
 */
export function grpoFactor(range, batch, weights) {
  const { mass } = weigh(range, batch, weights.map((own) => ({ ...own, scale: 1 })));
  return mass > 0 ? weigh(range, batch, weights.map(() => NEUTRAL)).mass / mass : 1;
}

/**
 * What a reward of one group is worth.
 *
 * @param {{rewards: number[], solved: number}} group Its scored rollouts.
 * @param {Weights} weights
 * @param {boolean} flagged Whether solved flags came with the rows: then they say how difficult the group is.
 * @returns {(reward: number, solved: boolean) => number}
 */
function ruleOf({ rewards, solved }, { alpha, delta, scale, estimator, likelihood }, flagged) {
  const size = rewards.length;
  const silent = rewards.every((reward) => reward === rewards[0]) || (flagged && (solved === 0 || solved === size));
  if (silent) return () => 0; // also where nothing or one rollout was scored
  if (estimator === "subset" && size > alpha) {
    const success = subsetSuccess(size, solved, alpha) * scale;
    const failure = (success * solved) / (size - solved) / delta;
    return (_, ownSolved) => (ownSolved ? success : -failure);
  }
  const mean = rewards.reduce((sum, reward) => sum + reward, 0) / size;
  const rate = flagged ? solved / size : mean;
  const factor = Math.min((1 - rate) ** (alpha - 1), FACTOR_CAP) * rate ** -likelihood * scale;
  return (reward) => (factor * (reward - mean)) / (reward < mean ? delta : 1);
}

/**
 * G/(G-a) C(G-k, a)/C(G, a) with C(n-1, a)/C(n, a) = (n-a)/n, and 0 from n <= a on.
 *
 * @param {number} size
 * @param {number} solved
 * @param {number} alpha
 */
function subsetSuccess(size, solved, alpha) {
  let quotient = size / (size - alpha);
  for (let n = size; n > size - solved; n--) quotient *= Math.max(n - alpha, 0) / n;
  return quotient;
}

/**
 * Rewards on [0, 1]; NaN where the row has none.
 *
 * @param {Range} range
 * @param {import("./report.js").Batch} batch
 */
function mapped({ rewardMin, rewardMax }, { rewards, statuses }) {
  return rewards.map((reward, row) => {
    if (Number.isNaN(reward) || (statuses && WITHOUT_REWARD.includes(statuses[row]))) return NaN;
    const value = (reward - rewardMin) / (rewardMax - rewardMin);
    if (value < -CLAMP_TOLERANCE || value > 1 + CLAMP_TOLERANCE) {
      const remedy = Number.isFinite(reward)
        ? "declare rewardMin and rewardMax so that they hold every reward"
        : "give a finite reward, or null where the row has none";
      throw invalidField("rewards", `is ${reward}, outside the declared range [${rewardMin}, ${rewardMax}]; ${remedy}`, row);
    }
    return Math.min(Math.max(value, 0), 1);
  });
}

/**
 * Which rows stand for their rollout: scored ones, the first of each.
 *
 * @param {import("./report.js").Batch} batch
 * @param {Float64Array} rewards
 * @returns {boolean[]}
 */
function onceEach({ rolloutIndex }, rewards) {
  const met = new Set();
  return Array.from(rewards, (reward, row) => {
    if (Number.isNaN(reward) || (rolloutIndex && met.has(rolloutIndex[row]))) return false;
    if (rolloutIndex) met.add(rolloutIndex[row]);
    return true;
  });
}
