/** What is refused of a report before it is sent. Nobody answers at the address, and the first observation throws. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { FadeClient, RejectedError, RowStatus } from "fade-client";

const OPTIONS = { address: "127.0.0.1:1", run: "r", timeoutMs: 50, onUnavailable: "neutral" };
const GOOD = { rewards: [1, 0, 1, 0], groups: ["a", "a", "b", "b"] };
const ENVIRONMENTS = { a: "math", b: "code" };

/** What the report is refused with. */
async function refused(report, id = "batch") {
  const client = new FadeClient(OPTIONS);
  const answer = await client.observe(id, report).catch((error) => error);
  await client.close();
  assert(answer instanceof RejectedError, `was not refused: ${inspect(answer)}`);
  assert.equal(answer.reason, "INVALID_FIELD");
  return answer;
}

/** By name: the report's fields; the contract's field and the row; the message. */
const WRONG = {
  "no rewards": [{ rewards: undefined }, "rewards", null, /rewards: is undefined; give an array with one entry per row/],
  "rewards that are a string": [{ rewards: "1010" }, "rewards", null, /rewards: is '1010'; give an array/],
  "rewards that are a set": [{ rewards: new Set([1, 0]) }, "rewards", null, /give an array/],
  "a reward that is a string": [{ rewards: [1, 0, "x", 0] }, "rewards", 2, /rewards\[2\]: is 'x'; give a number, or null/],
  "a reward that is undefined": [
    { rewards: [1, undefined, 1, 0] },
    "rewards",
    1,
    /rewards\[1\]: is undefined; give a number, or null/,
  ],
  "a hole in the rewards": [{ rewards: [1, , 1, 0] }, "rewards", 1, /rewards\[1\]: is undefined/], // eslint-disable-line no-sparse-arrays
  "a reward that is a flag": [{ rewards: [1, 0, 1, true] }, "rewards", 3, /rewards\[3\]: is true; give a number/],
  "a reward that is a bigint": [{ rewards: [1, 0, 1n, 0] }, "rewards", 2, /rewards\[2\]: is 1n; give a number/],
  "no groups": [{ groups: undefined }, "groups", null, /groups: is undefined; give an array with one entry per row/],
  "fewer labels than rewards": [{ groups: ["a"] }, "groups", null, /groups: has 1 entries for 4 rewards; give one per row/],
  "labels that are lists": [
    { groups: ["a", ["a"], "b", "b"] },
    "groups",
    1,
    /groups\[1\]: is \[ 'a' \]; give a string or a number/,
  ],
  "labels that are objects": [{ groups: [{ id: 1 }, "a", "b", "b"] }, "groups", 0, /groups\[0\]: is \{ id: 1 \}; give a string/],
  "labels that are not there": [{ groups: ["a", "a", undefined, null] }, "groups", 2, /groups\[2\]: is undefined; give a string/],
  "a label that is no number": [{ groups: [1, 1, 2, NaN] }, "groups", 3, /groups\[3\]: is NaN; give a string or a number/],
  "rollouts that are objects": [{ rollouts: ["x", "y", {}, "z"] }, "rollout_index", 2, /rollouts\[2\]: is \{\}; give a string/],
  "statuses that are names": [
    { statuses: [1, "SCORED", "PADDING", 1] },
    "statuses",
    1,
    /statuses\[1\]: is 'SCORED'; give a value of RowStatus: SCORED = 1, .*PADDING = 5/,
  ],
  "a status that is unknown": [{ statuses: [0, 1, 6, 7] }, "statuses", 3, /statuses\[3\]: is 7; give a value of RowStatus/],
  "a status that is not whole": [{ statuses: [0.5, 1, 1, 1] }, "statuses", 0, /statuses\[0\]: is 0\.5/],
  "flags that are strings": [
    { solved: ["false", "false", "false", "false"] },
    "solved",
    0,
    /solved\[0\]: is 'false'; give true or false/,
  ],
  "flags that are fractions": [{ solved: [1, 0, 0.9, 0.1] }, "solved", 2, /solved\[2\]: is 0\.9; give true or false/],
  "a flag that is no number": [{ solved: [true, NaN, true, true] }, "solved", 1, /solved\[1\]: is NaN; give true or false/],
  "environments that are a list": [
    { environments: ["math"] },
    "environments",
    null,
    /environments: is \[ 'math' \]; give a Map or an object/,
  ],
  "a group without environment": [
    { environments: { a: "math" } },
    "environments",
    null,
    /has no entry for group 'b'; name every/,
  ],
  "an environment that only objects have": [
    { groups: ["toString", "toString", "a", "a"], environments: { a: "math" } },
    "environments",
    null,
    /has no entry for group 'toString'/,
  ],
  "an environment that is a number": [
    { environments: { a: "math", b: 7 } },
    "environments",
    null,
    /is 7 for group 'b'; give its name/,
  ],
  "entropy that is a list": [{ entropy: [10, 20] }, "entropy", null, /entropy: is \[ 10, 20 \]; give \{sumNats, tokenCount\}/],
  "entropy that is a number": [{ entropy: 0.5 }, "entropy", null, /entropy: is 0\.5; give \{sumNats, tokenCount\}/],
  "entropy without a count": [
    { entropy: { sumNats: 8 } },
    "entropy.token_count",
    null,
    /entropy\.tokenCount: is undefined; give a whole/,
  ],
  "entropy without a sum": [
    { entropy: { tokenCount: 8 } },
    "entropy.sum_nats",
    null,
    /entropy\.sumNats: is undefined; give a number/,
  ],
  "a count that is not whole": [
    { entropy: { sumNats: 8, tokenCount: 2.5 } },
    "entropy.token_count",
    null,
    /is 2\.5; give a whole/,
  ],
  "a sum that is no number": [
    { entropy: { sumNats: NaN, tokenCount: 2 } },
    "entropy.sum_nats",
    null,
    /is NaN; give a finite sum/,
  ],
  "a kind that is a number": [{ entropy: { sumNats: 8, tokenCount: 2, kind: 1 } }, "entropy.kind", null, /is 1; give a string/],
  "entropy with more in it": [
    { entropy: { sumNats: 8, tokenCount: 2, sort: "x" } },
    "entropy.sort",
    null,
    /entropy\.sort: is not known; there are sumNats, tokenCount, kind/,
  ],
  "entropy of one environment without a count": [
    { environments: ENVIRONMENTS, entropy: { math: { sumNats: 8 } } },
    "environments[math].entropy.token_count",
    null,
    /environments\[math\]\.entropy\.tokenCount: is undefined/,
  ],
  "versions that are strings": [
    { policyVersions: [1, 1, "1", 1], currentPolicyVersion: 1 },
    "policy_versions",
    2,
    /policyVersions\[2\]: is '1'; give a whole number/,
  ],
  "fewer versions than rewards": [
    { policyVersions: [1], currentPolicyVersion: 1 },
    "policy_versions",
    null,
    /has 1 entries for 4/,
  ],
  "versions without the current one": [
    { policyVersions: [1, 1, 1, 1] },
    "current_policy_version",
    null,
    /is needed with policyVersions/,
  ],
  "a current version that is a string": [
    { currentPolicyVersion: "x" },
    "current_policy_version",
    null,
    /is 'x'; give a whole number/,
  ],
  "a step that is a string": [{ trainerStep: "x" }, "trainer_step", null, /trainerStep: is 'x'; give a whole number/],
  "a step that is no number": [{ trainerStep: NaN }, "trainer_step", null, /trainerStep: is NaN; give a whole number/],
  "a step that is not whole": [{ trainerStep: 1.7 }, "trainer_step", null, /trainerStep: is 1\.7; give a whole number/],
  "a step that is beyond what is exact": [{ trainerStep: 2 ** 70 }, "trainer_step", null, /give a whole number/],
  "a count of groups that is a string": [
    { filteredAllSolved: "3" },
    "filtered_all_solved",
    null,
    /is '3'; give a whole number, 0 or/,
  ],
  "a negative count of groups": [{ filteredAllFailed: -1 }, "filtered_all_failed", null, /is -1; give a whole number, 0 or more/],
  "counts of groups in a Map": [
    { filteredAllFailed: new Map([["math", 1]]) },
    "filtered_all_failed",
    null,
    /is Map.*; give a whole/,
  ],
  "one count for two environments": [
    { environments: ENVIRONMENTS, filteredAllFailed: 1 },
    "filtered_all_failed",
    null,
    /is one number for a batch of math, code; give an object/,
  ],
  "a count of one environment that is a string": [
    { environments: ENVIRONMENTS, filteredAllSolved: { codeGolf: "x" } },
    "environments[codeGolf].filtered_all_solved",
    null,
    /environments\[codeGolf\]\.filteredAllSolved: is 'x'/,
  ],
  "a switch that is a string": [{ evaluation: "false" }, "evaluation", null, /evaluation: is 'false'; give true or false/],
  "another switch that is a number": [{ prefiltered: 1 }, "prefiltered", null, /prefiltered: is 1; give true or false/],
  "a field in Python's words": [
    { trainer_step: 1 },
    "report.trainer_step",
    null,
    /trainer_step: is not known; there are .*trainerStep/,
  ],
};

