// Small pieces that several pages use.

import { clock } from "./format.js";
import { html, useEffect, useState } from "./lib.js";
import { MODES, PHASES, reasonWords } from "./words.js";

/** The present in milliseconds, again every so often. */
export function useNow(everyMs = 1000) {
  const [now, set] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => set(Date.now()), everyMs);
    return () => clearInterval(timer);
  }, [everyMs]);
  return now;
}

/** A value that follows another one after it has stood still for so long. */
export function useSettled(value, delayMs) {
  const [settled, set] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => set(value), delayMs);
    return () => clearTimeout(timer);
  }, [value, delayMs]);
  return settled;
}

/** Puts the page's name into the title of the window. */
export function useTitle(title) {
  useEffect(() => {
    document.title = `${title} · FADE scheduler`;
  }, [title]);
}

const STATES = {
  connecting: () => "connecting",
  live: () => "live",
  paused: () => "paused while hidden",
  reconnecting: (state) => `reconnecting since ${clock(state.since)}`,
};

/** The state of the stream, told to screen readers when it changes. */
export function Connection({ state }) {
  return html`<span class=${`connection ${state.name}`} role="status" aria-live="polite">
    <span class="dot" aria-hidden="true"></span>${STATES[state.name](state)}
  </span>`;
}

export const WarningBadge = ({ reason }) => html`<span class="badge warning">${reasonWords(reason)}</span>`;

export const ModeBadge = ({ mode }) => html`<span class=${`badge ${mode}`} title=${MODES[mode]}>${mode}</span>`;

export const PhaseBadge = ({ phase }) => html`<span class=${`badge ${phase}`} title=${PHASES[phase]}>${phase}</span>`;

/** What went wrong, read out at once; nothing where nothing did. */
export function Problem({ error, children }) {
  if (!error) return null;
  return html`<div class="notice problem" role="alert"><p>${error.message}</p>${children}</div>`;
}

/** A number with its name, its value and what that means. */
export function Figure({ name, value, unit, children }) {
  return html`<div class="figure">
    <dt>${name}</dt>
    <dd><span class="value">${value}</span>${unit && html` <span class="unit">${unit}</span>`}</dd>
    <dd class="meaning">${children}</dd>
  </div>`;
}

/** Words of the table of fields, where names stand in backticks. */
export function Doc({ text }) {
  return text.split("`").map((part, place) => (place % 2 ? html`<code>${part}</code>` : part));
}
