/**
 * What happens to observations that are refused or not answered, against a server of its own.
 *
 *     node test/policies.js [-- COMMAND...]
 *
 * COMMAND starts the server; it takes "serve" and its options (default: fade).
 */

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";
import { parseArgs } from "node:util";

import { FadeClient, RejectedError, UnavailableError } from "fade-client";

import { Server } from "./server.js";

const { positionals: command } = parseArgs({ allowPositionals: true });
const server = new Server(command.length ? command : ["fade"]);

const GOOD = { rewards: [1, 0, 0, 0], groups: ["a", "a", "a", "a"] };
const HIGH = { rewards: [5, 0], groups: ["a", "a"] };

/** Of this test. @type {FadeClient[]} */
let clients = [];
/** Of this test. @type {string[]} */
let warnings = [];
process.on("warning", ({ name, message }) => void (name === "FadeWarning" && warnings.push(message)));

let runs = 0;

/** A client of a run of its own. */
function connect(options = {}) {
  runs += 1;
  const client = new FadeClient({
    address: server.address,
    run: `run-${runs}`,
    timeoutMs: 2_000,
    config: { emaWeight: 0.5 },
    ...options,
  });
  clients.push(client);
  return client;
}

/** What was warned of so far: warnings come on the next turn of the event loop. */
async function warned() {
  await new Promise(setImmediate);
  return warnings;
}

before(() => server.start());
after(() => server.close());
afterEach(async () => {
  await server.start();
  await Promise.all(clients.map((client) => client.close()));
  [clients, warnings] = [[], []];
});

test("the first refusal throws, with field and row", async () => {
  const client = connect();
  for (const id of ["once", "twice"])
    await assert.rejects(client.observe(id, HIGH), { name: "RejectedError", field: "rewards", row: 0 });
  await assert.rejects(client.observe("b", { ...GOOD, trainerStep: "x" }), { name: "RejectedError", field: "trainer_step" });
  assert.equal((await client.observe("c", GOOD)).source, "SERVER");
});

test("later refusals train on neutral weights, and say so", async () => {
  const client = connect();
  assert.equal((await client.observe("first", GOOD)).metrics()["fade/rejected"], 0);
  const schedule = await client.observe("high", HIGH);
  assert.deepEqual([schedule.source, schedule.rejection, schedule.revision], ["NEUTRAL", "INVALID_FIELD", null]);
  assert.deepEqual([...schedule.advantages(HIGH.rewards, HIGH.groups)], [2.5, -2.5]); // r - rbar on a range of width 1
  assert.deepEqual(
    schedule.warnings.map(({ reason, subject }) => [reason, subject]),
    [["INVALID_FIELD", "rewards"]],
  );
  const metrics = schedule.metrics();
  assert.deepEqual(
    [metrics["fade/rejection"], metrics["fade/rejected"], metrics["fade/source"]],
    ["INVALID_FIELD", 1, "NEUTRAL"],
  );
  assert.equal((await client.observe("step", { ...GOOD, trainerStep: "x" })).metrics()["fade/rejected"], 2);
  assert.equal((await client.observe("none")).rejection, "INVALID_FIELD");
  assert.equal((await client.observe("first", { ...GOOD, rewards: [1, 1, 1, 0] })).rejection, "OBSERVATION_CONFLICT");
  const last = await client.observe("last", GOOD);
  assert.deepEqual([last.source, last.rejection, last.revision], ["SERVER", null, 2]);
  assert.equal("fade/rejection" in last.metrics(), false);
  const said = (await warned()).map((message) => /\(said once per reason\): (\w+): /.exec(message)?.[1]);
  assert.deepEqual(said, ["INVALID_FIELD", "OBSERVATION_CONFLICT"]);
});

test("an environment that is missing later trains on neutral weights", async () => {
  const client = connect();
  await client.observe("first", GOOD);
  const schedule = await client.observe("b", { ...GOOD, environments: {} });
  assert.equal(schedule.rejection, "INVALID_FIELD");
  assert.deepEqual([...schedule.advantages(GOOD.rewards, GOOD.groups)], [0.75, -0.25, -0.25, -0.25]);
});

