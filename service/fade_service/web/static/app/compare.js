// Several lines side by side in one chart: settings, or advantages.

import { GRID, tipBox, tooltip, yAxis } from "./axes.js";
import { html } from "./lib.js";
import { Swatch } from "./swatch.js";

const COLOURS = ["blue", "orange", "green", "purple", "red", "grey"];
const DASHES = ["solid", [7, 3], [2, 2], [8, 3, 2, 3]];

/** Colour and dashes of the line at a place: neighbours differ in both, for who does not tell colours apart. */
export const lookOf = (place) => ({ colour: COLOURS[place % COLOURS.length], dash: DASHES[place % DASHES.length] });

/**
 * The option of a chart of lines: each {name, colour, dash, points: [[x, y]], back}. `x` has {axis(colours), head(place)}, `y` {range,
 * interval, log, format, axis}: the last for numbers along the axis.
 */
export function linesOption(lines, x, y, colours) {
  const at = (line, place) => line.points.find(([own]) => own >= place)?.[1];
  const vertical = yAxis(colours, y.range, y.axis, y.interval);
  return {
    grid: GRID,
    xAxis: x.axis(colours),
    yAxis: y.log ? { ...vertical, type: "log" } : vertical,
    tooltip: tooltip(colours, (place) =>
      tipBox(
        [x.head(place)],
        lines.map((line) => [line.name, y.format(at(line, place)), line.colour]),
      ),
    ),
    series: lines.map((line) => ({
      id: line.id ?? line.name,
      name: line.name,
      type: "line",
      showSymbol: false,
      silent: true,
      data: line.points,
      color: colours[line.colour],
      lineStyle: { width: line.back ? 1.5 : 2, type: line.dash, cap: "butt" },
    })),
  };
}

/** Names of the lines, each with its newest value or none. */
export function LinesLegend({ lines, format }) {
  return html`<ul class="legend">
    ${lines.map(
      (line) => html`<li key=${line.id ?? line.name}>
        <${Swatch} colour=${line.colour} dash=${line.dash} /> ${line.name} ${format && html`<b>${format(line.points.at(-1)?.[1])}</b>`}
      </li>`,
    )}
  </ul>`;
}
