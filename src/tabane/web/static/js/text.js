// Elements and texts: small helpers of the pages' scripts.

/** Make an element: el("p", {class: "muted"}, "text", child). Nothing is read as HTML. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on") && typeof value === "function") made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Make a part of a drawing: shape("rect", {x: 1}). */
export function shape(tag, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  return made;
}

export const lang = () => document.documentElement.lang || "en";

export const number = (value) => new Intl.NumberFormat(lang()).format(value);

export function bytes(size) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let value = size;
  while (value >= 999.5 && at < units.length - 1) { value /= 1000; at += 1; }
  return `${at && value < 9.95 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export function ms(value) {
  if (value >= 10000) return `${Math.round(value / 1000)} s`;
  if (value >= 1000) return `${(value / 1000).toFixed(1)} s`;
  return value < 10 ? `${value.toFixed(1)} ms` : `${Math.round(value)} ms`;
}

/** "40 s", "3 min", "2 h" */
export function duration(seconds) {
  const [value, unit] = seconds < 90 ? [seconds, "second"] : seconds < 5400 ? [seconds / 60, "minute"] : [seconds / 3600, "hour"];
  return new Intl.NumberFormat(lang(), { style: "unit", unit, unitDisplay: "short" }).format(Math.max(1, Math.round(value)));
}

const STEPS = [["second", 60], ["minute", 60], ["hour", 24], ["day", 30], ["month", 12], ["year", Infinity]];

/** "3 minutes ago" in the language of the page. */
export function ago(date, now = Date.now()) {
  let value = (date.getTime() - now) / 1000;
  const format = new Intl.RelativeTimeFormat(lang(), { numeric: "auto", style: "short" });
  for (const [unit, size] of STEPS) {
    if (Math.abs(value) < size) return format.format(Math.round(value), unit);
    value /= size;
  }
  return "";
}

/** A time from RFC 3339 or from seconds since 1970. */
export function date(stamp) {
  return /^\d+(\.\d+)?$/.test(stamp) ? new Date(Number(stamp) * 1000) : new Date(stamp);
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };

const STYLES = {
  date: { dateStyle: "medium" },
  time: CLOCK,
  full: { year: "numeric", month: "short", day: "numeric", ...CLOCK },
};

/** Fill the <time data-when> elements of a part of the page. */
export function showTimes(root) {
  for (const one of root.querySelectorAll("time[data-when]")) {
    const at = date(one.dataset.when);
    if (Number.isNaN(at.getTime())) { one.textContent = one.dataset.when; continue; }
    const full = new Intl.DateTimeFormat(lang(), STYLES.full).format(at);
    const style = one.dataset.style || "relative";
    const shown = style === "relative" ? ago(at) : new Intl.DateTimeFormat(lang(), STYLES[style]).format(at);
    if (one.textContent !== shown) one.textContent = shown;
    if (!one.dateTime) { one.dateTime = at.toISOString(); one.title = full; }
  }
}
