/** The client that a trainer holds. */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import { configToMessage, wordOf } from "./config.js";
import { ClosedError, RejectedError, SettingsError, UnavailableError } from "./errors.js";
import { Link } from "./link.js";
import { DEFAULT_ENVIRONMENT, readBatch, requestOf } from "./report.js";
import { appliedWeights, NEUTRAL_MESSAGE, Schedule } from "./schedule.js";
import { bytesOf, Deadline } from "./transport.js";
import { grpoFactor } from "./weights.js";

const POLICIES = ["hold", "neutral", "raise"];

/**
 * @typedef {object} Options
 * @property {string} [address] HOST:PORT of the service; default `FADE_ADDRESS`.
 * @property {string} [run] The run's id, 1 to 63 lower-case letters, digits and inner hyphens; default `FADE_RUN`. A run that
 *   exists is joined: its stored configuration wins, and each difference is a process warning.
 * @property {string} [project] The project's id.
 * @property {Record<string, number | boolean | string>} [config] Configuration of the run where it does not exist yet: the fields
 *   of docs/configuration.md in camelCase. None means the defaults.
 * @property {string} [token] Sent as a bearer token; default `FADE_TOKEN`, else none.
 * @property {string} [writer] The id of this attempt of the job, 1 to 128 characters; a job that goes on gives the one it had.
 *   Default: made anew.
 * @property {number} [timeoutMs] The longest that one call may take, over all attempts, in milliseconds.
 * @property {"hold" | "neutral" | "raise"} [onUnavailable] What an observation gets while the service is away. "hold": the last
 *   schedule; "neutral": alpha = delta = 1. With these the report is kept and sent later. "raise": UnavailableError, and the
 *   report is not kept.
 */

/**
 * @typedef {object} Settings {@link Options}, checked.
 * @property {string} address
 * @property {string} run
 * @property {string} parent The project's resource name.
 * @property {string} name The run's resource name.
 * @property {any} config A message of fade.v1, or undefined.
 * @property {string} token
 * @property {string} writer
 * @property {number} timeoutMs
 * @property {string} onUnavailable
 */

/** Reports each generation batch of one run and gets the schedule for that same batch. One client per run and process. */
export class FadeClient {
  #settings;
  #link;
  #turn = Promise.resolve();
  #closed = false;

  /**
   * Nothing is sent before the first observation.
   *
   * @param {Options} [options]
   * @throws {SettingsError} An option is missing or wrong.
   */
  constructor(options = {}) {
    this.#settings = checked(options);
    this.#link = new Link(this.#settings);
  }

  /** The id of this attempt of the job. */
  get writer() {
    return this.#settings.writer;
  }

  /**
   * Reports one generation batch, moves the run's controller once, and gives the schedule for this same batch. Observations made
   * at once go out one after the other.
   *
   * @param {string} observationId Yours, 1 to 128 characters; the same id with the same content counts once.
   * @param {import("./report.js").Report} report
   * @returns {Promise<Schedule>}
   * @throws {UnavailableError} Only with `onUnavailable: "raise"`.
   * @throws {RejectedError} The report was refused, by reason, field and row.
   * @throws {ClosedError} The client was closed.
   */
  observe(observationId, report) {
    const deadline = new Deadline(this.#settings.timeoutMs);
    const answer = this.#turn.then(() => this.#observe(observationId, report, deadline));
    this.#turn = answer.then(
      () => {},
      () => {},
    );
    return answer;
  }

  /**
   * Waits until no report waits for the service.
   *
   * @param {number} [milliseconds] The longest wait; default `timeoutMs`.
   * @returns {Promise<boolean>} Whether that is so.
   */
  flush(milliseconds = this.#settings.timeoutMs) {
    return this.#link.flush(milliseconds);
  }

