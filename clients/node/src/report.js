/** From what a trainer holds to the columns of an ObserveRequest. */

import { invalidField } from "./errors.js";

/** What a row is; the numbers are the contract's. */
export const RowStatus = Object.freeze({ SCORED: 1, TRUNCATED: 2, MISSING: 3, ERROR: 4, PADDING: 5, STALE: 6 });

export const DEFAULT_ENVIRONMENT = "default";

/** Group labels go to the service for messages to people only; longer ones (whole prompts) are cut to this many characters. */
const LABEL_LENGTH = 80;

/**
 * @typedef {object} Entropy Token entropy as a sum, so that pieces add up.
 * @property {number} sumNats Sum over tokens, in nats.
 * @property {number} tokenCount Tokens summed over; 0 means that none was measured.
 * @property {string} [kind] How it was measured; averages never mix kinds.
 */

/**
 * @typedef {object} Columns One entry per row (N), in any order of the rows.
 * @property {ArrayLike<number | null>} rewards On the declared scale; null and NaN are missing.
 * @property {ArrayLike<any>} groups Any labels; the rows of one prompt share one, and a group lives in one observation.
 * @property {ArrayLike<any>} [rollouts] Labels; rows that share one are one rollout (fan-out) and count once.
 * @property {ArrayLike<number>} [statuses] {@link RowStatus} values; 0 is SCORED.
 * @property {ArrayLike<boolean>} [solved] Flags; they win over the configured threshold.
 * @property {Map<any, string> | Record<string, string>} [environments] The environment of each group, by its label.
 */

/**
 * @typedef {object} More What else a batch reports.
 * @property {Entropy | Record<string, Entropy>} [entropy] Over all tokens, or by environment.
 * @property {ArrayLike<number>} [policyVersions] The version that generated each row.
 * @property {number} [currentPolicyVersion] The version that this batch will update; needed with `policyVersions`.
 * @property {number} [trainerStep] The trainer's own step; never decreasing.
 * @property {number | Record<string, number>} [filteredAllSolved] Groups dropped before the report, all solved: one number, or
 *   by environment.
 * @property {number | Record<string, number>} [filteredAllFailed] The same, all failed.
 * @property {boolean} [prefiltered] Groups were dropped by their rewards and not counted.
 * @property {boolean} [evaluation] Answer and move nothing.
 */

/** @typedef {Columns & More} Report */

/**
 * @typedef {object} Batch A report's rows, its groups numbered.
 * @property {Float64Array} rewards NaN where missing.
 * @property {Int32Array} groupIndex Into `labels` and `environments`.
 * @property {any[]} labels
 * @property {string[]} environments
 * @property {Int32Array} [rolloutIndex]
 * @property {number[]} [statuses]
 * @property {boolean[]} [solved]
 */

/**
 * Reads the columns of a report.
 *
 * @param {Columns} columns
 * @param {string} [environment] The environment of groups where none is given.
 * @returns {Batch}
 * @throws {import("./errors.js").RejectedError} A column has another length, or a group has no environment.
 */
export function readBatch({ rewards, groups, rollouts, statuses, solved, environments }, environment = DEFAULT_ENVIRONMENT) {
  const values = Float64Array.from(rewards, (value) => (value === null ? NaN : Number(value)));
  const [groupIndex, labels] = numbered(groups);
  for (const [name, column] of Object.entries({ groups, rollout_index: rollouts, statuses, solved })) {
    if (column && column.length !== values.length) {
      throw invalidField(name, `has ${column.length} entries for ${values.length} rewards; give one per row`);
    }
  }
  const lookUp = (/** @type {any} */ label) => {
    if (!environments) return environment;
    const found = environments instanceof Map ? environments.get(label) : environments[label];
    if (found === undefined) throw invalidField("environments", `has no entry for group ${label}; name every group's`);
    return found;
  };
  return {
    rewards: values,
    groupIndex,
    labels,
    environments: labels.map(lookUp),
    rolloutIndex: rollouts && numbered(rollouts)[0],
    statuses: statuses && Array.from(statuses),
    solved: solved && Array.from(solved, Boolean),
  };
}

/**
 * The request that reports a batch.
 *
 * @param {string} observationId
 * @param {Batch} batch
 * @param {More} more
 * @returns {any} An ObserveRequest without what only the client's line knows.
 */
export function requestOf(observationId, batch, more) {
  const { entropy, policyVersions, currentPolicyVersion, trainerStep } = more;
  const single = entropy !== undefined && typeof entropy.sumNats === "number";
  return {
    observationId,
    trainerStep,
    split: more.evaluation ? "SPLIT_EVAL" : "SPLIT_TRAIN",
    rows: {
      rewards: Array.from(batch.rewards),
      groupIndex: Array.from(batch.groupIndex),
      rolloutIndex: batch.rolloutIndex && Array.from(batch.rolloutIndex),
      statuses: batch.statuses,
      solved: batch.solved,
      policyVersions: policyVersions && Array.from(policyVersions),
      currentPolicyVersion,
    },
    groups: {
      count: batch.labels.length,
      labels: batch.labels.map((label) => String(label).slice(0, LABEL_LENGTH)),
      environments: batch.environments,
    },
    environments: environmentReports(batch, more, single || !entropy ? {} : /** @type {Record<string, Entropy>} */ (entropy)),
    entropy: single ? entropy : undefined,
  };
}

/**
 * @param {Batch} batch
 * @param {More} more
 * @param {Record<string, Entropy>} entropies
 */
function environmentReports(batch, { filteredAllSolved, filteredAllFailed, prefiltered = false }, entropies) {
  const inside = batch.labels.length ? [...new Set(batch.environments)] : [DEFAULT_ENVIRONMENT];
  const solved = countsOf("filtered_all_solved", filteredAllSolved, inside);
  const failed = countsOf("filtered_all_failed", filteredAllFailed, inside);
  const named = [solved, failed, entropies].flatMap(Object.keys).concat(prefiltered ? inside : []);
  return [...new Set(named)].map((environment) => ({
    environment,
    filteredAllSolved: solved[environment],
    filteredAllFailed: failed[environment],
    prefiltered,
    entropy: entropies[environment],
  }));
}

/**
 * @param {string} field
 * @param {number | Record<string, number> | undefined} counts
 * @param {string[]} inside
 * @returns {Record<string, number>}
 */
function countsOf(field, counts, inside) {
  if (typeof counts === "object") return counts;
  if (!counts) return {};
  if (inside.length > 1) {
    throw invalidField(field, `is one number for a batch of ${inside.join(", ")}; give a count by environment`);
  }
  return { [inside[0]]: counts };
}

/**
 * Numbers labels as it meets them.
 *
 * @param {ArrayLike<any>} values
 * @returns {[Int32Array, any[]]} A number per value, and the distinct labels.
 */
function numbered(values) {
  /** @type {Map<any, number>} */
  const places = new Map();
  const index = Int32Array.from(values, (label) => {
    const known = places.get(label);
    if (known !== undefined) return known;
    places.set(label, places.size);
    return places.size - 1;
  });
  return [index, [...places.keys()]];
}
