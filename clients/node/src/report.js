/** From the columns that a trainer holds to a batch with numbered groups. */

import { invalidField } from "./errors.js";
import { checkNames, column, isRecord, optional, shown } from "./read.js";

/** What a row is; the numbers are the contract's. */
export const RowStatus = Object.freeze({ SCORED: 1, TRUNCATED: 2, MISSING: 3, ERROR: 4, PADDING: 5, STALE: 6 });

export const DEFAULT_ENVIRONMENT = "default";

const COLUMNS = ["rewards", "groups", "rollouts", "statuses", "solved", "environments"];
const VERSIONS = ["policyVersions", "currentPolicyVersion", "trainerStep"];
const FIELDS = [...COLUMNS, "entropy", ...VERSIONS, "filteredAllSolved", "filteredAllFailed", "prefiltered", "evaluation"];

/** @typedef {import("./read.js").Kind} Kind */

/** @type {Kind} */
const REWARD = [(value) => typeof value === "number" || value === null, "a number, or null where the row has none"];
/** @type {Kind} Objects would each be a group of their own, and what is missing would be one group. */
const LABEL = [
  (value) => ["string", "bigint", "boolean"].includes(typeof value) || (typeof value === "number" && !Number.isNaN(value)),
  "a string or a number, the same for all rows that belong together",
];
/** @type {Kind} */
const STATUS = [
  (value) => value === 0 || Object.values(RowStatus).includes(value),
  `a value of RowStatus: ${Object.entries(RowStatus)
    .map((entry) => entry.join(" = "))
    .join(", ")}`,
];
/** @type {Kind} */
const SOLVED = [(value) => [true, false, 1, 0].includes(value), "true or false"];

/**
 * @typedef {object} Entropy Token entropy as a sum, so that pieces add up.
 * @property {number} sumNats Sum over tokens, in nats.
 * @property {number} tokenCount Tokens summed over; 0 means that none was measured.
 * @property {string | null} [kind] How it was measured; averages never mix kinds.
 */

/** @typedef {string | number | bigint | boolean} Label */

/**
 * @typedef {object} Columns One entry per row (N), in any order of the rows. Null and undefined for a column: not given.
 * @property {ArrayLike<number | null>} rewards On the declared scale; null and NaN are missing.
 * @property {ArrayLike<Label>} groups Labels; the rows of one prompt share one, and a group lives in one observation.
 * @property {ArrayLike<Label> | null} [rollouts] Labels; rows that share one are one rollout (fan-out) and count once.
 * @property {ArrayLike<number> | null} [statuses] {@link RowStatus} values; 0 is SCORED.
 * @property {ArrayLike<boolean | number> | null} [solved] Flags (1 and 0 too); they win over the configured threshold.
 * @property {Map<any, string> | Record<string, string> | null} [environments] The environment of each group, by its label.
 */

/**
 * @typedef {object} More What else a batch reports. Null and undefined: not given.
 * @property {Entropy | Record<string, Entropy> | null} [entropy] Over all tokens, or by environment.
 * @property {ArrayLike<number> | null} [policyVersions] The version that generated each row.
 * @property {number | null} [currentPolicyVersion] The version that this batch will update; needed with `policyVersions`.
 * @property {number | null} [trainerStep] The trainer's own step; never decreasing.
 * @property {number | Record<string, number> | null} [filteredAllSolved] Groups dropped before the report, all solved: one
 *   number, or by environment.
 * @property {number | Record<string, number> | null} [filteredAllFailed] The same, all failed.
 * @property {boolean | null} [prefiltered] Groups were dropped by their rewards and not counted.
 * @property {boolean | null} [evaluation] Answer and move nothing.
 */

/** @typedef {Columns & More} Report */

/**
 * @typedef {object} Batch A report's rows, its groups numbered.
 * @property {Float64Array} rewards NaN where missing.
 * @property {Int32Array} groupIndex Into `labels` and `environments`.
 * @property {Label[]} labels
 * @property {string[]} environments
 * @property {Int32Array} [rolloutIndex]
 * @property {number[]} [statuses]
 * @property {boolean[]} [solved]
 */

/**
 * Reads the columns of a report.
 *
 * @param {Report} report
 * @param {string} [environment] The environment of groups where none is given.
 * @returns {Batch}
 * @throws {import("./errors.js").RejectedError} A field is unknown, a column has another length or holds what it should not, or a
 *   group has no environment; by field and row.
 */
export function readBatch(report, environment = DEFAULT_ENVIRONMENT) {
  checkNames("report", report, FIELDS);
  const { groups, rollouts, statuses, solved, environments } = report;
  const rewards = Float64Array.from(column("rewards", report.rewards, REWARD), (value) => value ?? NaN);
  const own = (/** @type {string} */ name, /** @type {any} */ values, /** @type {Kind} */ kind) =>
    column(name, values, kind, rewards.length);
  const [groupIndex, labels] = numbered(own("groups", groups, LABEL));
  return {
    rewards,
    groupIndex,
    labels,
    environments: optional(environments, (given) => environmentsOf(labels, given)) ?? labels.map(() => environment),
    rolloutIndex: optional(rollouts, (given) => numbered(own("rollouts", given, LABEL))[0]),
    statuses: optional(statuses, (given) => own("statuses", given, STATUS)),
    solved: optional(solved, (given) => own("solved", given, SOLVED).map(Boolean)),
  };
}

/**
 * @param {Label[]} labels
 * @param {any} given By label.
 * @returns {string[]}
 */
function environmentsOf(labels, given) {
  if (!(given instanceof Map || isRecord(given))) {
    throw invalidField("environments", `is ${shown(given)}; give a Map or an object from each group's label to its environment`);
  }
  const known = given instanceof Map ? given : new Map(Object.entries(given));
  return labels.map((label) => {
    const name = known.get(given instanceof Map ? label : String(label));
    const group = `group ${shown(label)}`;
    if (name === undefined) throw invalidField("environments", `has no entry for ${group}; name every group's`);
    if (typeof name !== "string" || !name) throw invalidField("environments", `is ${shown(name)} for ${group}; give its name`);
    return name;
  });
}

/**
 * Numbers labels as it meets them.
 *
 * @param {Label[]} values
 * @returns {[Int32Array, Label[]]} A number per value, and the distinct labels.
 */
function numbered(values) {
  /** @type {Map<Label, number>} */
  const places = new Map();
  const index = Int32Array.from(values, (label) => {
    const known = places.get(label);
    if (known !== undefined) return known;
    places.set(label, places.size);
    return places.size - 1;
  });
  return [index, [...places.keys()]];
}
