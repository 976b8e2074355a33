/** What is refused when a client is made. Nobody answers at the address. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { FadeClient, SettingsError } from "fade-client";

const GOOD = { address: "127.0.0.1:1", run: "r" };

for (const name of ["FADE_ADDRESS", "FADE_RUN", "FADE_TOKEN"]) delete process.env[name];

/** The message that the options are refused with. */
function refused(options) {
  try {
    new FadeClient(options);
  } catch (error) {
    assert(error instanceof SettingsError, error.stack);
    return error.message;
  }
  return assert.fail(`was not refused: ${inspect(options)}`);
}

const WRONG = {
  "an address that is a URL": [{ address: "http://localhost:50051" }, /^address is 'http:\/\/localhost:50051'; give HOST:PORT/],
  "an address without a port": [{ address: "localhost" }, /^address is 'localhost'; give HOST:PORT/],
  "an address with a path": [{ address: "localhost:50051/" }, /^address .* give HOST:PORT/],
  "an address with a line break": [{ address: "localhost:50051\n" }, /^address .* give HOST:PORT/],
  "an IPv6 address without brackets": [{ address: "::1:50051" }, /^address .* give HOST:PORT/],
  "port 0": [{ address: "localhost:0" }, /^address .* give HOST:PORT/],
  "port 65536": [{ address: "localhost:65536" }, /^address .* give HOST:PORT/],
  "an address that is a number": [{ address: 50051 }, /^address is 50051; give a string/],
  "no address": [{ address: undefined }, /^address is not known; pass address, or set FADE_ADDRESS/],
  "no run": [{ run: "" }, /^run is not known; pass run, or set FADE_RUN/],
  "an option in Python's words": [{ timeout_seconds: 3 }, /^timeout_seconds is no option; there are .*timeoutMs/],
  "a time that is a string": [{ timeoutMs: "2" }, /^timeoutMs is '2'; give milliseconds/],
  "a time of 0": [{ timeoutMs: 0 }, /^timeoutMs is 0; give milliseconds/],
  "a time that is no number": [{ timeoutMs: NaN }, /^timeoutMs is NaN; give milliseconds/],
  "a time without end": [{ timeoutMs: Infinity }, /^timeoutMs is Infinity; give milliseconds/],
  "a policy that is unknown": [{ onUnavailable: "local" }, /^onUnavailable is 'local'; give one of hold, neutral, raise/],
  "another policy that is unknown": [{ onRejected: "hold" }, /^onRejected is 'hold'; give one of neutral, raise/],
  "a writer that is empty": [{ writer: "" }, /^writer is ''; give a string of 1 to 128 characters/],
  "a writer that is long": [{ writer: "w".repeat(129) }, /^writer is .* give a string of 1 to 128 characters/],
  "a project that is a number": [{ project: 7 }, /^project is 7; give a string/],
  "a configuration that is a number": [{ config: 5 }, /^config is 5; give an object/],
  "a configuration that is a list": [{ config: [] }, /^config is \[\]; give an object/],
  "a field in Python's words": [
    { config: { reward_min: -1 } },
    /^config\.reward_min is not a configuration field; there are .*rewardMin/,
  ],
  "a bound that is a string": [{ config: { rewardMin: "x" } }, /^config\.rewardMin is 'x'; give a number/],
  "a bound that is a bigint": [{ config: { rewardMin: 1n } }, /^config\.rewardMin is 1n; give a number/],
  "a size that is not whole": [{ config: { groupSize: 7.5 } }, /^config\.groupSize is 7\.5; give a whole number/],
  "a flag that is a string": [{ config: { strictRewards: "false" } }, /^config\.strictRewards is 'false'; give true or false/],
  "a rule that is unknown": [
    { config: { alphaRule: "bogus" } },
    /^config\.alphaRule is 'bogus'; choose one of solve_rate, fixed/,
  ],
};

for (const [name, [options, message]] of Object.entries(WRONG)) {
  test(name, () => assert.match(refused({ ...GOOD, ...options }), message));
}

test("options that are no object are refused without being printed", () => {
  for (const options of ["fade_secret", ["fade_secret"], null]) {
    const message = refused(options);
    assert.match(message, /^the options are no object; give \{address, run/);
    assert(!message.includes("secret"), message);
  }
});

test("a token that cannot be sent is refused and never printed", () => {
  const wrong = ["fade_secret\nx", "fade secret", "fade_secrét", "\0fade_secret", { fade_secret: 1 }, 7];
  for (const token of wrong) {
    const message = refused({ ...GOOD, token });
    assert.match(message, /^token (has a space|is a (object|number)).*; give the string that was issued/);
    assert(!/secr|7/.test(message), message);
  }
  assert.match(refused({ ...GOOD, token: " \n" }), /^token is blank/);
});

test("a token from the environment is checked too", () => {
  process.env.FADE_TOKEN = "fade_sec\nret";
  try {
    assert.match(refused(GOOD), /^token has .*FADE_TOKEN/);
  } finally {
    delete process.env.FADE_TOKEN;
  }
});

test("a client does not show its token", () => {
  const client = new FadeClient({ ...GOOD, token: "fade_secret" });
  assert(!inspect(client, { showHidden: true, depth: 9 }).includes("secret"));
  assert(!JSON.stringify(client).includes("secret"));
});

test("addresses as gRPC takes them", () => {
  const right = ["localhost:50051", "10.0.0.1:1", "[::1]:65535", "dns:///fade.lab:443", "dns:fade:443", "unix:/run/fade.sock"];
  for (const address of right) assert(new FadeClient({ ...GOOD, address }).writer);
});

test("what is null is not given", () => {
  const nothing = { project: null, config: null, token: null, writer: null, timeoutMs: null, onRejected: null };
  assert(new FadeClient({ ...GOOD, ...nothing }).writer);
});
