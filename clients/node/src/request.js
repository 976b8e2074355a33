/** From a report to the request that sends it. */

import { invalidField } from "./errors.js";
import { checked, checkNames, column, COUNT, FLAG, ID, isRecord, NUMBER, optional, shown, TEXT, WHOLE } from "./read.js";
import { DEFAULT_ENVIRONMENT } from "./report.js";

/** Group labels go to the service for messages to people only; longer ones (whole prompts) are cut to this many characters. */
const LABEL_LENGTH = 80;

const ENTROPY_FIELDS = ["sumNats", "tokenCount", "kind"];

/** @typedef {import("./report.js").Entropy} Entropy */

/**
 * The request that reports a batch.
 *
 * @param {string} observationId
 * @param {import("./report.js").Batch} batch
 * @param {import("./report.js").More} more
 * @returns {any} An ObserveRequest without what only the client's line knows.
 * @throws {import("./errors.js").RejectedError} A field holds what it should not.
 */
export function requestOf(observationId, batch, more) {
  const policyVersions = optional(more.policyVersions, (given) => column("policyVersions", given, WHOLE, batch.rewards.length));
  const currentPolicyVersion = given("currentPolicyVersion", more.currentPolicyVersion, WHOLE);
  if (policyVersions && currentPolicyVersion === undefined) {
    throw invalidField("currentPolicyVersion", "is needed with policyVersions; give the version that this batch will update");
  }
  const { whole, parts } = entropiesOf(more.entropy);
  return {
    observationId: checked("observationId", observationId, ID),
    trainerStep: given("trainerStep", more.trainerStep, WHOLE),
    split: given("evaluation", more.evaluation, FLAG) ? "SPLIT_EVAL" : "SPLIT_TRAIN",
    rows: {
      rewards: Array.from(batch.rewards),
      groupIndex: Array.from(batch.groupIndex),
      rolloutIndex: batch.rolloutIndex && Array.from(batch.rolloutIndex),
      statuses: batch.statuses,
      solved: batch.solved,
      policyVersions,
      currentPolicyVersion,
    },
    groups: {
      count: batch.labels.length,
      labels: batch.labels.map((label) => String(label).slice(0, LABEL_LENGTH)),
      environments: batch.environments,
    },
    environments: environmentReports(batch, more, parts),
    entropy: whole,
  };
}

/**
 * @param {import("./report.js").Batch} batch
 * @param {import("./report.js").More} more
 * @param {Map<string, Entropy>} entropies
 */
function environmentReports(batch, more, entropies) {
  const inside = batch.labels.length ? [...new Set(batch.environments)] : [DEFAULT_ENVIRONMENT];
  const solved = countsOf("filteredAllSolved", more.filteredAllSolved, inside);
  const failed = countsOf("filteredAllFailed", more.filteredAllFailed, inside);
  const prefiltered = given("prefiltered", more.prefiltered, FLAG) ?? false;
  const named = [solved, failed, entropies].flatMap((values) => [...values.keys()]).concat(prefiltered ? inside : []);
  return [...new Set(named)].map((environment) => ({
    environment,
    filteredAllSolved: solved.get(environment),
    filteredAllFailed: failed.get(environment),
    prefiltered,
    entropy: entropies.get(environment),
  }));
}

/**
 * @param {string} name
 * @param {any} counts One number, or by environment.
 * @param {string[]} inside The batch's environments.
 * @returns {Map<string, number>}
 */
function countsOf(name, counts, inside) {
  if (isRecord(counts)) {
    const entries = Object.entries(counts);
    return new Map(entries.map(([own, count]) => [own, checked(`environments[${own}].${name}`, count, COUNT)]));
  }
  const count = given(name, counts, COUNT);
  if (!count) return new Map();
  if (inside.length > 1) {
    throw invalidField(name, `is one number for a batch of ${inside.join(", ")}; give an object with a count by environment`);
  }
  return new Map([[inside[0], count]]);
}

/**
 * @param {any} entropy
 * @returns {{whole?: Entropy, parts: Map<string, Entropy>}} The whole batch's, or those by environment.
 */
function entropiesOf(entropy) {
  if (entropy === undefined || entropy === null) return { parts: new Map() };
  if (!isRecord(entropy)) {
    throw invalidField("entropy", `is ${shown(entropy)}; give {sumNats, tokenCount}, or an object with these by environment`);
  }
  const single = ENTROPY_FIELDS.some((name) => name in entropy && !isRecord(entropy[name]));
  if (single) return { whole: checkedEntropy("entropy", entropy), parts: new Map() };
  const entries = Object.entries(entropy);
  return { parts: new Map(entries.map(([name, own]) => [name, checkedEntropy(`environments[${name}].entropy`, own)])) };
}

/**
 * @param {string} name
 * @param {any} entropy
 * @returns {Entropy}
 */
function checkedEntropy(name, entropy) {
  checkNames(name, entropy, ENTROPY_FIELDS);
  const tokenCount = checked(`${name}.tokenCount`, entropy.tokenCount, COUNT);
  const sumNats = checked(`${name}.sumNats`, entropy.sumNats, NUMBER);
  if (tokenCount && !(sumNats >= 0 && sumNats < Infinity)) {
    throw invalidField(`${name}.sumNats`, `is ${sumNats}; give a finite sum in nats, 0 or more`);
  }
  return { sumNats, tokenCount, kind: given(`${name}.kind`, entropy.kind, TEXT) };
}

/**
 * @template T
 * @param {string} name
 * @param {T | null | undefined} value
 * @param {import("./read.js").Kind} kind
 */
function given(name, value, kind) {
  return optional(value, (own) => checked(name, own, kind));
}
