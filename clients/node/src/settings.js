/** How a client is set up. The environment is read here, once, and nowhere else. */

import { randomBytes } from "node:crypto";
import { hostname } from "node:os";

import { configToMessage } from "./config.js";
import { SettingsError } from "./errors.js";
import { ID, isRecord, optional, shown, TEXT } from "./read.js";

/**
 * @typedef {object} Options
 * @property {string} [address] HOST:PORT of the service's gRPC port, with an IPv6 address in brackets, or unix:PATH; default
 *   `FADE_ADDRESS`.
 * @property {string} [run] The run's id, 1 to 63 lower-case letters, digits and inner hyphens; default `FADE_RUN`. A run that
 *   exists is joined: its stored configuration wins, and each difference is a process warning.
 * @property {string} [project] The project's id.
 * @property {Record<string, number | boolean | string>} [config] Configuration of the run where it does not exist yet: the fields
 *   of docs/configuration.md in camelCase. None means the defaults.
 * @property {string} [token] Sent as a bearer token; default `FADE_TOKEN`, else none. Space around it is cut off.
 * @property {string} [writer] The id of this attempt of the job, 1 to 128 characters; a job that goes on gives the one it had.
 *   Default: made anew.
 * @property {number} [timeoutMs] The longest that one call may take, over all attempts, in milliseconds.
 * @property {"hold" | "neutral" | "raise"} [onUnavailable] What an observation gets while the service is away. "hold": the last
 *   schedule; "neutral": alpha = delta = 1. With these the report is kept and sent later. "raise": UnavailableError, and the
 *   report is not kept.
 * @property {"neutral" | "raise"} [onRejected] What an observation gets that is refused: "neutral" weights, with the reason in
 *   the metrics and in a process warning (the first observation throws all the same), or "raise": RejectedError.
 */

/**
 * @typedef {object} Settings {@link Options}, checked.
 * @property {string} address
 * @property {string} run
 * @property {string} parent The project's resource name.
 * @property {string} name The run's resource name.
 * @property {any} config A message of fade.v1, or undefined.
 * @property {string} token Empty for none.
 * @property {string} writer
 * @property {number} timeoutMs
 * @property {string} onUnavailable
 * @property {string} onRejected
 */

const OPTIONS = ["address", "run", "project", "config", "token", "writer", "timeoutMs", "onUnavailable", "onRejected"];

/** @type {import("./read.js").Kind} Node's timers take no longer time. */
const MILLISECONDS = [
  (value) => typeof value === "number" && value > 0 && value < 2 ** 31,
  `milliseconds, more than 0 and less than ${2 ** 31}`,
];

/** HOST:PORT, as gRPC reads it; an IPv6 address is in brackets. */
const TARGET = /^(?:dns:(?:\/\/\/)?)?(?:\[[\da-f:.]+\]|[^\s:/@[\]]+):(\d{1,5})$/i;

/**
 * @param {Options} options
 * @returns {Settings}
 * @throws {SettingsError} An option is unknown, missing or wrong.
 */
export function settingsOf(options) {
  if (!isRecord(options)) throw new SettingsError(`the options are no object; give {${OPTIONS.join(", ")}}`); // may be a token
  const unknown = Object.keys(options).find((name) => !OPTIONS.includes(name));
  if (unknown !== undefined) throw new SettingsError(`${unknown} is no option; there are ${OPTIONS.join(", ")}`);
  const address = addressOf(required("address", options.address, "FADE_ADDRESS"));
  const run = required("run", options.run, "FADE_RUN");
  const project = checked("project", options.project ?? "default", TEXT);
  return {
    address,
    run,
    parent: `projects/${project}`,
    name: `projects/${project}/runs/${run}`,
    config: optional(options.config, configToMessage),
    token: tokenOf(options.token || process.env.FADE_TOKEN || ""),
    writer: checked("writer", options.writer ?? newWriter(), ID),
    timeoutMs: checked("timeoutMs", options.timeoutMs ?? 2_000, MILLISECONDS),
    onUnavailable: chosen("onUnavailable", options.onUnavailable ?? "hold", ["hold", "neutral", "raise"]),
    onRejected: chosen("onRejected", options.onRejected ?? "neutral", ["neutral", "raise"]),
  };
}

/**
 * @template T
 * @param {string} name
 * @param {T} value
 * @param {import("./read.js").Kind} kind
 * @returns {T}
 */
function checked(name, value, [fits, wanted]) {
  if (!fits(value)) throw new SettingsError(`${name} is ${shown(value)}; give ${wanted}`);
  return value;
}

/**
 * @param {string} name
 * @param {string | undefined} value
 * @param {string} variable The environment variable that stands for it.
 */
function required(name, value, variable) {
  const found = value || process.env[variable];
  if (!found) throw new SettingsError(`${name} is not known; pass ${name}, or set ${variable}`);
  return checked(name, found, TEXT);
}

/**
 * @param {string} name
 * @param {string} value
 * @param {string[]} choices
 */
function chosen(name, value, choices) {
  return checked(name, value, [(given) => choices.includes(given), `one of ${choices.join(", ")}`]);
}

/** @param {string} address */
function addressOf(address) {
  const port = Number(TARGET.exec(address)?.[1] ?? 0);
  if (!/^unix:./.test(address) && (port < 1 || port > 65_535)) {
    throw new SettingsError(`address is ${shown(address)}; give HOST:PORT, that of gRPC, without http:// (FADE_ADDRESS)`);
  }
  return address;
}

/**
 * Never says what it was given.
 *
 * @param {unknown} token
 */
function tokenOf(token) {
  if (typeof token !== "string") throw new SettingsError(`token is a ${typeof token}; give the string that was issued`);
  const bare = token.trim();
  if (token && !/^[\x21-\x7e]+$/.test(bare)) {
    const problem = bare ? "has a space, a line break or a character outside ASCII in it" : "is blank";
    throw new SettingsError(`token ${problem}; give the string that was issued (token, or FADE_TOKEN)`);
  }
  return bare;
}

function newWriter() {
  return `${hostname().slice(0, 64)}-${process.pid}-${randomBytes(4).toString("hex")}`;
}
