// The live charts: what each shows, and its ECharts option.

import { GRID, revisionAxis, tipBox, tooltip, yAxis } from "./axes.js";
import { brief, count, fixed, moment, percent } from "./format.js";
import { nearest, pairs } from "./series.js";
import { MARKS, reasonWords } from "./words.js";

const nats = (value) => `${fixed(value, 3)} nats`;
const factor = (value) => fixed(value, 2);
const mass = (value) => fixed(value, 4);
const groups = (value) => brief(value, 3);

/**
 * Lines of one chart: `column` of the series, its colour in style.css, and whether it stands back, is dashed or hatched; a `thin`
 * one is of single observations and goes up and down with each.
 */
export const PANELS = [
  {
    id: "solve-rate",
    title: "Solve rate",
    about: "Share of rollouts solved, mean over groups. The slow average sets alpha.",
    format: percent,
    range: [0, 1],
    interval: 0.25,
    lines: [
      { column: "step_solve_rate", name: "step", colour: "green", back: true },
      { column: "solve_rate", name: "average", colour: "green" },
    ],
  },
  {
    id: "entropy",
    title: "Entropy",
    about: "Mean token entropy, nats per token. Delta falls below 1 as the average falls under the target.",
    format: nats,
    axis: (value) => brief(value, 3),
    lines: [
      { column: "step_entropy_nats", name: "step", colour: "blue", back: true },
      { column: "entropy_nats", name: "average", colour: "blue" },
      { column: "target_entropy_nats", name: "target", colour: "orange", dash: "dashed" },
    ],
  },
  {
    id: "schedule",
    title: "Alpha and delta",
    about: "Alpha above 1 weighs hard prompts more; delta below 1 weighs failures more.",
    format: factor,
    range: [0, null],
    lines: [
      { column: "alpha", name: "alpha", colour: "purple" },
      { column: "delta", name: "delta", colour: "orange", dash: [7, 3] },
    ],
  },
  {
    id: "masses",
    title: "Gradient mass",
    about: "Mean size of the advantages on successes and on failures, per rollout.",
    format: mass,
    axis: (value) => brief(value, 3),
    range: [0, null],
    lines: [
      { column: "mass_success", name: "success", colour: "green", thin: true },
      { column: "mass_failure", name: "failure", colour: "orange", thin: true, dash: [7, 3] },
    ],
  },
  {
    id: "ratios",
    title: "Sign, difficulty, scale",
    about: "Success over failure mass; mean solve rate of the prompts that carry the gradient; total mass against GRPO's.",
    format: factor,
    range: [0, null],
    lines: [
      { column: "sign_ratio", name: "sign ratio", colour: "orange", dash: [7, 3] },
      { column: "difficulty_centre", name: "difficulty centre", colour: "green", thin: true },
      { column: "mass_vs_grpo", name: "mass against GRPO", colour: "blue", thin: true, dash: [2, 2] },
    ],
  },
  {
    id: "groups",
    title: "Group mix",
    about: "Groups per observation. Only mixed ones carry a gradient; filtered ones were dropped by the trainer.",
    format: groups,
    range: [0, null],
    stacked: true,
    lines: [
      { column: "mixed_groups", name: "mixed", colour: "blue" },
      { column: "all_solved_groups", name: "all solved", colour: "green", hatch: -1 },
      { column: "all_failed_groups", name: "all failed", colour: "orange", hatch: 1 },
      { column: "singleton_groups", name: "singleton", colour: "grey" },
      { column: "filtered_solved_groups", name: "filtered, solved", colour: "green", faint: true },
      { column: "filtered_failed_groups", name: "filtered, failed", colour: "orange", faint: true },
    ],
  },
];

/** What a panel shows, in words: the newest values. */
export function summary(panel, newest) {
  if (!newest) return `${panel.title}: nothing yet.`;
  const values = panel.lines.map((line) => `${line.name} ${panel.format(newest[line.column])}`).join(", ");
  return `${panel.title} at revision ${count(newest.revision)}: ${values}.`;
}

