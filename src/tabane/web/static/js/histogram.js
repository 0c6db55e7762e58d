// Bars of counts by month, over which a period can be selected with a pointer. Inputs for dates do the same by keyboard.

import { number } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";
const MOST_MONTHS = 300;

function shape(tag, attributes) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

/** Fill the months without posts, so that the bars have the distances of time. Many months become years. */
function filled(rows) {
  const counts = new Map(rows);
  const [first, last] = [rows[0][0], rows[rows.length - 1][0]];
  const all = [];
  let [year, month] = first.split("-").map(Number);
  for (let at = first; at <= last && all.length < 12000; ) {
    all.push([at, counts.get(at) || 0]);
    month += 1;
    if (month > 12) { month = 1; year += 1; }
    at = `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}`;
  }
  if (all.length <= MOST_MONTHS) return all;
  const years = new Map();
  for (const [at, count] of all) years.set(at.slice(0, 4), (years.get(at.slice(0, 4)) || 0) + count);
  return [...years];
}

const firstDay = (period) => (period.length === 4 ? `${period}-01-01` : `${period}-01`);

function lastDay(period) {
  const [year, month] = period.length === 4 ? [Number(period), 12] : period.split("-").map(Number);
  const day = new Date(Date.UTC(year, month, 0)).getUTCDate();
  return `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}-${String(day).padStart(2, "0")}`;
}

/** Draw the bars into a figure. `onselect(from, to)` gets days. Returns {range(from, to)}, which marks a period. */
export function histogram(figure, rows, onselect) {
  const plot = figure.querySelector("[data-plot]");
  const hint = figure.querySelector("figcaption .muted");
  const usual = hint.dataset.usual ?? (hint.dataset.usual = hint.textContent);
  if (!rows.length) {
    plot.replaceChildren();
    return { range() {} };
  }
  const bars = filled(rows);
  const most = Math.max(...bars.map(([, count]) => count), 1);
  const svg = shape("svg", { viewBox: `0 0 ${bars.length} 100`, preserveAspectRatio: "none", role: "img" });
  const [first, last] = [bars[0][0], bars[bars.length - 1][0]];
  svg.setAttribute("aria-label", plot.dataset.label.replace("{first}", first).replace("{last}", last));
  const range = shape("rect", { class: "histogram-range", y: 0, height: 100, x: 0, width: 0 });
  svg.append(range);
  const gap = bars.length > 120 ? 0.06 : 0.14;
  bars.forEach(([, count], at) => {
    const height = count ? Math.max(2, (100 * count) / most) : 0;
    svg.append(shape("rect", { class: "histogram-bar", x: at + gap / 2, width: 1 - gap, y: 100 - height, height }));
  });
  plot.replaceChildren(svg);
  figure.querySelector("[data-first]").textContent = first;
  figure.querySelector("[data-last]").textContent = last;

  const mark = (from, to) => {
    range.setAttribute("x", from);
    range.setAttribute("width", to < from ? 0 : to - from + 1);
  };
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    return Math.min(bars.length - 1, Math.max(0, Math.floor(((event.clientX - box.left) / box.width) * bars.length)));
  };
  let begun = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    begun = place(event);
    svg.setPointerCapture(event.pointerId);
    mark(begun, begun);
  });
  svg.addEventListener("pointermove", (event) => {
    const at = place(event);
    hint.textContent = `${bars[at][0]}: ${number(bars[at][1])} ${plot.dataset.count}`;
    if (begun !== null) mark(Math.min(begun, at), Math.max(begun, at));
  });
  svg.addEventListener("pointerup", (event) => {
    if (begun === null) return;
    const at = place(event);
    const [from, to] = [Math.min(begun, at), Math.max(begun, at)];
    begun = null;
    onselect(firstDay(bars[from][0]), lastDay(bars[to][0]));
  });
  svg.addEventListener("pointercancel", () => { begun = null; });
  svg.addEventListener("pointerleave", () => { hint.textContent = usual; });
  return {
    /** Mark the bars of a period; without days, none. */
    range(from, to) {
      if (!from && !to) return mark(0, -1);
      const begin = from ? bars.findIndex(([period]) => lastDay(period) >= from) : 0;
      const end = to ? bars.findLastIndex(([period]) => firstDay(period) <= to) : bars.length - 1;
      return begin < 0 || end < 0 ? mark(0, -1) : mark(begin, end);
    },
  };
}
