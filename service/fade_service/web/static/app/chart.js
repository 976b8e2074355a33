// An ECharts chart as a component.

import { loadECharts } from "./echarts.js";
import { html, useEffect, useMemo, useRef } from "./lib.js";
import { useTheme } from "./theme.js";

/** Charts of one group share the pointer. */
const GROUP = "fade";
/** Charts this near to the window are drawn, the others once they come so near. */
const NEAR = "300px";

/**
 * A chart.
 *
 * `option(colours)` gives its ECharts option, anew when one of `inputs` is another; `label` says in words what it shows, for who
 * cannot see it. `onZoom(from, to)` hears the stretch of the horizontal axis that was marked by dragging; without it the chart does
 * not zoom.
 */
export function Chart({ option, inputs, label, onZoom }) {
  const place = useRef(null);
  const own = useRef({ near: false, chart: null, drawn: null }).current;
  const { colours } = useTheme();
  own.onZoom = onZoom;
  own.option = useMemo(() => complete(option(colours), label, colours, Boolean(onZoom)), [...inputs, colours]);

  useEffect(() => {
    const near = new IntersectionObserver(([entry]) => {
      own.near = entry.isIntersecting;
      draw(place.current, own);
    }, { rootMargin: NEAR });
    const resized = new ResizeObserver(() => fit(place.current, own.chart));
    near.observe(place.current);
    resized.observe(place.current);
    return () => {
      near.disconnect();
      resized.disconnect();
      own.near = false;
      own.chart?.dispose();
    };
  }, []);

  useEffect(() => {
    draw(place.current, own);
  }, [own.option]);

  return html`<div class="chart" ref=${place} role="img" aria-label=${label}></div>`;
}

let turn = null;

/** One chart after another, so that the first one shows while the others are made. */
function draw(place, own) {
  turn = (turn ?? loadECharts()).then(async (echarts) => {
    if (own.near && own.drawn !== own.option) {
      drawNow(place, own, echarts);
      await new Promise(requestAnimationFrame);
    }
    return echarts;
  });
}

function drawNow(place, own, { init, connect }) {
  if (!own.chart) {
    own.chart = init(place);
    own.chart.group = GROUP;
    connect(GROUP);
    own.chart.on("datazoom", (event) => zoomed(event, own));
    place.addEventListener("pointerenter", () => takeDrags(own));
  }
  own.drawn = own.option;
  own.chart.setOption(own.option, { replaceMerge: ["series"] });
}

function fit(place, chart) {
  if (chart && (chart.getWidth() !== place.clientWidth || chart.getHeight() !== place.clientHeight)) chart.resize();
}

function complete(option, label, colours, zooms) {
  const brushStyle = { color: colours.zoom, borderWidth: 0 };
  return {
    animation: false,
    aria: { enabled: true, label: { description: label } },
    textStyle: { fontFamily: getComputedStyle(document.body).fontFamily },
    ...(zooms ? { toolbox: { feature: { dataZoom: { yAxisIndex: "none", brushStyle } }, itemSize: 0, top: -20 } } : {}),
    ...option,
  };
}

/** Dragging marks a stretch; where fingers do it they would no longer scroll the page. */
function takeDrags(own) {
  if (!own.onZoom || own.takesDrags || matchMedia("(pointer: coarse)").matches) return;
  own.takesDrags = true;
  own.chart.dispatchAction({ type: "takeGlobalCursor", key: "dataZoomSelect", dataZoomSelectActive: true, escapeConnect: true });
}

function zoomed(event, own) {
  const marked = event.batch?.[0] ?? event;
  if (marked.startValue == null || !own.onZoom) return;
  own.chart.dispatchAction({ type: "dataZoom", start: 0, end: 100, escapeConnect: true }); // the axis follows the address instead
  own.onZoom(marked.startValue, marked.endValue);
}
