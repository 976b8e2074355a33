/** The schedule that an observation is answered with, applied and told. */

import { wordOf } from "./config.js";
import { invalidField } from "./errors.js";
import { DEFAULT_ENVIRONMENT, readBatch, RowStatus } from "./report.js";
import { NEUTRAL, weigh } from "./weights.js";

/**
 * Where a schedule came from: the service, an operator by way of the service, the last schedule, or nowhere (alpha = delta = 1).
 * @typedef {"SERVER" | "PINNED" | "HELD" | "NEUTRAL"} Source
 */

/** @typedef {{schedule: any, state?: any, diagnostics?: any}} Part One environment: messages of fade.v1. */

/** The schedule of an environment about which nothing is known: a message of fade.v1. */
export const NEUTRAL_MESSAGE = Object.freeze({
  alpha: 1,
  delta: 1,
  scale: 1,
  mode: "MODE_ACTIVE",
  estimator: "ESTIMATOR_PLUG_IN",
  phase: "PHASE_EXPLORING",
});

/** The weights of one generation batch, by environment. */
export class Schedule {
  /**
   * @param {object} known
   * @param {string} known.observationId The batch.
   * @param {Map<string, Part>} known.parts By environment.
   * @param {Source} known.source A fallback never looks like the service's answer.
   * @param {number | null} [known.revision] Observations along the run's line after this one; null where the line is not known.
   * @param {"applied" | "frozen" | null} [known.outcome] "frozen": averages held; null: not known yet.
   * @param {boolean} [known.degraded] Too few rollouts were scored, in any environment.
   * @param {{reason: string, message: string, subject: string}[]} [known.warnings] What a person should look at.
   * @param {string | null} [known.rejection] The reason that the report was refused for; null where it was not.
   * @param {import("./weights.js").Range} known.range How the run maps its rewards.
   * @param {import("./report.js").Columns["environments"]} [known.groupEnvironments] As observed.
   * @param {Record<string, number>} known.counters What happened to this client's reports so far.
   */
  constructor({ observationId, parts, source, revision = null, outcome = null, degraded = false, warnings = [], ...more }) {
    this.observationId = observationId;
    this.parts = parts;
    this.source = source;
    this.revision = revision;
    this.outcome = outcome;
    this.degraded = degraded;
    this.warnings = warnings;
    this.rejection = more.rejection ?? null;
    this.range = more.range;
    this.groupEnvironments = more.groupEnvironments;
    this.counters = more.counters;
  }

  /**
   * The schedule of one environment.
   *
   * @param {string} environment
   */
  get(environment) {
    const part = this.parts.get(environment);
    if (!part) throw new RangeError(`this schedule is for ${this.#names()}, not for ${environment}`);
    return new Schedule({ ...this, parts: new Map([[environment, part]]) });
  }

  /** What the trainer may multiply its learning rate by (`lrRule`), as applied: 1 in mode "shadow". */
  get lrScale() {
    return appliedLrScale(this.#only("lrScale"));
  }

  /** Difficulty exponent as scheduled, also in mode "shadow". */
  get alpha() {
    return this.#only("alpha").alpha;
  }

  /** Failure divisor as scheduled, also in mode "shadow". */
  get delta() {
    return this.#only("delta").delta;
  }

  /** Factor on every advantage of this batch. */
  get scale() {
    return this.#only("scale").scale;
  }

  /** "exploring", "exploiting" or "floor". */
  get phase() {
    return wordOf("PHASE_", this.#only("phase").phase);
  }

  /** "active", "shadow" (neutral weights are applied) or "pinned". */
  get mode() {
    return wordOf("MODE_", this.#only("mode").mode);
  }

  /**
   * The advantages of the observed batch, computed here.
   *
   * @param {ArrayLike<number | null>} rewards (N,), as observed.
   * @param {ArrayLike<import("./report.js").Label>} groups (N,), labels as observed.
   * @param {Partial<import("./report.js").Report>} [columns] The other columns, as observed (or the whole report); environments
   *   only where they are others than observed.
   * @returns {Float64Array} (N,) in request order, on the mapped [0, 1] reward scale; 0 for rows without a reward.
   * @throws {import("./errors.js").RejectedError} A column cannot be read, or holds a value that the run refuses; by field and
   *   row. Neutral weights take rewards outside the declared range.
   */
  advantages(rewards, groups, columns = {}) {
    const neutral = this.source === "NEUTRAL";
    const environments = neutral ? undefined : (columns?.environments ?? this.groupEnvironments);
    const single = this.parts.size === 1 ? [...this.parts.keys()][0] : DEFAULT_ENVIRONMENT;
    const batch = readBatch({ ...columns, rewards, groups, environments }, single);
    if (neutral) return plain(this.range, batch);
    const weights = batch.environments.map((name, group) => this.#weightsOf(name, group, batch));
    return weigh(this.range, batch, weights).advantages;
  }

  /**
   * For a logger: flat, without the values that are not known. Per environment (`fade/<name>`, or `fade/<environment>/<name>`
   * where there are several): alpha, delta, scale, phase, mode, applied_alpha, applied_delta, likelihood, lr_scale, p_hat, h_hat,
   * h_target, p_step, h_step (entropies in nats per token), mass_success, mass_failure, mass_vs_grpo, sign_ratio, difficulty_centre, coverage,
   * observations. Once: source, revision, rejection, and the counters rejected, unsent, lost, dropped.
   *
   * @returns {Record<string, number | string>}
   */
  metrics() {
    /** @type {Record<string, any>} */
    const values = {};
    for (const [name, part] of this.parts) {
      const prefix = this.parts.size === 1 ? "fade/" : `fade/${name}/`;
      for (const [key, value] of Object.entries(partMetrics(part))) values[prefix + key] = value;
    }
    const once = { source: this.source, revision: this.revision, rejection: this.rejection, ...this.counters };
    for (const [key, value] of Object.entries(once)) values[`fade/${key}`] = value;
    return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined && value !== null));
  }

  /** @param {string} name */
  #only(name) {
    if (this.parts.size !== 1) {
      throw new RangeError(`${name} is one environment's, and this schedule has ${this.#names()}; take get(environment).${name}`);
    }
    return [...this.parts.values()][0].schedule;
  }

  #names() {
    return [...this.parts.keys()].sort().join(", ");
  }

