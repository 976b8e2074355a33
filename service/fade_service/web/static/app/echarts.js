// ECharts, by the version that is vendored. It is the largest file by far, so this one runs first.

const FILE = new URL("../vendor/echarts-6.1.0/echarts.common.min.js", import.meta.url).href;

let loading;

/** The library; fetched once. */
export function loadECharts() {
  loading ??= new Promise((found, failed) => {
    const script = document.createElement("script"); // the package has this build as a classic script only
    script.src = FILE;
    script.fetchPriority = "high"; // browsers put scripts of this kind behind all others
    script.onload = () => found(globalThis.echarts);
    script.onerror = () => failed(new Error("the chart library could not be fetched"));
    document.head.append(script);
  });
  return loading;
}

const hasCharts = location.hash.length > 2 && !location.hash.startsWith("#/?");
if (hasCharts) loadECharts();
