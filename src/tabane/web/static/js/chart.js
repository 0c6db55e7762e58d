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

/** The distances of the lines of an axis of counts: no halves. */
export const COUNTS = [1, 2, 5].flatMap((part) => Array.from({ length: 10 }, (_, power) => part * 10 ** power)).sort((a, b) => a - b);

/** From zero to a bit above the largest value, at least to `least`. */
export const fromZero = (least) => (_, low, high) => [0, Math.max(high || 0, least) * 1.1];

/**
 * Draw a chart from zero. `say(at)` returns the values at a place as a text, which is shown in the figure's
 * [data-readout] while the pointer is there.
 */
async function plot(element, data, { series, height = 180, paths, x, y, least = 1, incrs, range, say, ...options }) {
  await library();
  const readout = element.parentElement.querySelector("[data-readout]");
  const size = () => ({ width: Math.max(120, element.clientWidth), height });
  const made = new uPlot({
    ...size(),
    scales: { x: { time: true, ...(range ? { range } : {}) }, y: { range: fromZero(least) } },
    cursor: { y: false, points: { size: 6 } },
    legend: { show: false },
    axes: [{ ...axis(x), size: 30 }, { ...axis(y), size: 60, ...(incrs ? { incrs } : {}) }],
    series: [{}, ...series.map(({ color: name = "accent", ...one }) => ({
      stroke: () => color(name), width: 1.5, points: { show: false }, ...(paths ? { paths: paths(uPlot), fill: () => color(name), width: 0 } : {}), ...one,
      ...(one.points?.show ? { points: { size: 4, fill: () => color(name), ...one.points } } : {}),
    }))],
    hooks: { setCursor: [({ cursor }) => { if (readout) readout.textContent = say && cursor.idx != null ? say(cursor.idx) : ""; }] },
    ...options,
  }, data, element);
  const watch = new ResizeObserver(() => made.setSize(size()));
  watch.observe(element);
  const repaint = () => made.redraw(false);
  document.addEventListener("tabane:theme", repaint);
  return { plot: made, set: (next) => made.setData(next), end: () => { watch.disconnect(); document.removeEventListener("tabane:theme", repaint); made.destroy(); } };
}

/** A chart of lines: data as uPlot takes it, series of {color}. Where a value is null, the line has a gap. */
export const line = (element, data, options) => plot(element, data, options);

/** A chart of bars. Each series is drawn over the ones before it, so the first has the whole height. */
export const bars = (element, data, options) => plot(element, data, {
  ...options,
  paths: (library) => library.paths.bars({ size: [0.7, 60], align: 0 }),
});