  /**
   * @param {string} environment
   * @param {number} group
   * @param {import("./report.js").Batch} batch
   */
  #weightsOf(environment, group, batch) {
    const part = this.parts.get(environment);
    if (part) return appliedWeights(part.schedule);
    const padding = batch.groupIndex.every((own, row) => own !== group || batch.statuses?.[row] === RowStatus.PADDING);
    if (padding) return NEUTRAL;
    throw invalidField("environments", `names ${environment}, but this schedule is for ${this.#names()}`);
  }
}

/**
 * The weights that are trained on.
 *
 * @param {any} schedule A message of fade.v1.
 * @returns {import("./weights.js").Weights}
 */
export function appliedWeights({ alpha, delta, scale, mode, estimator, likelihood = 0 }) {
  return mode === "MODE_SHADOW" ? NEUTRAL : { alpha, delta, scale, estimator: wordOf("ESTIMATOR_", estimator), likelihood };
}

/**
 * What the trainer may multiply its learning rate by.
 *
 * @param {any} schedule A message of fade.v1.
 * @returns {number}
 */
function appliedLrScale({ mode, lrScale = 1 }) {
  return mode === "MODE_SHADOW" ? 1 : lrScale;
}

/** @param {Part} part */
function partMetrics({ schedule, state, diagnostics }) {
  const applied = appliedWeights(schedule);
  return {
    alpha: schedule.alpha,
    delta: schedule.delta,
    scale: schedule.scale,
    phase: wordOf("PHASE_", schedule.phase),
    mode: wordOf("MODE_", schedule.mode),
    applied_alpha: applied.alpha,
    applied_delta: applied.delta,
    likelihood: applied.likelihood,
    lr_scale: appliedLrScale(schedule),
    h_target: schedule.targetEntropyNats,
    p_hat: state?.solveRate,
    h_hat: state?.entropyNats,
    observations: state?.observationCount,
    p_step: diagnostics?.solveRate,
    h_step: diagnostics?.entropyNats,
    coverage: diagnostics?.coverage,
    mass_success: diagnostics?.massSuccess,
    mass_failure: diagnostics?.massFailure,
    mass_vs_grpo: diagnostics?.massVsGrpo,
    sign_ratio: diagnostics?.signRatio,
    difficulty_centre: diagnostics?.difficultyCentre,
  };
}

/**
 * r - rbar on the mapped scale, also for rewards that the run refuses: the last resort must not stop the training. What is not
 * finite is missing.
 *
 * @param {import("./weights.js").Range} range
 * @param {import("./report.js").Batch} batch
 */
function plain(range, batch) {
  const rewards = batch.rewards.map((reward) => (Number.isFinite(reward) ? reward : NaN));
  const known = rewards.filter((reward) => !Number.isNaN(reward));
  const rewardMin = known.reduce((least, reward) => Math.min(least, reward), range.rewardMin);
  const rewardMax = known.reduce((most, reward) => Math.max(most, reward), range.rewardMax);
  const scale = (rewardMax - rewardMin) / (range.rewardMax - range.rewardMin);
  const weights = batch.labels.map(() => ({ ...NEUTRAL, scale }));
  return weigh({ rewardMin, rewardMax }, { ...batch, rewards }, weights).advantages;
}
