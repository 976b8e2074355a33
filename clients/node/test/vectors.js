/**
 * Plays the vectors of tests/vectors with the client, against a server of its own.
 *
 *     node test/vectors.js [--vectors FOLDER] [-- COMMAND...]
 *
 * COMMAND starts the server; it takes "serve" and its options (default: fade).
 */

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { FadeClient, RejectedError, RowStatus, UnavailableError } from "fade-client";

import { configToMessage } from "../src/config.js";
import { Server } from "./server.js";

const VECTORS = fileURLToPath(new URL("../../../tests/vectors", import.meta.url));

const known = /** @type {const} */ ({ vectors: { type: "string", default: VECTORS } });
const { values: options, positionals: command } = parseArgs({ options: known, allowPositionals: true });
const files = readdirSync(options.vectors).filter((name) => name.endsWith(".json"));
const scenarios = files.sort().flatMap((name) => JSON.parse(readFileSync(join(options.vectors, name), "utf8")));
assert(scenarios.length, `no vectors in ${options.vectors}`);
const server = new Server(command.length ? command : ["fade"]);

/** One scenario under way. */
class Player {
  /** @type {Map<string, FadeClient>} */
  #clients = new Map();
  #scenario;
  #run;

  constructor(scenario) {
    this.#scenario = scenario;
    const words = scenario.name.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    this.#run = `v${words.slice(0, 60).replace(/-+$/, "")}`;
  }