/** The option of a panel; `from` and `to` are the revisions shown. */
export function panelOption(panel, columns, marks, [from, to], stretch, colours) {
  return {
    grid: GRID,
    xAxis: revisionAxis(colours, from, to),
    yAxis: yAxis(colours, panel.range, panel.axis ?? shortened(panel.format), panel.interval),
    tooltip: tooltip(colours, (revision) => tip(panel, columns, marks, revision, to - from, stretch)),
    series: panel.lines.map((line, place) => ({
      id: line.column,
      name: line.name,
      type: "line",
      showSymbol: columns.revision.length === 1,
      symbolSize: 4,
      silent: true,
      data: pairs(columns, line.column),
      color: colours[line.colour],
      lineStyle: { width: panel.stacked ? 0 : line.back ? 1 : line.thin ? 1.25 : 2, opacity: line.back ? 0.4 : 1, type: line.dash ?? "solid", cap: "butt" },
      z: line.back ? 1 : 2,
      ...(panel.stacked ? stacked(line, colours) : {}),
      ...(place === 0 ? { markLine: markLine(marks, to - from, colours) } : {}),
    })),
  };
}

const shortened = (format) => (value) => (format === percent ? percent(value, 0) : brief(value, 3));

function stacked(line, colours) {
  const decal = line.hatch
    ? { symbol: "rect", dashArrayX: [1, 0], dashArrayY: [1, 6], rotation: (-line.hatch * Math.PI) / 4, color: colours.surface }
    : undefined;
  return { stack: "groups", areaStyle: { opacity: line.faint ? 0.35 : 0.85 }, itemStyle: { decal } };
}

const LOOKS = {
  config: { colour: "blue", type: "solid" },
  warning: { colour: "amber", type: "dashed" },
  late: { colour: "grey", type: "dotted" },
};

/** Marks of one kind this near to each other, relative to the width, are drawn as one; signs need more room than lines. */
const NEAR = 0.01;
const NEAR_SIGNS = 0.05;

function markLine(marks, width, colours) {
  const apart = far(marks, NEAR * width, (mark) => mark.kind);
  const signed = new Set(far(apart, NEAR_SIGNS * width, () => "any"));
  return {
    symbol: "none",
    silent: true,
    animation: false,
    data: apart.map((mark) => {
      const { colour, type } = LOOKS[mark.kind];
      return {
        xAxis: mark.revision,
        lineStyle: { color: colours[colour], type, width: 1 },
        label: {
          show: signed.has(mark),
          formatter: MARKS[mark.kind].sign,
          color: colours.surface,
          backgroundColor: colours[colour],
          borderRadius: 3,
          padding: [2, 4],
          fontSize: 10,
          fontWeight: 700,
          distance: 1,
        },
      };
    }),
  };
}

/** The marks that are so far from the one before of the same `kindOf`. */
function far(marks, least, kindOf) {
  const last = {};
  return marks.filter((mark) => {
    const kind = kindOf(mark);
    const isFar = !(mark.revision - last[kind] < least);
    if (isFar) last[kind] = mark.revision;
    return isFar;
  });
}

function tip(panel, columns, marks, revision, width, stretch) {
  const place = nearest(columns, revision);
  const averaged = stretch > 1 ? `, average of ${stretch}` : "";
  const near = marks.filter((mark) => Math.abs(mark.revision - revision) <= Math.max(width * NEAR, stretch));
  return tipBox(
    [`revision ${count(columns.revision[place])}${averaged}`, moment(columns.time[place])],
    panel.lines.map((line) => [line.name, panel.format(columns[line.column][place]), line.colour]),
    near.map(markWords),
  );
}

/** A mark in words. */
export function markWords(mark) {
  if (mark.kind === "warning") return `${reasonWords(mark.reason)}: ${mark.text}`;
  return mark.kind === "config" && mark.reason ? `${mark.text} (${mark.reason})` : mark.text;
}
