// A run's configuration as the table of fields has it.

import { get } from "./api.js";
import { useEffect, useState } from "./lib.js";

const PREFIXES = {
  alpha_rule: "ALPHA_RULE_",
  delta_rule: "DELTA_RULE_",
  scale: "SCALE_",
  estimator: "ESTIMATOR_",
  mode: "MODE_",
};

/** The Run message's configuration with words in lower case and numbers as numbers; what is unset is absent. */
export function configOf(message) {
  return Object.fromEntries(
    Object.entries(message.config).map(([name, value]) => {
      const prefix = PREFIXES[name];
      if (prefix) return [name, value.replace(prefix, "").toLowerCase()];
      return [name, typeof value === "string" ? Number(value) : value];
    }),
  );
}

/** A field's value in force; null where nothing is set. */
export const valueOf = (config, field) => config[field.name] ?? field.default ?? null;

/** A value as it is shown. */
export const shown = (value) => (value == null ? "unset" : typeof value === "boolean" ? (value ? "yes" : "no") : String(value));

/** The table of fields, by the server's code; null until it is there. */
export function useFields() {
  const [fields, set] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    get(["config_fields"]).then(set, setProblem);
  }, []);
  return [fields, problem];
}
