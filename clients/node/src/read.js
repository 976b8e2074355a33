/** What a caller gave, read as what it should be. */

import { inspect } from "node:util";

import { invalidField } from "./errors.js";

/**
 * What a value must be: the test, and the words for it.
 * @typedef {readonly [(value: any) => boolean, string]} Kind
 */

/** @type {Kind} */
export const NUMBER = [(value) => typeof value === "number", "a number"];
/** @type {Kind} */
export const WHOLE = [Number.isSafeInteger, "a whole number"];
/** @type {Kind} */
export const COUNT = [(value) => Number.isSafeInteger(value) && value >= 0, "a whole number, 0 or more"];
/** @type {Kind} */
export const FLAG = [(value) => typeof value === "boolean", "true or false"];
/** @type {Kind} */
export const TEXT = [(value) => typeof value === "string", "a string"];
/** @type {Kind} What the contract lets a client choose freely; it counts code points. */
export const ID = [(value) => typeof value === "string" && /^.{1,128}$/su.test(value), "a string of 1 to 128 characters"];

/**
 * A value in a message: on one line, and cut where it is long.
 *
 * @param {unknown} value
 */
export function shown(value) {
  return inspect(value, { depth: 1, maxArrayLength: 4, maxStringLength: 40, breakLength: Infinity });
}

/**
 * Whether a value is an object of named values: no array, no Map.
 *
 * @param {any} value
 */
export function isRecord(value) {
  return typeof value === "object" && value !== null && !(Symbol.iterator in value);
}

/**
 * @template V, T
 * @param {V | null | undefined} value
 * @param {(value: V) => T} read
 * @returns {T | undefined} What was read; undefined where nothing was given.
 */
export function optional(value, read) {
  return value === null || value === undefined ? undefined : read(value);
}

/**
 * @template T
 * @param {string} name
 * @param {T} value
 * @param {Kind} kind
 * @param {number | null} [row]
 * @returns {T} The value.
 * @throws {import("./errors.js").RejectedError} It is of another kind.
 */
export function checked(name, value, [fits, wanted], row = null) {
  if (!fits(value)) throw invalidField(name, `is ${shown(value)}; give ${wanted}`, row);
  return value;
}

/**
 * @param {string} name
 * @param {any} values
 * @param {Kind} kind
 * @param {number} [rows] How many there must be.
 * @returns {any[]} (N,)
 * @throws {import("./errors.js").RejectedError} It is no array, has another length, or holds a value of another kind.
 */
export function column(name, values, kind, rows) {
  if (typeof values !== "object" || !Number.isInteger(values?.length)) {
    throw invalidField(name, `is ${shown(values)}; give an array with one entry per row`);
  }
  if (rows !== undefined && values.length !== rows) {
    throw invalidField(name, `has ${values.length} entries for ${rows} rewards; give one per row`);
  }
  return Array.from(values, (value, row) => checked(name, value, kind, row));
}

/**
 * Refuses what is no object of named values, and names that it may not have.
 *
 * @param {string} name
 * @param {any} record
 * @param {readonly string[]} known
 * @throws {import("./errors.js").RejectedError}
 */
export function checkNames(name, record, known) {
  if (!isRecord(record)) throw invalidField(name, `is ${shown(record)}; give an object with ${known.join(", ")}`);
  const unknown = Object.keys(record).find((key) => !known.includes(key));
  if (unknown !== undefined) throw invalidField(`${name}.${unknown}`, `is not known; there are ${known.join(", ")}`);
}