  /** Waits for what is under way, flushes for up to `timeoutMs`, and ends; what could not be sent is a process warning. */
  async close() {
    if (this.#closed) return;
    this.#closed = true;
    await this.#turn;
    await this.#link.flush(this.#settings.timeoutMs);
    const unsent = this.#link.unsent.length;
    if (unsent) process.emitWarning(`${unsent} reports to ${this.#settings.address} were not sent`, "FadeWarning");
    this.#link.close();
  }

  /**
   * @param {string} observationId
   * @param {import("./report.js").Report} report
   * @param {Deadline} deadline
   */
  async #observe(observationId, report, deadline) {
    if (this.#closed) throw new ClosedError("the client was closed; make a new one");
    const batch = readBatch(report);
    const request = requestOf(observationId, batch, report);
    request.lostReports = report.evaluation ? 0 : this.#link.lostReports;
    const make = (/** @type {any} */ known) =>
      new Schedule({
        observationId,
        range: this.#link.position?.config ?? { rewardMin: 0, rewardMax: 1, ...this.#settings.config },
        groupEnvironments: report.environments,
        counters: { unsent: this.#link.unsent.length, lost: this.#link.lostTotal, dropped: this.#link.dropped },
        ...known,
      });
    try {
      return make(answered(await this.#link.observe(request, deadline)));
    } catch (error) {
      if (!(error instanceof UnavailableError)) throw error;
      if (this.#settings.onUnavailable !== "raise") return this.#observeHere(request, batch, make);
      throw error;
    } finally {
      this.#link.wake();
    }
  }

  /**
   * Answers an observation without the service.
   *
   * @param {any} request
   * @param {import("./report.js").Batch} batch
   * @param {(known: any) => Schedule} make
   */
  #observeHere(request, batch, make) {
    const evaluation = request.split === "SPLIT_EVAL";
    const known = this.#link.unsent.find((unsent) => unsent.request.observationId === request.observationId);
    if (known && !evaluation) return repeated(known, request);
    const { source, schedules } = this.#choose(request, batch);
    const parts = new Map([...schedules].map(([name, schedule]) => [name, { schedule }]));
    const { position } = this.#link;
    if (position) {
      const revision = position.revision + this.#link.unsent.length;
      if (evaluation) return make({ parts, source, revision });
      const trained = [...schedules].map(([environment, schedule]) => ({ environment, schedule }));
      request.late = { configRevision: position.configRevision, source, schedules: trained };
      const schedule = make({ parts, source, revision: revision + 1 });
      if (this.#link.keep(request, schedule)) {
        schedule.counters.unsent += 1;
        return schedule;
      }
    }
    // the run is not known, or no room is left to keep the report
    if (!evaluation) this.#link.lose();
    const neutral = new Map([...schedules.keys()].map((name) => [name, { schedule: NEUTRAL_MESSAGE }]));
    return make({ parts: neutral, source: "NEUTRAL" });
  }

  /**
   * The schedules to train on, by environment, and what to call them. A `match_grpo` factor belongs to one observation, so it is
   * made anew.
   *
   * @param {any} request
   * @param {import("./report.js").Batch} batch
   */
  #choose(request, batch) {
    const reported = request.environments.map((/** @type {any} */ item) => item.environment);
    const names = [...new Set([...batch.environments, ...reported])];
    if (!names.length) names.push(DEFAULT_ENVIRONMENT);
    const { position } = this.#link;
    const known = position && this.#settings.onUnavailable === "hold" && names.some((name) => position.schedules.has(name));
    if (!known) return { source: "NEUTRAL", schedules: new Map(names.map((name) => [name, NEUTRAL_MESSAGE])) };
    const last = (/** @type {string} */ name) => position.schedules.get(name) ?? NEUTRAL_MESSAGE;
    const weights = batch.environments.map((name) => appliedWeights({ ...last(name), mode: "MODE_ACTIVE" }));
    const scale = position.config.scale === "SCALE_MATCH_GRPO" ? grpoFactor(position.config, batch, weights) : 1;
    return { source: "HELD", schedules: new Map(names.map((name) => [name, { ...last(name), scale }])) };
  }
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

/** @param {any} response An ObserveResponse. */
function answered(response) {
  const pinned = response.schedules.every((/** @type {any} */ item) => item.schedule.mode === "MODE_PINNED");
  return {
    parts: new Map(response.schedules.map((/** @type {any} */ item) => [item.environment, item])),
    source: pinned ? "PINNED" : "SERVER",
    revision: response.revision,
    outcome: wordOf("OUTCOME_", response.outcome),
    degraded: response.degraded,
    warnings: response.warnings,
  };
}

/**
 * @param {Options} options
 * @returns {Settings}
 */
function checked({ project = "default", config, timeoutMs = 2_000, onUnavailable = "hold", ...options }) {
  const address = options.address || process.env.FADE_ADDRESS;
  const run = options.run || process.env.FADE_RUN;
  const writer = options.writer ?? `${hostname().slice(0, 64)}-${process.pid}-${randomBytes(4).toString("hex")}`;
  if (!address) throw new SettingsError("address is not known; pass address, or set FADE_ADDRESS");
  if (!run) throw new SettingsError("run is not known; pass run, or set FADE_RUN");
  if (writer.length < 1 || writer.length > 128) throw new SettingsError(`writer has ${writer.length} characters; give 1 to 128`);
  if (!(timeoutMs > 0)) throw new SettingsError(`timeoutMs is ${timeoutMs}; give more than 0`);
  if (!POLICIES.includes(onUnavailable)) {
    throw new SettingsError(`onUnavailable is ${onUnavailable}; choose one of ${POLICIES.join(", ")}`);
  }
  return {
    address,
    run,
    parent: `projects/${project}`,
    name: `projects/${project}/runs/${run}`,
    config: config && configToMessage(config),
    token: options.token || process.env.FADE_TOKEN || "",
    writer,
    timeoutMs,
    onUnavailable,
  };
}