test("another writer's refusal is one of the first observation too", async () => {
  const client = connect();
  await client.observe("ours", GOOD);
  const other = connect({ run: `run-${runs}` });
  await assert.rejects(other.observe("theirs", GOOD), { reason: "WRITER_FENCED" });
});

test("raise throws always", async () => {
  const client = connect({ onRejected: "raise" });
  await client.observe("first", GOOD);
  await assert.rejects(client.observe("high", HIGH), RejectedError);
  await assert.rejects(client.observe("none"), RejectedError);
  assert.equal((await client.observe("last", GOOD)).revision, 2);
});

test("a service that comes back does not stop a run that went on without it", async () => {
  const theirs = connect();
  await theirs.observe("theirs", GOOD);
  await server.stop();
  const client = connect({ run: `run-${runs}`, timeoutMs: 300 });
  assert.equal((await client.observe("away", GOOD)).source, "NEUTRAL");
  await server.start();
  await client.flush(20_000);
  const fenced = await client.observe("back", GOOD);
  assert.deepEqual([fenced.source, fenced.rejection], ["NEUTRAL", "WRITER_FENCED"]);
});

test("while the service is away, HELD says that the last schedule is trained on, once", async () => {
  const client = connect();
  const { alpha } = await client.observe("first", GOOD);
  await server.stop();
  const schedules = [await client.observe("second", GOOD), await client.observe("third", GOOD)];
  for (const schedule of schedules) {
    assert.deepEqual([schedule.source, schedule.metrics()["fade/source"], schedule.alpha], ["HELD", "HELD", alpha]);
  }
  const high = await client.observe("high", HIGH);
  assert.deepEqual([high.source, high.rejection, high.metrics()["fade/unsent"]], ["NEUTRAL", "INVALID_FIELD", 2]);
  assert.deepEqual([...high.advantages(HIGH.rewards, HIGH.groups)], [2.5, -2.5]);
  const away = (await warned()).filter((message) => message.startsWith("the service is away"));
  assert.equal(away.length, 1);
  assert.match(away[0], new RegExp(`^the service is away, and HELD weights are trained on: .*${server.address}`));
  await server.start();
  assert(await client.flush(20_000));
  const back = await client.observe("back", GOOD);
  assert.deepEqual([back.source, back.revision], ["SERVER", 4]);
});

test("an address where nobody answers is said again after a minute", async (context) => {
  await server.stop();
  const client = connect({ timeoutMs: 100 });
  const now = performance.now.bind(performance);
  let minutes = 0;
  context.mock.method(performance, "now", () => now() + 60_000 * minutes);
  for (minutes of [0, 0.25, 0.5, 1.5, 1.75]) {
    const schedule = await client.observe(`at ${minutes}`, GOOD);
    assert.deepEqual([schedule.source, schedule.rejection, schedule.metrics()["fade/source"]], ["NEUTRAL", null, "NEUTRAL"]);
  }
  const said = await warned();
  assert.equal(said.length, 2);
  for (const message of said) assert.match(message, /NEUTRAL weights are trained on: .* check address \(FADE_ADDRESS\)/);
});

test("rewards outside the range that the client was given throw at the first observation, also while the service is away", async () => {
  await server.stop();
  const client = connect({ timeoutMs: 100 });
  await assert.rejects(client.observe("high", HIGH), { field: "rewards", row: 0, message: /declare rewardMin and rewardMax/ });
  const unknown = connect({ timeoutMs: 100, config: undefined }); // the run may have any range
  assert.equal((await unknown.observe("high", HIGH)).source, "NEUTRAL");
});

test("raise throws what is not answered, without a word more", async () => {
  await server.stop();
  const client = connect({ timeoutMs: 100, onUnavailable: "raise" });
  await assert.rejects(client.observe("first", GOOD), UnavailableError);
  assert.deepEqual(await warned(), []);
});
