/** What an observation gets while the service is away. */

import { RejectedError } from "./errors.js";
import { DEFAULT_ENVIRONMENT } from "./report.js";
import { appliedWeights, NEUTRAL_MESSAGE } from "./schedule.js";
import { bytesOf } from "./transport.js";
import { grpoFactor, NEUTRAL, weigh } from "./weights.js";

/** @typedef {import("./schedule.js").Schedule} Schedule */

/**
 * Answers an observation without the service, and keeps its report for later.
 *
 * @param {import("./link.js").Link} link
 * @param {import("./settings.js").Settings} settings
 * @param {any} request An ObserveRequest.
 * @param {import("./report.js").Batch} batch
 * @param {(known: any) => Schedule} make
 * @returns {Schedule} With the source HELD or NEUTRAL.
 * @throws {RejectedError} A reward lies outside the declared range, or the id was answered here with other content.
 */
export function observeHere(link, settings, request, batch, make) {
  const { position } = link;
  const evaluation = request.split === "SPLIT_EVAL";
  const known = link.unsent.find((unsent) => unsent.request.observationId === request.observationId);
  if (known && !evaluation) return repeated(known, request);
  const config = position?.config ?? (settings.config && { rewardMin: 0, rewardMax: 1, ...settings.config });
  if (config)
    weigh(
      config,
      batch,
      batch.labels.map(() => NEUTRAL),
    ); // refuses what the service would refuse
  const { source, schedules } = chosen(position, settings.onUnavailable, request, batch);
  const parts = new Map([...schedules].map(([name, schedule]) => [name, { schedule }]));
  if (position) {
    const revision = position.revision + link.unsent.length;
    if (evaluation) return make({ parts, source, revision });
    const trained = [...schedules].map(([environment, schedule]) => ({ environment, schedule }));
    request.late = { configRevision: position.configRevision, source, schedules: trained };
    const schedule = make({ parts, source, revision: revision + 1 });
    if (link.keep(request, schedule)) {
      schedule.counters.unsent += 1;
      return schedule;
    }
  }
  // the run is not known, or no room is left to keep the report
  if (!evaluation) link.lose();
  const neutral = new Map([...schedules.keys()].map((name) => [name, { schedule: NEUTRAL_MESSAGE }]));
  return make({ parts: neutral, source: "NEUTRAL" });
}

/**
 * The schedules to train on, by environment, and what to call them. A `match_grpo` factor belongs to one observation, so it is
 * made anew.
 *
 * @param {import("./link.js").Position | null} position
 * @param {string} onUnavailable
 * @param {any} request
 * @param {import("./report.js").Batch} batch
 */
function chosen(position, onUnavailable, request, batch) {
  const reported = request.environments.map((/** @type {any} */ item) => item.environment);
  const names = [...new Set([...batch.environments, ...reported])];
  if (!names.length) names.push(DEFAULT_ENVIRONMENT);
  const known = position && onUnavailable === "hold" && names.some((name) => position.schedules.has(name));
  if (!known) return { source: "NEUTRAL", schedules: new Map(names.map((name) => [name, NEUTRAL_MESSAGE])) };
  const last = (/** @type {string} */ name) => position.schedules.get(name) ?? NEUTRAL_MESSAGE;
  const weights = batch.environments.map((name) => appliedWeights({ ...last(name), mode: "MODE_ACTIVE" }));
  const scale = position.config.scale === "SCALE_MATCH_GRPO" ? grpoFactor(position.config, batch, weights) : 1;
  return { source: "HELD", schedules: new Map(names.map((name) => [name, { ...last(name), scale }])) };
}

/**
 * @param {import("./link.js").Unsent} known
 * @param {any} request
 */
function repeated(known, request) {
  const content = (/** @type {any} */ { rows, groups, environments, entropy }) =>
    bytesOf({ rows, groups, environments, entropy });
  if (content(known.request).equals(content(request))) return known.schedule;
  const problem = `observation ${request.observationId} was reported before with other content; use a new id`;
  throw new RejectedError(problem, { reason: "OBSERVATION_CONFLICT", code: "ALREADY_EXISTS" });
}
