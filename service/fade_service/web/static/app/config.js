// A run's configuration as the table of fields has it.

import { useAnswer } from "./answer.js";

/** The Run message's configuration with words in lower case and numbers as numbers; what is unset is absent. */
export function configOf(message) {
  return Object.fromEntries(Object.entries(message.config).map(([name, value]) => [name, plain(name, value)]));
}

/** The contract's JSON has words after their field's name, as in "DELTA_RULE_FIXED", and 64-bit integers as strings. */
function plain(name, value) {
  const prefix = `${name.toUpperCase()}_`;
  if (typeof value !== "string") return value;
  return value.startsWith(prefix) ? value.slice(prefix.length).toLowerCase() : Number(value);
}

/** A field's value in force; null where nothing is set. */
export const valueOf = (config, field) => config[field.name] ?? field.default ?? null;

/** A value as it is shown. */
export const shown = (value) => (value == null ? "unset" : typeof value === "boolean" ? (value ? "yes" : "no") : String(value));

/** [fields, problem]: the table of fields, by the server's code; null until it is there. */
export const useFields = () => useAnswer(["config_fields"]);
