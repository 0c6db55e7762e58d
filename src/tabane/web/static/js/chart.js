// Charts over time, from zero. Each time has a slot of the same width. Colors are classes, so a change of the
// theme needs no script.

import { shape } from "./text.js";

const ABOVE = 8;
const BELOW = 24;
const BETWEEN_LABELS = 14;
const BETWEEN_LINES = 30;
const WIDEST_BAR = 60;
const DAY = 86400;

/** Distances of the labels of times, in seconds. */
const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, ...[1, 2, 7, 14, 28, 84, 168, 336].map((days) => days * DAY)];

/** The next of 1, 2, 5, 10, 20, 50 … that is not less. */
function rounded(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((part) => part * power >= least * 0.999);
}

const pen = document.createElement("canvas").getContext("2d");

/** The width of a label, without a layout of the page. */
const room = (text) => pen.measureText(text).width;

const part = (value) => value.toFixed(1);

/** Bars, each from zero. */
function drawnBars(values, { x, y, slot }) {
  // whole pixels, or the color of a bar shows around the one before it
  const width = Math.max(1, Math.round(Math.min(WIDEST_BAR, slot * 0.7)));
  const bar = (value, at) => (value ? `M${Math.round(x(at) - width / 2)},${part(y(0))}V${part(Math.min(y(value), y(0) - 1))}h${width}V${part(y(0))}z` : "");
  return [["chart-bars", values.map(bar).join("")]];
}

/** A line with a point at each value, also at one that has no neighbor. */
function drawnLine(values, { x, y }) {
  const here = (at) => `${part(x(at))},${part(y(values[at]))}`;
  const step = (value, at) => (value == null ? "" : `${at && values[at - 1] != null ? "L" : "M"}${here(at)}`);
  const point = (value, at) => (value == null ? "" : `M${here(at)}h.01`);
  return [["chart-line", values.map(step).join("")], ["chart-points", values.map(point).join("")]];
}

class Chart {
  constructor(element, data, drawn, { series, height = 180, x, y, least = 1, whole = false, say }) {
    Object.assign(this, { data, drawn, series, height, x, y, least, whole, say, width: 0, pointer: null });
    this.readout = element.parentElement.querySelector("[data-readout]");
    this.grid = shape("path", { class: "chart-grid" });
    this.under = shape("rect", { class: "chart-under", y: ABOVE, height: height - ABOVE - BELOW });
    this.values = shape("g", {});
    this.labels = shape("g", { class: "chart-labels" });
    this.svg = shape("svg", { height, "aria-hidden": true });
    this.svg.append(this.under, this.grid, this.values, this.labels);
    for (const name of ["pointermove", "pointerdown"]) this.svg.addEventListener(name, (event) => this.point(event.clientX));
    // A finger leaves at once; what it pointed at stays.
    this.svg.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") this.point(null); });
    element.replaceChildren(this.svg);
    this.watch = new ResizeObserver(([{ contentRect }]) => { this.resize(contentRect.width); });
    this.watch.observe(element);
  }

  set(data) { this.data = data; this.draw(); }

  end() { this.watch.disconnect(); }

  resize(width) {
    this.width = width;
    const { fontSize, fontFamily } = getComputedStyle(this.labels);
    this.font = `${fontSize} ${fontFamily}`;
    this.draw();
  }

  draw() {
    if (!this.width) return;
    pen.font = this.font;
    const [times, ...columns] = this.data;
    const bottom = this.height - BELOW;
    const top = Math.max(this.least, ...columns.flat()) * 1.1;
    const y = (value) => bottom - ((bottom - ABOVE) * value) / top;
    const ticks = this.ticks(top, bottom - ABOVE).map((value) => [y(value), this.y(value)]);
    this.left = Math.max(32, ...ticks.map(([, text]) => room(text) + 8));
    this.slot = (this.width - this.left) / times.length;
    const x = (at) => this.left + (at + 0.5) * this.slot;
    const marks = this.marks(times).map(([at, text]) => [x(at), text]).filter(([place, text]) => place + room(text) / 2 <= this.width);
    this.grid.setAttribute("d", [
      ...ticks.map(([place]) => `M${part(this.left)},${part(place)}H${part(this.width)}`),
      ...marks.map(([place]) => `M${part(place)},${ABOVE}V${bottom}`),
    ].join(""));
    this.labels.replaceChildren(
      ...ticks.map(([place, text]) => label(text, this.left - 8, place, { class: "chart-tick", dy: "0.35em" })),
      ...marks.map(([place, text]) => label(text, place, this.height - 6)),
    );
    this.values.replaceChildren(...columns.flatMap((values, which) => (
      this.drawn(values, { x, y, slot: this.slot }).map(([kind, d]) => shape("path", { class: `${kind} chart-${this.series[which]}`, d })))));
    this.tell();
  }

  /** The values that have a line across. */
  ticks(top, high) {
    const least = (BETWEEN_LINES * top) / high;
    const distance = rounded(this.whole ? Math.max(1, least) : least);
    return Array.from({ length: Math.floor(top / distance) + 1 }, (_, at) => at * distance);
  }

  /** The slots that have a label: multiples of a distance at which labels do not touch. */
  marks(times) {
    const step = times.length > 1 ? times[1] - times[0] : DAY;
    const fits = (each) => each >= step && (each / step) * this.slot >= room(this.x(times[0], each)) + BETWEEN_LABELS;
    const distance = TIMES.find(fits) || TIMES.at(-1);
    return times.flatMap((time, at) => (time % distance ? [] : [[at, this.x(time, distance)]]));
  }

  point(place) {
    this.pointer = place;
    this.tell();
  }

  /** Mark the slot under the pointer and tell its values, which may be new ones. */
  tell() {
    const place = this.pointer === null ? -1 : this.pointer - this.svg.getBoundingClientRect().left - this.left;
    const at = Math.floor(place / this.slot);
    const there = at >= 0 && at < this.data[0].length;
    this.under.setAttribute("x", there ? this.left + at * this.slot : 0);
    this.under.setAttribute("width", there ? this.slot : 0);
    if (this.readout) this.readout.textContent = there ? this.say(at, this.data) : "";
  }
}

function label(text, x, y, attributes = {}) {
  const made = shape("text", { x: part(x), y: part(y), ...attributes });
  made.textContent = text;
  return made;
}

/**
 * Draw a chart: data is [times, values, …], times in seconds at equal distances, the series are names of colors
 * of activity.css. `x(time, distance)` and `y(value)` return labels. `whole` is for counts: no line at a half.
 * The chart is at least `least` high. `say(at, data)` returns the values at a place as a text, which is shown in
 * the figure's [data-readout] while the pointer is there. Returns {set(data), end()}.
 */
export const bars = (element, data, options) => new Chart(element, data, drawnBars, options);

/** The same with lines. Where a value is null, a line has a gap. */
export const line = (element, data, options) => new Chart(element, data, drawnLine, options);