for (const [name, [fields, field, row, message]] of Object.entries(WRONG)) {
  test(name, async () => {
    const error = await refused({ ...GOOD, ...fields });
    assert.match(error.message, message);
    assert.deepEqual([error.field, error.row], [field, row]);
  });
}

test("no report", async () => {
  for (const report of [undefined, null, [1, 0], "batch"]) {
    assert.match((await refused(report)).message, /report: is .*; give an object with rewards, groups/);
  }
});

test("an id that is none", async () => {
  for (const id of [17, "", "x".repeat(129), null]) {
    const { field, message } = await refused(GOOD, id);
    assert.equal(field, "observation_id");
    assert.match(message, /give a string of 1 to 128 characters/);
  }
});

test("characters of an id are counted as the contract counts them", async () => {
  const client = new FadeClient(OPTIONS);
  assert.equal((await client.observe("😀".repeat(128), GOOD)).source, "NEUTRAL");
  await client.close();
});

test("advantages refuse the same columns", async () => {
  const client = new FadeClient(OPTIONS);
  const schedule = await client.observe("batch", GOOD);
  await client.close();
  const { rewards, groups } = GOOD;
  const wrong = { field: "statuses", row: 2, name: "RejectedError" };
  assert.throws(() => schedule.advantages(rewards, groups, { statuses: [1, 1, "PADDING", 1] }), wrong);
  assert.throws(() => schedule.advantages(rewards, groups, { status: [1, 1, 1, 1] }), { field: "report.status" });
  assert.throws(() => schedule.advantages(undefined, groups), { field: "rewards" });
  assert.deepEqual([...schedule.advantages(rewards, groups, null)], [0.5, -0.5, 0.5, -0.5]);
});

test("advantages take arrays of any type, the whole report, and null for what is not given", async () => {
  const client = new FadeClient(OPTIONS);
  const padding = Int8Array.of(RowStatus.SCORED, 0, RowStatus.PADDING, 0);
  const report = {
    rewards: Float32Array.of(1, 0, 1, 0),
    groups: BigInt64Array.of(1n, 1n, 1n, 1n),
    statuses: padding,
    rollouts: null,
  };
  const schedule = await client.observe("batch", { ...report, solved: Uint8Array.of(1, 0, 1, 0), trainerStep: null });
  await client.close();
  const third = 1 / 3; // the mean of 1, 0 and 0
  const advantages = schedule.advantages(report.rewards, report.groups, report);
  assert.deepEqual([...advantages], [1 - third, -third, 0, -third]);
});

test("neutral weights know no signal where the flags say none", async () => {
  const client = new FadeClient(OPTIONS);
  const schedule = await client.observe("batch", GOOD);
  await client.close();
  const groups = [0, 0, 1, 1];
  const solved = [true, true, true, false];
  assert.deepEqual([...schedule.advantages([0.5, 1, 1, 0.5], groups, { solved })], [0, 0, 0.25, -0.25]);
});
