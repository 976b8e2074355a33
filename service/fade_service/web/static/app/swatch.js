// What a legend shows of a line or an area: a piece of it, as the chart draws it.

import { html } from "./lib.js";

/** ECharts' own names of dashes, for lines two pixels wide. */
const DASHES = { solid: [], dashed: [8, 4], dotted: [2, 2] };
const [WIDTH, HEIGHT] = [20, 10];

/** `colour` is a name of style.css, `dash` as in ECharts, `back` a thin line that stands back. */
export function Swatch({ colour, dash = "solid", back = false }) {
  const dashes = (DASHES[dash] ?? dash).join(" ");
  return html`<${Piece} colour=${colour} back=${back}>
    <line x1="0" x2=${WIDTH} y1=${HEIGHT / 2} y2=${HEIGHT / 2} stroke-width=${back ? 1.5 : 2.5} stroke-dasharray=${dashes} />
  <//>`;
}

/** `hatch` is 1 for strokes that rise, -1 for strokes that fall; `faint` an area that stands back. */
export function AreaSwatch({ colour, hatch, faint = false }) {
  const [left, right] = hatch > 0 ? [-HEIGHT, 0] : [0, -HEIGHT];
  const strokes = hatch ? [0, 5, 10, 15, 20, 25].map((x) => html`<line class="hatch" x1=${x + left} x2=${x + right} y1=${HEIGHT} y2="0" />`) : null;
  return html`<${Piece} colour=${colour} back=${faint}><rect width=${WIDTH} height=${HEIGHT} />${strokes}<//>`;
}

const Piece = ({ colour, back, children }) => html`<svg class=${`swatch ${colour} ${back ? "back" : ""}`} width=${WIDTH} height=${HEIGHT} viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
  ${children}
</svg>`;
