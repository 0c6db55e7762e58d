// Activity: rows of calls as they happen, charts by the second, and the panel of one call.

import { bars, line } from "./chart.js";
import { get } from "./http.js";
import { on } from "./live.js";
import { bytes, lang, ms, number, showTimes } from "./text.js";

const MOST_ROWS = 500;
const MOST_WAITING = 500;
const KEPT = 900;

/** The calls: new ones are put on top, those that end are changed in place. */
class Calls {
  constructor(root) {
    this.root = root;
    this.rows = root.querySelector("[data-rows]");
    this.operations = JSON.parse(this.rows.dataset.operations);
    this.form = root.querySelector("[data-filters]");
    this.blank = root.querySelector("template[data-row]").content.firstElementChild;
    this.empty = root.querySelector("[data-empty]");
    this.pauseButton = root.querySelector("[data-pause]");
    this.waitingText = root.querySelector("[data-waiting]");
    this.waiting = [];
    this.running = new Map();
    this.frame = 0;
    this.skipped = 0;
    this.news = [];
    for (const row of this.rows.querySelectorAll("[data-outcome=running]")) this.running.set(Number(row.dataset.number), null);
  }

  get paused() { return this.pauseButton.getAttribute("aria-pressed") === "true"; }

  take(call) {
    if (call.skipped) return this.skip(call.skipped);
    if (call.outcome === "running") this.running.set(call.number, call);
    else this.running.delete(call.number);
    this.news.push(call);
    if (this.news.length > MOST_WAITING) this.news.shift();
    if (!this.fits(call)) return;
    this.waiting.push(call);
    if (this.waiting.length > MOST_WAITING) this.waiting.shift();
    if (this.paused) this.showWaiting();
    else this.frame ||= requestAnimationFrame(() => this.flush());
  }

  skip(count) {
    this.skipped += count;
    const place = this.root.querySelector("[data-skipped]");
    place.textContent = place.dataset.sentence.replace("#", number(this.skipped));
    place.hidden = false;
  }

  fits(call) {
    const wanted = Object.fromEntries(new FormData(this.form));
    const has = (text, part) => text.toLowerCase().includes(part.trim().toLowerCase());
    return has(call.tool, wanted.tool)
      && (!wanted.server || wanted.server === call.server)
      && [call.client, call.holder, call.label].some((name) => has(name, wanted.client))
      && (!wanted.outcome || wanted.outcome === call.outcome)
      && (Boolean(wanted.own) || !call.lookup);
  }

  /** Show why there are no rows: nothing was called, or nothing fits. */
  showEmpty() {
    this.empty.hidden = this.rows.children.length > 0;
    const filtered = [...new FormData(this.form)].some(([name, value]) => value.trim() && name !== "own");
    for (const one of this.empty.querySelectorAll("[data-empty-all]")) one.hidden = filtered;
    for (const one of this.empty.querySelectorAll("[data-empty-filtered]")) one.hidden = !filtered;
  }

  clear() {
    for (const one of this.form.querySelectorAll("input[type=search], select")) one.value = "";
    this.form.querySelector("input[name=outcome][value='']").checked = true;
    this.filter();
  }

  flush() {
    this.frame = 0;
    const added = document.createDocumentFragment();
    for (const call of this.waiting) {
      const known = this.rows.querySelector(`[data-number="${call.number}"]`) || added.querySelector(`[data-number="${call.number}"]`);
      const row = this.fill(known || this.blank.cloneNode(true), call);
      if (!known) added.prepend(row);
    }
    this.waiting = [];
    showTimes(added);
    this.rows.prepend(added);
    while (this.rows.children.length > MOST_ROWS) this.rows.lastElementChild.remove();
    this.showEmpty();
    this.showWaiting();
  }

  fill(row, call) {
    row.dataset.number = call.number;
    row.dataset.outcome = call.outcome;
    row.querySelector("time").dataset.when = call.time;
    const put = (name, text) => { row.querySelector(`[data-f=${name}]`).textContent = text; };
    put("tool", inWords(call, this.operations));
    row.querySelector("[data-f=tool]").classList.toggle("mono", call.kind !== "operation");
    put("who", call.client || call.label);
    put("ms", call.outcome === "running" ? "" : ms(call.ms));
    put("bytes", call.bytes ? bytes(call.bytes) : "");
    put("face", this.root.querySelector("template[data-faces]").content.querySelector(`[data-face="${call.face}"]`).textContent);
    const badge = this.root.querySelector("template[data-outcomes]").content.querySelector(`[data-outcome="${call.outcome}"]`);
    const shown = row.querySelector("[data-f=outcome]");
    shown.className = badge.className;
    shown.textContent = badge.textContent;
    const mark = row.querySelector("[data-f=credentials]");
    mark.hidden = !call.credentials.length;
    mark.title = call.credentials.map((found) => `${mark.dataset[found.where]}: ${found.kinds.join(", ")}`).join("; ");
    return row;
  }

  pause() {
    this.pauseButton.setAttribute("aria-pressed", String(!this.paused));
    if (!this.paused) this.flush();
  }

