// Charts. The library is loaded with the first one.

let loading = null;

function library() {
  loading ??= Promise.all([
    new Promise((done, failed) => {
      const script = document.createElement("script");
      script.src = new URL("../vendor/uPlot.iife.min.js", import.meta.url).href;
      script.onload = done;
      script.onerror = failed;
      document.head.append(script);
    }),
    new Promise((done) => {
      const link = document.createElement("link");
      link.rel = "stylesheet";
      link.href = new URL("../vendor/uPlot.min.css", import.meta.url).href;
      link.onload = done;
      link.onerror = done;
      document.head.append(link);
    }),
  ]);
  return loading;
}

/** A color of the theme, as the canvas needs it: color("accent"). */
export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const axis = (values) => ({
  stroke: () => color("muted"),
  grid: { stroke: () => color("line"), width: 1 },
  ticks: { show: false },
  font: "12px system-ui, sans-serif",
  ...(values ? { values } : {}),
});

async function plot(element, data, { series, height = 180, paths, x, y, time = true, xLabel, ...options }) {
  await library();
  const size = () => ({ width: Math.max(120, element.clientWidth), height });
  const made = new uPlot({
    ...size(),
    scales: { x: { time } },
    cursor: { points: { size: 6 } },
    legend: { live: true },
    axes: [axis(x), { ...axis(y), size: 56 }],
    series: [xLabel ? { label: xLabel } : {}, ...series.map(({ color: name = "accent", ...one }) => ({
      stroke: () => color(name), fill: one.fill ? () => color(`${name}-soft`) : undefined, width: 1.5,
      points: { show: false }, ...(paths ? { paths: paths(uPlot) } : {}), ...one, ...(one.fill ? { fill: () => color(`${name}-soft`) } : {}),
    }))],
    ...options,
  }, data, element);
  const watch = new ResizeObserver(() => made.setSize(size()));
  watch.observe(element);
  const repaint = () => made.redraw(false);
  document.addEventListener("tabane:theme", repaint);
  return { plot: made, set: (next) => made.setData(next), end: () => { watch.disconnect(); document.removeEventListener("tabane:theme", repaint); made.destroy(); } };
}

/** A chart of lines: data as uPlot takes it, series of {label, color, fill}. Returns {set, end, plot}. */
export const line = (element, data, options) => plot(element, data, options);

/** A chart of bars. */
export const bars = (element, data, options) => plot(element, data, {
  ...options,
  paths: (library) => library.paths.bars({ size: [0.7, 60], align: 0 }),
  series: options.series.map((one) => ({ fill: true, ...one })),
});
