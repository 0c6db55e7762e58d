// Bars of counts by month from 0 on, over which a period can be selected with a pointer or the arrow keys.

import { el, number, shape } from "./text.js";

const MOST_MONTHS = 300;

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

/** Write the first and the last period below the bars; of some years, where each begins. */
function ends(figure, bars) {
  const [first, last] = [figure.querySelector("[data-first]"), figure.querySelector("[data-last]")];
  const starts = bars.map(([period], at) => [period, at]).filter(([period, at]) => period.endsWith("-01") && at);
  const years = figure.querySelector(".histogram-years");
  years?.remove();
  [first.textContent, last.textContent] = [bars[0][0], bars[bars.length - 1][0]];
  first.parentElement.hidden = false;
  if (starts.length < 2 || starts.length > 14) return;
  first.parentElement.hidden = true;
  const row = el("div", { class: `histogram-years muted small${starts.length > 4 ? " many" : ""}`, "aria-hidden": "true" });
  for (const [period, at] of starts) {
    const label = el("span", {}, period.slice(0, 4));
    label.style.left = `${(100 * at) / bars.length}%`;
    row.append(label);
  }
  first.parentElement.before(row);
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
  const svg = shape("svg", { viewBox: `0 0 ${bars.length} 100`, preserveAspectRatio: "none", role: "slider", tabindex: 0, "aria-valuemin": 0, "aria-valuemax": bars.length - 1 });
  const [first, last] = [bars[0][0], bars[bars.length - 1][0]];
  svg.setAttribute("aria-label", plot.dataset.label.replace("{first}", first).replace("{last}", last));
  const range = shape("rect", { class: "histogram-range", y: 0, height: 100, x: 0, width: 0 });
  svg.append(range);
  const gap = bars.length > 120 ? 0.06 : 0.14;
  bars.forEach(([, count], at) => {
    const height = count ? Math.max(2, (100 * count) / most) : 0;
    svg.append(shape("rect", { class: "histogram-bar", x: at + gap / 2, width: 1 - gap, y: 100 - height, height }));
  });
  const axis = el("div", { class: "histogram-axis", "aria-hidden": "true" }, el("span", {}, number(most)), el("span", {}, "0"));
  plot.replaceChildren(axis, svg);
  ends(figure, bars);

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
  const describe = (at) => `${bars[at][0]}: ${number(bars[at][1])} ${plot.dataset.count}`;
  svg.addEventListener("pointermove", (event) => {
    const at = place(event);
    hint.textContent = describe(at);
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

  // By keyboard: arrows move, with Shift they extend the period, Enter selects it.
  let [fixed, cursor] = [bars.length - 1, bars.length - 1];
  const speak = () => {
    svg.setAttribute("aria-valuenow", cursor);
    svg.setAttribute("aria-valuetext", describe(cursor));
  };
  speak();
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -12, PageUp: 12, Home: -bars.length, End: bars.length }[event.key];
    const ends = [Math.min(fixed, cursor), Math.max(fixed, cursor)];
    if (event.key === "Enter") onselect(firstDay(bars[ends[0]][0]), lastDay(bars[ends[1]][0]));
    else if (!step) return;
    event.preventDefault();
    if (!step) return;
    cursor = Math.min(bars.length - 1, Math.max(0, cursor + step));
    if (!event.shiftKey) fixed = cursor;
    mark(Math.min(fixed, cursor), Math.max(fixed, cursor));
    hint.textContent = describe(cursor);
    speak();
  });
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