  showWaiting() {
    const count = this.paused ? this.waiting.length : 0;
    this.waitingText.textContent = count ? this.waitingText.dataset.sentence.replace("#", number(count)) : "";
  }

  async filter() {
    const query = new URLSearchParams([...new FormData(this.form)].filter(([, value]) => value));
    history.replaceState(history.state, "", `${location.pathname}${query.size ? `?${query}` : ""}`);
    const mine = (this.asked = query.toString());
    this.news = [];
    const text = await get(`/activity/rows?${query}`).catch(() => null);
    if (mine !== this.asked || text === null) return;
    this.rows.innerHTML = text;
    showTimes(this.rows);
    // The rows may be older than the calls that were heard of meanwhile.
    this.waiting = this.news.filter((call) => this.fits(call));
    if (this.paused) this.showWaiting();
    else this.flush();
    this.showEmpty();
  }

  end() { cancelAnimationFrame(this.frame); clearTimeout(this.later); }
}

/** A tool by its name; an operation of Tabane in words. */
function inWords({ kind, tool }, operations) {
  if (kind !== "operation") return tool;
  if (Object.hasOwn(operations, tool)) return operations[tool];
  const words = tool.replaceAll("_", " ");
  return words.charAt(0).toUpperCase() + words.slice(1);
}

const STEPS = { 60: 1, 300: 5, 900: 15 };

/** The figures of each second, their charts and the sums above. */
class Seconds {
  constructor(root) {
    this.root = root;
    this.window = Number(root.querySelector("[data-window][aria-pressed=true]").dataset.window);
    this.known = new Map();
    this.charts = [];
    this.place = root.querySelector("[data-charts]");
    this.ended = false;
  }

  get step() { return STEPS[this.window] || 5; }

  async start() {
    const found = await get(`/activity/seconds?seconds=${KEPT}`).catch(() => null);
    if (!found || this.ended) return;
    found.calls.forEach((calls, at) => {
      if (calls) this.known.set(found.from + at, { calls, failed: found.failed[at], refused: found.refused[at], p50: found.p50[at], p95: found.p95[at] });
    });
    this.offset = found.from + found.calls.length - Date.now() / 1000;
    this.show();
    this.timer = setInterval(() => this.show(), 1000);
  }

  /** Draw the charts when there is a call to draw. */
  draw() {
    this.place.hidden = false;
    this.charts = [
      this.chart("calls", bars, {
        series: ["ok", "warn", "bad"], least: 4, whole: true, y: number,
        say: (at, words, [, calls, troubled, failed]) => `${number(calls[at])} ${words[0]}, ${number(failed[at])} ${words[1]}, ${number(troubled[at] - failed[at])} ${words[2]}`,
      }),
      this.chart("latency", line, {
        series: ["ok", "warn"], least: 10, y: (value) => (value ? ms(value).replace(".0", "") : "0"),
        say: (at, words, [, p50, p95]) => (p50[at] == null ? "–" : `${words[0]} ${ms(p50[at])}, ${words[1]} ${ms(p95[at])}`),
      }),
    ];
  }

  chart(name, draw, { say, ...options }) {
    const place = this.root.querySelector(`[data-chart=${name}]`);
    const words = JSON.parse(place.dataset.words);
    const part = (style) => new Intl.DateTimeFormat(lang(), { hourCycle: "h23", hour: "2-digit", minute: "2-digit", ...style });
    const [minutes, seconds] = [part({}), part({ second: "2-digit" })];
    return draw(place, this.data(name), {
      height: 180,
      x: (time, distance) => (distance < 60 ? seconds : minutes).format(time * 1000),
      say: (at, data) => `${seconds.format(data[0][at] * 1000)} · ${say(at, words, data)}`,
      ...options,
    });
  }

  add(second) { this.known.set(second.second, second); }

  /** The seconds of the period that are over, in groups of `step` that begin at multiples of it. */
  groups() {
    const end = Math.floor(Date.now() / 1000 + this.offset) - 1;
    const last = Math.floor(end / this.step) * this.step;
    return Array.from({ length: Math.floor(this.window / this.step) }, (_, at) => {
      const start = last - this.window + (at + 1) * this.step;
      return [start, Array.from({ length: this.step }, (_, next) => this.known.get(start + next)).filter(Boolean)];
    });
  }

  /** Columns of a chart. A group without calls has the count 0, and no latency. */
  data(name) {
    const groups = this.groups();
    const times = groups.map(([start]) => start);
    const sum = (seconds, figure) => seconds.reduce((all, second) => all + second[figure], 0);
    if (name === "calls") {
      const failed = groups.map(([, seconds]) => sum(seconds, "failed"));
      const troubled = groups.map(([, seconds], at) => failed[at] + sum(seconds, "refused"));
      return [times, groups.map(([, seconds]) => sum(seconds, "calls")), troubled, failed];
    }
    const timed = groups.map(([, seconds]) => seconds.filter((second) => second.p50 !== null));
    return [times, timed.map(median), timed.map((seconds) => (seconds.length ? Math.max(...seconds.map((second) => second.p95)) : null))];
  }

