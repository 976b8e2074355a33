/** What the client does with the service: first contact, reports now and late, and finding out when it is back. */

import { setTimeout as sleep } from "node:timers/promises";

import { RejectedError, UnavailableError } from "./errors.js";
import { bytesOf, Deadline, Transport } from "./transport.js";

/** Failed calls in a row after which an observation calls no more until the background got through. */
const OPEN_AFTER = 3;

const FIRST_WAIT_MS = 100;
const LONGEST_WAIT_MS = 5_000;

/** Size of the reports that are kept for later. */
const UNSENT_LIMIT_BYTES = 64 * 2 ** 20;

/**
 * @typedef {object} Position The run's line as the service last confirmed it.
 * @property {string} branch
 * @property {number} revision Observations along it.
 * @property {any} config The configuration in force: a message of fade.v1.
 * @property {number} configRevision
 * @property {Map<string, any>} schedules The last schedule of each environment: messages of fade.v1.
 */

/** @typedef {{request: any, size: number, schedule: import("./schedule.js").Schedule}} Unsent */

/**
 * The way to the service, for one run and one writer. There is no second caller while one waits for an answer: observations wait
 * for each other, and they call only when the background has nothing to do.
 */
export class Link {
  /** @type {Position | null} */
  position = null;
  /** @type {Unsent[]} Reports that the service has not confirmed, in order. */
  unsent = [];
  /** Batches whose reports are lost and not yet told. */
  lostReports = 0;
  /** All of them so far. */
  lostTotal = 0;
  /** Late reports that the service refused. */
  dropped = 0;
  #settings;
  #transport;
  #failures = 0;
  #closed = false;
  /** @type {Promise<void> | null} */
  #working = null;
  #hurry = new AbortController();

  /** @param {import("./settings.js").Settings} settings */
  constructor(settings) {
    this.#settings = settings;
    this.#transport = new Transport(settings.address, settings.token);
  }

