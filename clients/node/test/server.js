/** A server that the vectors may stop and start: a process, always on the same port and file. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { Deadline, Transport } from "../src/transport.js";

/** Milliseconds that it may take to come up. */
const START_MS = 60_000;

export class Server {
  #command;
  #folder = mkdtempSync(join(tmpdir(), "fade-vectors-"));
  #port = 0;
  /** @type {import("node:child_process").ChildProcess | null} */
  #process = null;

  /** @param {string[]} command What takes "serve" as its next argument. */
  constructor(command) {
    this.#command = command;
  }

  get address() {
    return `127.0.0.1:${this.#port}`;
  }

  /** Serves, if it does not, and waits until it answers. */
  async start() {
    if (this.#process) return;
    this.#port ||= await freePort();
    const [program, ...first] = this.#command;
    const store = `sqlite:///${join(this.#folder, "fade.db")}`;
    const options = ["serve", "--grpc-port", String(this.#port), "--http-port", "0", "--store", store];
    this.#process = spawn(program, [...first, ...options], { stdio: "ignore" });
    const gone = once(this.#process, "exit").then(([code]) => {
      throw new Error(`${program} ended with ${code}`);
    });
    await Promise.race([this.call("ListRuns", { parent: "projects/-" }), gone]);
    gone.catch(() => {});
  }

  /** Ends, if it runs. */
  async stop() {
    if (!this.#process) return;
    const gone = once(this.#process, "exit");
    this.#process.kill("SIGTERM");
    await gone;
    this.#process = null;
  }

  /** Ends for good. */
  async close() {
    await this.stop();
    rmSync(this.#folder, { recursive: true });
  }

  /**
   * Calls a method past the client.
   *
   * @param {string} method
   * @param {object} request
   */
  async call(method, request) {
    const transport = new Transport(this.address, "");
    try {
      return await transport.call(method, request, new Deadline(START_MS), true);
    } finally {
      transport.close();
    }
  }
}

async function freePort() {
  const listener = createServer().listen(0, "127.0.0.1");
  await once(listener, "listening");
  const { port } = /** @type {import("node:net").AddressInfo} */ (listener.address());
  listener.close();
  await once(listener, "close");
  return port;
}