  async play() {
    for (const [number, step] of this.#scenario.steps.entries()) await this.#step(`step ${number}`, step);
  }

  close() {
    return Promise.all([...this.#clients.values()].map((client) => client.close()));
  }

  async #step(place, step) {
    if (step.stop_server || step.restart_server) await server.stop();
    if (step.start_server || step.restart_server) await server.start();
    if (step.flush) assert(await this.#client(step).flush(30_000), `${place}: reports are still unsent`);
    if (step.update) await this.#update(step.update);
    if (step.history) same(await this.#history(), step.history, `${place}: history`);
    if (step.state) same(await this.#state(), step.state, `${place}: state`);
    if (step.error) {
      await this.#refused(place, step);
    } else if (step.observe || step.evaluate) {
      for (const schedule of await this.#observe(step)) same(shown(schedule, step), step.expect, place);
    }
  }

  #observe(step) {
    const { id, ...report } = reportOf(step.observe ?? step.evaluate);
    report.evaluation = "evaluate" in step;
    const callers = Array.from({ length: step.callers ?? 0 }, (_, number) => ({ client: `caller ${number}` }));
    const clients = callers.length ? callers.map((own) => this.#client(own, this.#writer(step))) : [this.#client(step)];
    return Promise.all(clients.map((client) => client.observe(id, report)));
  }

  async #refused(place, step) {
    const error = await this.#observe(step).then(
      () => assert.fail(`${place}: was not refused`),
      (caught) => caught,
    );
    if (!(error instanceof RejectedError || error instanceof UnavailableError)) throw error;
    const given = error instanceof UnavailableError ? { unavailable: true } : error;
    same(pick(given, step.error), step.error, `${place}: ${error.message}`);
  }

  #writer(step) {
    return this.#scenario.writer ?? step.client ?? "main";
  }

  #client(step, writer = this.#writer(step)) {
    const name = step.client ?? "main";
    const { config, timeout_seconds: seconds = 20, on_unavailable: onUnavailable = "raise" } = this.#scenario;
    const settings = { config: camel(config), writer, timeoutMs: seconds * 1000, onUnavailable, onRejected: "raise" };
    const make = () => new FadeClient({ address: server.address, run: this.#run, ...settings });
    if (!this.#clients.has(name)) this.#clients.set(name, make());
    return this.#clients.get(name);
  }

  get #name() {
    return `projects/default/runs/${this.#run}`;
  }

  #update(values) {
    const config = configToMessage(camel(values));
    const paths = Object.keys(values).map((name) => `config.${name}`);
    return server.call("UpdateRun", { run: { name: this.#name, config }, updateMask: { paths } });
  }

  async #history() {
    const { observations } = await server.call("ListObservations", { parent: this.#name });
    return observations.map(({ observationId: id, late, lostReports }) => {
      return { id, late: late?.source ?? "", lost_reports: lostReports };
    });
  }

  async #state() {
    const { revision, state } = await server.call("GetSchedule", { name: this.#name });
    const environments = state.environments.map((item) => {
      const { solveRate, entropyNats = null, observationCount } = item;
      return [item.environment, { solve_rate: solveRate, entropy_nats: entropyNats, observation_count: observationCount }];
    });
    return { revision, environments: Object.fromEntries(environments) };
  }
}

/** The same names in camelCase, one level deep. */
function camel(values) {
  const renamed = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [renamed(name), value]));
}

/** A report in the vectors' words as the client takes it. */
function reportOf(body) {
  const report = camel(body);
  report.rewards = report.rewards.map((value) => (typeof value === "string" ? Number(value) : value));
  if (report.statuses) report.statuses = report.statuses.map((name) => RowStatus[name]);
  if (report.entropy && "sum_nats" in report.entropy) {
    report.entropy = camel(report.entropy);
  } else if (report.entropy) {
    const entries = Object.entries(report.entropy);
    report.entropy = Object.fromEntries(entries.map(([name, entropy]) => [name, camel(entropy)]));
  }
  return report;
}

/** Of a schedule, what the step expects something of. */
function shown(schedule, { expect, observe }) {
  const { source, revision, outcome, degraded, warnings } = schedule;
  const known = { source, revision, outcome, degraded, warnings: warnings.map(({ reason }) => reason) };
  if (expect.environments) {
    assert.deepEqual([...schedule.parts.keys()].sort(), Object.keys(expect.environments).sort());
    const entries = Object.entries(expect.environments);
    known.environments = Object.fromEntries(entries.map(([name, own]) => [name, environment(schedule.get(name), own)]));
  } else {
    Object.assign(known, environment(schedule, expect));
  }
  if (expect.advantages) {
    const { rewards, groups, solved, statuses, rollouts } = reportOf(observe);
    const advantages = schedule.advantages(rewards, groups, { solved, statuses, rollouts });
    assert(advantages instanceof Float64Array);
    known.advantages = [...advantages];
  }
  return pick(known, expect);
}

/** The same of one environment. */
function environment(schedule, expect) {
  const known = {};
  for (const name of ["alpha", "delta", "scale", "phase"]) if (name in expect) known[name] = schedule[name];
  const metrics = schedule.metrics();
  if (expect.metrics) {
    known.metrics = Object.fromEntries(Object.keys(expect.metrics).map((name) => [name, metrics[`fade/${name}`]]));
  }
  return known;
}

function pick(values, names) {
  return Object.fromEntries(Object.keys(names).map((name) => [name, values[name]]));
}

/** Numbers to 1e-12 of themselves, zeros exactly, everything else as it is. */
function same(given, expected, place) {
  if (typeof expected === "number" && typeof given === "number") {
    const close = Math.abs(given - expected) <= 1e-12 * Math.max(Math.abs(given), Math.abs(expected));
    assert(close, `${place}: ${given} instead of ${expected}`);
  } else if (expected !== null && typeof expected === "object" && given !== null && typeof given === "object") {
    assert.deepEqual(Object.keys(given).sort(), Object.keys(expected).sort(), place);
    for (const name of Object.keys(expected)) same(given[name], expected[name], `${place}: ${name}`);
  } else {
    assert.equal(given, expected, place);
  }
}

try {
  for (const scenario of scenarios) await test(scenario.name, () => play(scenario));
} finally {
  await server.close();
}

async function play(scenario) {
  await server.start();
  const player = new Player(scenario);
  try {
    await player.play();
  } finally {
    await player.close();
  }
}