  show() {
    if (document.hidden) return;
    const put = (name, text) => {
      const place = this.root.querySelector(`[data-now=${name}]`);
      if (place.textContent !== text) place.textContent = text;
    };
    const now = Math.floor(Date.now() / 1000 + this.offset) - 1;
    const inside = [...this.known.values()].map((second, at) => [[...this.known.keys()][at], second]).filter(([at]) => at > now - this.window);
    const rate = inside.filter(([at]) => at > now - 10).reduce((all, [, second]) => all + second.calls, 0) / 10;
    put("rate", rate >= 10 ? number(Math.round(rate)) : rate.toFixed(1));
    put("failed", number(inside.reduce((all, [, second]) => all + second.failed, 0)));
    const slowest = Math.max(-1, ...inside.map(([, second]) => second.p95).filter((each) => each !== null));
    put("p95", slowest < 0 ? "–" : ms(slowest));
    this.root.querySelector("[data-silent]").hidden = inside.length > 0;
    if (this.known.size && !this.charts.length) this.draw();
    this.charts[0]?.set(this.data("calls"));
    this.charts[1]?.set(this.data("latency"));
    for (const second of this.known.keys()) if (second < now - KEPT) this.known.delete(second);
  }

  choose(button) {
    this.window = Number(button.dataset.window);
    for (const one of this.root.querySelectorAll("[data-window]")) one.setAttribute("aria-pressed", String(one === button));
    const title = this.root.querySelector("[data-step]");
    title.textContent = JSON.parse(title.dataset.step)[Object.keys(STEPS).indexOf(String(this.window))];
    this.show();
  }

  end() { this.ended = true; clearInterval(this.timer); this.charts.forEach((chart) => chart.end()); }
}

/** The median of the medians of some seconds, each as often as it has calls. */
function median(seconds) {
  const sorted = [...seconds].sort((a, b) => a.p50 - b.p50);
  let left = sorted.reduce((all, second) => all + second.calls, 0) / 2;
  for (const second of sorted) {
    left -= second.calls;
    if (left <= 0) return second.p50;
  }
  return null;
}

/** The panel beside the list. */
class Panel {
  constructor(root) { this.root = root; this.panel = root.querySelector("[data-panel]"); this.number = 0; }

  async open(row) {
    const chosen = (this.number = Number(row.dataset.number));
    const text = await get(`/activity/calls/${chosen}`).catch((error) => Object.assign(document.createElement("p"), { textContent: error.message }));
    if (chosen !== this.number) return;
    if (typeof text === "string") this.panel.innerHTML = text;
    else this.panel.replaceChildren(text);
    this.panel.hidden = false;
    showTimes(this.panel);
    this.mark();
    this.panel.querySelector("h2")?.focus();
  }

  /** Show the call again when it has ended. */
  ended(call) {
    const row = this.root.querySelector(`[data-number="${call.number}"]`);
    if (call.number === this.number && call.outcome !== "running" && row && !this.panel.hidden) this.open(row);
  }

  mark() {
    for (const row of this.root.querySelectorAll("tr[data-selected]")) delete row.dataset.selected;
    const row = this.root.querySelector(`tr[data-number="${this.number}"]`);
    if (row && !this.panel.hidden) row.dataset.selected = "";
  }

  close() {
    if (this.panel.hidden) return;
    const row = this.root.querySelector(`tr[data-number="${this.number}"]`);
    this.panel.hidden = true;
    this.number = 0;
    this.mark();
    row?.querySelector("[data-call]").focus();
  }
}

export function mount(root) {
  const calls = new Calls(root);
  const seconds = new Seconds(root);
  const panel = new Panel(root);
  const running = root.querySelector("[data-now=running]");
  const countRunning = () => { running.textContent = number(calls.running.size); };
  let later = 0;

  const clicked = (event) => {
    const button = event.target.closest("button");
    const row = event.target.closest("[data-rows] tr");
    if (row) panel.open(row);
    else if (button?.matches("[data-pause]")) calls.pause();
    else if (button?.matches("[data-window]")) seconds.choose(button);
    else if (button?.matches("[data-close-panel]")) panel.close();
    else if (button?.matches("[data-clear-filters]")) calls.clear();
  };
  const typed = (event) => {
    if (!event.target.closest("[data-filters]")) return;
    clearTimeout(later);
    later = setTimeout(() => calls.filter(), 150);
  };
  const submitted = (event) => { event.preventDefault(); calls.filter(); };
  const pressed = (event) => { if (event.key === "Escape") panel.close(); };
  root.addEventListener("click", clicked);
  root.addEventListener("input", typed);
  root.addEventListener("submit", submitted);
  root.addEventListener("keydown", pressed);

  const ends = [
    on("calls", (call) => { calls.take(call); countRunning(); if (!call.skipped) panel.ended(call); }),
    on("activity", (second) => seconds.add(second)),
    () => clearTimeout(later),
    () => calls.end(),
    () => seconds.end(),
  ];
  calls.showEmpty();
  seconds.start();
  return () => { for (const end of ends) end(); };
}
