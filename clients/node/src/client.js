/** The client that a trainer holds. */

import { observeHere } from "./away.js";
import { wordOf } from "./config.js";
import { ClosedError, RejectedError, UnavailableError } from "./errors.js";
import { Link } from "./link.js";
import { DEFAULT_ENVIRONMENT, readBatch } from "./report.js";
import { requestOf } from "./request.js";
import { NEUTRAL_MESSAGE, Schedule } from "./schedule.js";
import { settingsOf } from "./settings.js";
import { Deadline } from "./transport.js";

/** While the service is away it is said once in this time. */
const AWAY_WARNING_MS = 60_000;

/** Reports each generation batch of one run and gets the schedule for that same batch. One client per run and process. */
export class FadeClient {
  #settings;
  #link;
  #turn = Promise.resolve();
  #closed = false;
  /** Whether any observation got a schedule other than by being refused. */
  #accepted = false;
  /** Observations refused so far. */
  #rejected = 0;
  /** @type {Set<string>} The reasons for it. */
  #reasons = new Set();
  #saidAway = -Infinity;

  /**
   * Nothing is sent before the first observation.
   *
   * @param {import("./settings.js").Options} [options]
   * @throws {import("./errors.js").SettingsError} An option is unknown, missing or wrong.
   */
  constructor(options = {}) {
    this.#settings = settingsOf(options);
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
   * @throws {RejectedError} The report was refused, by reason, field and row; see `onRejected`.
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
   * One observation under both policies.
   *
   * @param {string} observationId
   * @param {import("./report.js").Report} report
   * @param {Deadline} deadline
   */
  async #observe(observationId, report, deadline) {
    if (this.#closed) throw new ClosedError("the client was closed; make a new one");
    const make = (/** @type {any} */ known) => {
      const own = { observationId, range: this.#range, groupEnvironments: report?.environments, counters: this.#counters };
      return new Schedule({ ...own, ...known });
    };
    try {
      const schedule = await this.#answer(observationId, report, deadline, make);
      this.#accepted = true;
      return schedule;
    } catch (error) {
      if (!(error instanceof RejectedError) || this.#settings.onRejected === "raise" || !this.#accepted) throw error;
      return this.#neutralAfter(error, make);
    } finally {
      this.#link.wake();
    }
  }

  /**
   * @param {string} observationId
   * @param {import("./report.js").Report} report
   * @param {Deadline} deadline
   * @param {(known: any) => Schedule} make
   */
  async #answer(observationId, report, deadline, make) {
    const batch = readBatch(report);
    const request = requestOf(observationId, batch, report);
    request.lostReports = report.evaluation ? 0 : this.#link.lostReports;
    try {
      return make(answered(await this.#link.observe(request, deadline)));
    } catch (error) {
      if (!(error instanceof UnavailableError) || this.#settings.onUnavailable === "raise") throw error;
      const schedule = observeHere(this.#link, this.#settings, request, batch, make);
      this.#sayAway(error, schedule.source);
      return schedule;
    }
  }

  /**
   * What a refused observation trains on.
   *
   * @param {RejectedError} error
   * @param {(known: any) => Schedule} make
   */
  #neutralAfter(error, make) {
    const { reason, message, field: subject } = error;
    this.#rejected += 1;
    if (!this.#reasons.has(reason)) {
      this.#reasons.add(reason);
      const problem = `an observation was refused and trains on neutral weights (said once per reason): ${message}`;
      process.emitWarning(problem, "FadeWarning");
    }
    const parts = new Map([[DEFAULT_ENVIRONMENT, { schedule: NEUTRAL_MESSAGE }]]);
    return make({ parts, source: "NEUTRAL", warnings: [{ reason, message, subject }], rejection: reason });
  }

  /**
   * @param {UnavailableError} error
   * @param {string} source Of what is trained on instead.
   */
  #sayAway(error, source) {
    const now = performance.now();
    if (now - this.#saidAway < AWAY_WARNING_MS) return;
    this.#saidAway = now;
    const hint = this.#link.position ? "" : "; it has not answered yet: check address (FADE_ADDRESS)";
    process.emitWarning(`the service is away, and ${source} weights are trained on: ${error.message}${hint}`, "FadeWarning");
  }

  /** How the run maps its rewards, as far as it is known. */
  get #range() {
    return this.#link.position?.config ?? { rewardMin: 0, rewardMax: 1, ...this.#settings.config };
  }

  get #counters() {
    const { unsent, lostTotal: lost, dropped } = this.#link;
    return { rejected: this.#rejected, unsent: unsent.length, lost, dropped };
  }
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
