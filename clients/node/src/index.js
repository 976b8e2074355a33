/** The client that a trainer holds: reports each generation batch and weighs that same batch by the schedule that comes back. */

export { FadeClient } from "./client.js";
export { ClosedError, FadeClientError, RejectedError, SettingsError, UnavailableError } from "./errors.js";
export { RowStatus } from "./report.js";
export { Schedule } from "./schedule.js";
