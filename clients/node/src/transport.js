/** Calls to the service: one lazy channel, a deadline over all attempts, errors as this package's. */

import { fileURLToPath } from "node:url";

import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";

import { RejectedError, UnavailableError } from "./errors.js";

const definitions = loadSync(["fade/v1/scheduler.proto", "fade/v1/error_details.proto"], {
  includeDirs: [fileURLToPath(new URL("../proto", import.meta.url))],
  longs: Number,
  enums: String,
  defaults: true,
});
const SERVICE = "fade.v1.SchedulerService";
const Stub = grpc.makeGenericClientConstructor(/** @type {any} */ (definitions[SERVICE]), "SchedulerService");

const MESSAGE_LIMIT_BYTES = 16 * 2 ** 20;

const SERVICE_CONFIG = {
  loadBalancingConfig: [],
  methodConfig: [
    {
      name: [{ service: SERVICE }],
      // gRPC adds the jitter, heeds the server's push-back, and stays inside the call's deadline
      retryPolicy: {
        maxAttempts: 5,
        initialBackoff: "0.05s",
        maxBackoff: "0.5s",
        backoffMultiplier: 2,
        retryableStatusCodes: ["UNAVAILABLE"],
      },
    },
  ],
  retryThrottling: { maxTokens: 20, tokenRatio: 0.5 },
};

const OPTIONS = {
  "grpc.service_config": JSON.stringify(SERVICE_CONFIG),
  "grpc.service_config_disable_resolution": 1,
  "grpc.per_rpc_retry_buffer_size": MESSAGE_LIMIT_BYTES, // what does not fit is never retried
  "grpc.max_send_message_length": -1, // the service's limit counts, and its error names it
  "grpc.max_receive_message_length": MESSAGE_LIMIT_BYTES,
  "grpc.keepalive_time_ms": 30_000,
  "grpc.keepalive_timeout_ms": 10_000,
  "grpc.keepalive_permit_without_calls": 1, // steps take minutes, and what drops idle connections does not say so
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 5_000,
};

/** Refusals under codes other than UNAVAILABLE that pass when an operator acts: the report is kept and sent again. */
const TRANSIENT_REASONS = ["STORE_FULL"];

/** A point in time that everything done for one call of the client shares. */
export class Deadline {
  /** @param {number} milliseconds */
  constructor(milliseconds) {
    this.end = performance.now() + milliseconds;
  }

  /** Milliseconds left, 0 or more. */
  remaining() {
    return Math.max(0, this.end - performance.now());
  }
}

/** Calls the service at one address. */
export class Transport {
  #address;
  #token;
  /** @type {grpc.Client | null} */
  #client = null;

  /**
   * @param {string} address HOST:PORT.
   * @param {string} token Sent as a bearer token; empty for none.
   */
  constructor(address, token) {
    this.#address = address;
    this.#token = token;
  }

  /**
   * Calls one method of the service.
   *
   * @param {string} method Its name, "Observe".
   * @param {object} request In the words of the .proto files, in camelCase.
   * @param {Deadline} deadline
   * @param {boolean} [waitForReady] Wait for a connection as long as the deadline allows.
   * @returns {Promise<any>} The response, in the same words.
   * @throws {UnavailableError} No answer before the deadline, or none to be had at the moment.
   * @throws {RejectedError} The service refused the request.
   */
  call(method, request, deadline, waitForReady = false) {
    const milliseconds = deadline.remaining();
    if (milliseconds <= 0) {
      throw new UnavailableError(`no time was left for ${method} at ${this.#address}`, "DEADLINE_EXCEEDED");
    }
    this.#client ??= new Stub(this.#address, grpc.credentials.createInsecure(), OPTIONS);
    const metadata = new grpc.Metadata({ waitForReady });
    if (this.#token) metadata.set("authorization", `Bearer ${this.#token}`);
    return new Promise((resolve, reject) => {
      const answered = (/** @type {grpc.ServiceError | null} */ error, /** @type {any} */ response) =>
        error ? reject(errorOf(error, method, this.#address)) : resolve(response);
      /** @type {any} */ (this.#client)[method](request, metadata, { deadline: Date.now() + milliseconds }, answered);
    });
  }

  /** Closes the channel; calls under way finish. */
  close() {
    this.#client?.close();
  }
}

/**
 * The bytes of a report, as they are sent.
 *
 * @param {object} request An ObserveRequest.
 * @returns {Buffer}
 */
export function bytesOf(request) {
  return /** @type {any} */ (definitions[SERVICE]).Observe.requestSerialize(request);
}

/**
 * The descriptor of a message or enum of the contract.
 *
 * @param {string} name Without its package.
 * @returns {any}
 */
export function typeOf(name) {
  return definitions[`fade.v1.${name}`].type;
}

/**
 * @param {grpc.ServiceError} error
 * @param {string} method
 * @param {string} address
 */
function errorOf(error, method, address) {
  const code = grpc.status[error.code];
  const { info, violation } = detailsOf(error.metadata);
  let reason = info?.reason ?? "";
  if (["UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED"].includes(code) || TRANSIENT_REASONS.includes(reason)) {
    return new UnavailableError(`${method} at ${address} failed with ${reason || code}: ${error.details}`, code, reason);
  }
  if (code === "RESOURCE_EXHAUSTED" && !reason) reason = "MESSAGE_TOO_LARGE"; // from gRPC itself, before the service saw it
  const [, field, row] = /^(?:rows\.)?(.*?)(?:\[(\d+)\])?$/s.exec(violation?.field ?? "") ?? [];
  return new RejectedError(error.details, {
    reason: reason || code,
    field,
    row: row === undefined ? null : Number(row),
    code,
    metadata: info?.metadata,
  });
}

/**
 * What AIP-193 says of an error beside its code: the first of each kind.
 *
 * @param {grpc.Metadata} metadata
 */
function detailsOf(metadata) {
  const [blob] = metadata.get("grpc-status-details-bin");
  try {
    const details = blob ? decode("Status", blob).details : [];
    const first = (/** @type {string} */ name) => {
      const found = details.find((/** @type {any} */ detail) => detail.type_url.endsWith(`.${name}`));
      return found && decode(name, found.value);
    };
    return { info: first("ErrorInfo"), violation: first("BadRequest")?.fieldViolations[0] };
  } catch {
    return {}; // a proxy's, not the service's
  }
}

/**
 * @param {string} name
 * @param {any} bytes
 */
function decode(name, bytes) {
  return /** @type {any} */ (definitions[`fade.v1.${name}`]).deserialize(bytes);
}
