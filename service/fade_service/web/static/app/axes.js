// What charts have in common: axes and the box at the pointer.

import { count } from "./format.js";

/** Room around the plot, in pixels. */
export const GRID = { left: 46, right: 16, top: 18, bottom: 36 };

/** The horizontal axis of that name, from one number to another. */
export function xAxis(colours, name, from, to, format) {
  return axis(colours, {
    min: from,
    max: to,
    name,
    nameLocation: "middle",
    nameGap: 20,
    nameTextStyle: { color: colours.muted, fontSize: 11 },
    axisLabel: { formatter: (value) => format(value), hideOverlap: true },
    splitLine: { show: false },
  });
}

/** The horizontal axis of revisions; a single one stands in its middle. */
export function revisionAxis(colours, from, to) {
  const room = to > from ? 0 : 1;
  return { ...xAxis(colours, "revision", from - room, to + room, count), minInterval: 1 };
}

/** The vertical axis; `range` is [lowest, highest], null being up to the numbers, and without it neither end is fixed. */
export function yAxis(colours, range, format, interval) {
  const [low, high] = range ?? [];
  return axis(colours, {
    min: low ?? undefined,
    max: high ?? undefined,
    scale: low == null,
    splitNumber: 3,
    interval,
    axisLabel: { formatter: (value) => format(value) },
  });
}

function axis(colours, own) {
  return {
    type: "value",
    ...own,
    axisLine: { lineStyle: { color: colours.line } },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: colours.line, opacity: 0.6 }, ...own.splitLine },
    axisLabel: { color: colours.muted, fontSize: 11, showMinLabel: true, showMaxLabel: true, ...own.axisLabel },
  };
}

/** `box(x)` makes what is shown at a place of the horizontal axis. */
export function tooltip(colours, box) {
  return {
    trigger: "axis",
    className: "tip",
    confine: true,
    transitionDuration: 0,
    axisPointer: { type: "line", lineStyle: { color: colours.muted, type: "solid" } },
    backgroundColor: colours.surface,
    borderColor: colours.line,
    textStyle: { color: colours.text, fontSize: 12 },
    formatter: (items) => box(items[0].axisValue),
  };
}

/**
 * The box as an element: heads, rows of [name, value, colour], and notes. Nothing that users wrote is ever read as HTML.
 */
export function tipBox(heads, rows, notes = []) {
  const box = document.createElement("div");
  heads.forEach((text, place) => add(box, "p", text, place ? "when" : "head"));
  const list = add(box, "dl", "");
  for (const [name, value, colour] of rows) {
    add(list, "dt", name, `key ${colour}`);
    add(list, "dd", value);
  }
  notes.forEach((text) => add(box, "p", text, "mark"));
  return box;
}

function add(parent, name, text, className = "") {
  const made = parent.appendChild(document.createElement(name));
  made.textContent = text;
  made.className = className;
  return made;
}
