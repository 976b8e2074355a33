/** A run's configuration: the client's words and the contract's. */

import { SettingsError } from "./errors.js";
import { FLAG, isRecord, NUMBER, shown, WHOLE } from "./read.js";
import { typeOf } from "./transport.js";

/** @type {Map<string, any>} */
const FIELDS = new Map(typeOf("RunConfig").field.map((/** @type {any} */ field) => [field.name, field]));

/** @type {Record<string, import("./read.js").Kind>} Of all fields but enums and whole numbers. */
const KINDS = { TYPE_BOOL: FLAG, TYPE_DOUBLE: NUMBER };

/**
 * @param {Record<string, number | boolean | string>} config Fields of fade.v1.RunConfig in camelCase, enums as lower-case words:
 *   `{rewardMin: -1, alphaRule: "fixed"}`.
 * @returns {Record<string, number | boolean | string>} The message.
 * @throws {SettingsError} A name is unknown, or a value is of another type.
 */
export function configToMessage(config) {
  if (!isRecord(config)) throw new SettingsError(`config is ${shown(config)}; give an object with fields of the configuration`);
  return Object.fromEntries(Object.entries(config).map(([name, value]) => [name, valueOf(name, value)]));
}

/**
 * "MODE_PINNED" is "pinned".
 *
 * @param {string} prefix
 * @param {string} value
 */
export function wordOf(prefix, value) {
  return value.slice(prefix.length).toLowerCase();
}

/**
 * @param {string} name
 * @param {number | boolean | string} value
 */
function valueOf(name, value) {
  const field = FIELDS.get(name);
  if (!field) throw new SettingsError(`config.${name} is not a configuration field; there are ${[...FIELDS.keys()].join(", ")}`);
  if (field.type !== "TYPE_ENUM") {
    const [fits, wanted] = KINDS[field.type] ?? WHOLE;
    if (!fits(value)) throw new SettingsError(`config.${name} is ${shown(value)}; give ${wanted}`);
    return value;
  }
  const [unspecified, ...names] = typeOf(field.typeName).value.map((/** @type {any} */ item) => item.name);
  const prefix = unspecified.slice(0, -"UNSPECIFIED".length);
  const found = names.find((/** @type {string} */ known) => wordOf(prefix, known) === value);
  if (!found) {
    const known = names.map((/** @type {string} */ item) => wordOf(prefix, item)).join(", ");
    throw new SettingsError(`config.${name} is ${shown(value)}; choose one of ${known}`);
  }
  return found;
}
