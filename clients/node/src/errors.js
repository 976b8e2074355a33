/**
 * What the client throws.
 *
 *     FadeClientError
 *     ├── SettingsError      the client itself is set up wrongly
 *     ├── UnavailableError   the service did not answer in time
 *     ├── RejectedError      the request was refused, by reason, field and row
 *     └── ClosedError        the client was closed
 */

/** Base of everything that this package throws. */
export class FadeClientError extends Error {
  /** @param {string} message */
  constructor(message) {
    super(message);
    this.name = new.target.name;
  }
}

/** An argument of the client, or the environment variable behind it, is missing or wrong. */
export class SettingsError extends FadeClientError {}

/** The service did not answer in time, or cannot commit at the moment. Trying again may help. */
export class UnavailableError extends FadeClientError {
  /**
   * @param {string} message
   * @param {string} [code] Name of the gRPC status code.
   * @param {string} [reason] Reason given by the service ("STORE_FULL", ...); empty where none came.
   */
  constructor(message, code = "UNAVAILABLE", reason = "") {
    super(message);
    this.code = code;
    this.reason = reason;
  }
}

/** The request was refused and changed nothing. Sending it again does not help. */
export class RejectedError extends FadeClientError {
  /**
   * @param {string} message
   * @param {object} details
   * @param {string} details.reason UPPER_SNAKE, from a closed set ("INVALID_FIELD", "WRITER_FENCED", ...).
   * @param {string} [details.field] The contract's path of the wrong field ("policy_versions") without its row; empty where the
   *   reason is about no field.
   * @param {number | null} [details.row] Row in request order; null where the field has no rows.
   * @param {string} [details.code] Name of the gRPC status code.
   * @param {Record<string, string>} [details.metadata] The dynamic parts of the message.
   */
  constructor(message, { reason, field = "", row = null, code = "INVALID_ARGUMENT", metadata = {} }) {
    super(`${reason}: ${message}`);
    this.reason = reason;
    this.field = field;
    this.row = row;
    this.code = code;
    this.metadata = metadata;
  }
}

/** The client was closed; make a new one. */
export class ClosedError extends FadeClientError {}

/**
 * A report that cannot be read as what it should be.
 *
 * @param {string} name As a report calls it; the error's `field` has the contract's words.
 * @param {string} problem What is wrong and what to do.
 * @param {number | null} [row]
 */
export function invalidField(name, problem, row = null) {
  const lower = (/** @type {string} */ letter) => `_${letter.toLowerCase()}`;
  const field = name === "rollouts" ? "rollout_index" : name.replace(/[A-Z](?=[^\]]*$)/g, lower); // environments keep their names
  return new RejectedError(`${name}${row === null ? "" : `[${row}]`}: ${problem}`, { reason: "INVALID_FIELD", field, row });
}