  /**
   * Reports one observation now.
   *
   * @param {any} request An ObserveRequest.
   * @param {Deadline} deadline
   * @returns {Promise<any>} The ObserveResponse.
   * @throws {UnavailableError} The service does not answer, or earlier reports still wait for it.
   * @throws {RejectedError} The service refused.
   */
  async observe(request, deadline) {
    const { address } = this.#settings;
    if (this.unsent.length) throw new UnavailableError(`${this.unsent.length} earlier reports wait for ${address}`);
    if (this.#failures >= OPEN_AFTER) {
      throw new UnavailableError(`the last ${this.#failures} calls to ${address} failed; it is tried in the background`);
    }
    return this.#watched(async () => {
      const position = this.position ?? (await this.#join(deadline));
      const response = await this.#deliver(request, position, deadline);
      this.lostReports -= request.lostReports;
      return response;
    });
  }

  /**
   * Keeps a report for later.
   *
   * @param {any} request An ObserveRequest with what was trained on.
   * @param {import("./schedule.js").Schedule} schedule
   * @returns {boolean} Whether there was room.
   */
  keep(request, schedule) {
    const size = bytesOf(request).length;
    const whole = this.unsent.reduce((sum, unsent) => sum + unsent.size, size);
    if (whole > UNSENT_LIMIT_BYTES) return false;
    this.unsent.push({ request, size, schedule });
    this.lostReports -= request.lostReports;
    return true;
  }

  /** Counts a batch that is trained on without a report. */
  lose() {
    this.lostReports += 1;
    this.lostTotal += 1;
  }

  /** Lets the background see to what waits. */
  wake() {
    if (this.#working || this.#closed || !this.#hasWork()) return;
    this.#working = this.#work().finally(() => (this.#working = null));
  }

  /**
   * Tries at once, and waits until nothing waits for the service.
   *
   * @param {number} milliseconds The longest wait.
   * @returns {Promise<boolean>} Whether that is so.
   */
  async flush(milliseconds) {
    this.wake();
    this.#hurry.abort();
    const done = new AbortController();
    const timeout = sleep(milliseconds, undefined, { signal: done.signal }).catch(() => {});
    await Promise.race([this.#working, timeout]);
    done.abort();
    return this.#working === null && !this.#hasWork();
  }

  /** Ends the background and the channel. */
  close() {
    this.#closed = true;
    this.#hurry.abort();
    this.#transport.close();
  }

  #hasWork() {
    return this.unsent.length > 0 || this.#failures >= OPEN_AFTER;
  }

  async #work() {
    let wait = FIRST_WAIT_MS;
    while (!this.#closed && this.#hasWork()) {
      try {
        await this.#watched(() => this.#step());
        wait = FIRST_WAIT_MS;
      } catch (error) {
        if (error instanceof RejectedError) continue; // an answer all the same; of a join, the next observation gets it itself
        this.#hurry = new AbortController();
        const pause = sleep(wait * (0.5 + Math.random() / 2), undefined, { signal: this.#hurry.signal, ref: false });
        wait = await pause.then(
          () => Math.min(2 * wait, LONGEST_WAIT_MS),
          () => FIRST_WAIT_MS,
        );
      }
    }
  }

  /** One call in the background: contact, then the oldest report, or only whether somebody is there. */
  async #step() {
    const deadline = new Deadline(this.#settings.timeoutMs);
    if (!this.position) return void (await this.#join(deadline));
    if (!this.unsent.length) return void (await this.#getRun(deadline));
    const { request } = this.unsent[0];
    try {
      await this.#deliver(request, this.position, deadline);
    } catch (error) {
      if (!(error instanceof RejectedError)) throw error;
      this.dropped += 1;
      process.emitWarning(`late report ${request.observationId} was refused and is dropped: ${error.message}`, "FadeWarning");
    }
    this.unsent.shift();
  }

  /**
   * Counts failures in a row; any answer ends them, a refusal too.
   *
   * @template T
   * @param {() => Promise<T>} call
   * @returns {Promise<T>}
   */
  async #watched(call) {
    try {
      const result = await call();
      this.#failures = 0;
      return result;
    } catch (error) {
      this.#failures = error instanceof RejectedError ? 0 : this.#failures + 1;
      throw error;
    }
  }

  /** @param {Deadline} deadline */
  async #join(deadline) {
    const { parent, run: runId, config } = this.#settings;
    const run = await this.#transport.call("CreateRun", { parent, runId, run: config && { config } }, deadline, true);
    for (const { message } of run.warnings) process.emitWarning(`run ${run.name}: ${message}`, "FadeWarning");
    const found = run.revision
      ? await this.#transport.call("GetSchedule", { name: run.name, branch: run.branch }, deadline)
      : { branch: run.branch, revision: 0, schedules: [] };
    this.position = {
      branch: found.branch,
      revision: found.revision,
      config: run.config,
      configRevision: run.configRevision,
      schedules: schedulesOf(found),
    };
    return this.position;
  }

  /**
   * @param {any} request
   * @param {Position} position
   * @param {Deadline} deadline
   */
  async #deliver(request, position, deadline) {
    Object.assign(request, { name: this.#settings.name, branch: position.branch, writer: this.#settings.writer });
    const response = await this.#transport.call("Observe", request, deadline);
    if (request.split === "SPLIT_EVAL" || response.revision <= position.revision) return response; // a replay moves nothing
    position.revision = response.revision;
    position.schedules = new Map([...position.schedules, ...schedulesOf(response)]);
    if (response.configRevision > position.configRevision) await this.#refreshConfig(position, deadline);
    return response;
  }

  /**
   * Reads a configuration that changed live.
   *
   * @param {Position} position
   * @param {Deadline} deadline
   */
  async #refreshConfig(position, deadline) {
    try {
      const run = await this.#getRun(deadline);
      Object.assign(position, { config: run.config, configRevision: run.configRevision });
    } catch (error) {
      process.emitWarning(`the changed configuration of ${this.#settings.name} was not read: ${error}`, "FadeWarning");
    }
  }

  /** @param {Deadline} deadline */
  #getRun(deadline) {
    return this.#transport.call("GetRun", { name: this.#settings.name }, deadline);
  }
}

/** @param {{schedules: any[]}} answer */
function schedulesOf({ schedules }) {
  return new Map(schedules.map((item) => [item.environment, item.schedule]));
}
