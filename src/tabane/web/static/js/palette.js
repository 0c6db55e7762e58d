// The command palette: / and Ctrl+K.

import { get } from "./http.js";
import { choose } from "./preferences.js";
import { show as shortcuts } from "./shortcuts.js";
import { el, shape } from "./text.js";

const PAUSE = 120;
const RECENT = "tabane.palette";
const MOST_RECENT = 5;

/** What the frame of the page does: ask for a confirmation, and sign out. */
let frame = null;
/** What is always there, in the language of the page: names of groups, and entries. */
let known = { groups: {}, entries: [] };
let found = [];
let dialog = null;
let typed = 0;
let asking = null;
let moved = false;

const typing = (target) => target.closest("input, textarea, select, [contenteditable]");

export function open() {
  dialog = document.getElementById("palette");
  if (!dialog || dialog.open) return;
  const input = dialog.querySelector("input");
  input.value = "";
  found = [];
  known = JSON.parse(dialog.dataset.entries);
  dialog.showModal();
  filter("");
  input.focus();
}

function close() {
  // Until the next frame, a hidden field keeps the focus, and would swallow the key that opens the palette again.
  dialog.querySelector("input").blur();
  dialog.close();
}

function options() {
  return [...dialog.querySelectorAll("[role=option]")];
}

function select(option) {
  for (const one of options()) one.setAttribute("aria-selected", String(one === option));
  dialog.querySelector("input").setAttribute("aria-activedescendant", option ? option.id : "");
  option?.scrollIntoView({ block: "nearest" });
}

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const partsOf = (text) => text.toLowerCase().split(/[^\p{L}\p{N}]+/u);

/** Return how well an entry matches, 0 is best; -1 if one of the words is not in it. */
function rank(entry, words) {
  const all = entry.words ?? entry.label.toLowerCase();
  if (!words.every((word) => all.includes(word))) return -1;
  const label = entry.label.toLowerCase();
  if (label.startsWith(words.join(" "))) return 0;
  const begins = (parts) => words.every((word) => parts.some((part) => part.startsWith(word)));
  return begins(partsOf(label)) ? 1 : begins(partsOf(all)) ? 2 : 3;
}

/** Show what matches a text: what is always there at once, and what the hub finds when the typing pauses. */
function filter(text) {
  // What was found for the earlier text stays in sight if it still matches, but Enter must not open it.
  const words = wordsOf(text);
  const stale = found.filter((entry) => words.length && rank(entry, words) >= 0);
  moved = false;
  show(text, stale);
  select(options().find((one) => !stale.includes(one.entry)));
  look(text);
}

function show(text, more) {
  const { groups, entries } = known;
  const words = wordsOf(text);
  const ranked = entries.map((entry) => [rank(entry, words), entry]).filter(([place]) => place >= 0);
  const always = words.length ? ranked.sort((a, b) => a[0] - b[0]).map(([, entry]) => entry) : [...recent(), ...entries];
  const best = new Map();
  for (const [at, entry] of [...always, ...more].entries()) if (!best.has(entry.group)) best.set(entry.group, at);
  const order = [...best.keys()];
  // What the hub does for a verb, such as "restart git", comes before pages that have its words by chance.
  const first = more.some((one) => one.group === "actions") ? "actions" : order[0];
  const list = dialog.querySelector("[role=listbox]");
  list.replaceChildren();
  for (const group of [first, ...order.filter((one) => one !== first)]) {
    if (!group) continue;
    const members = [...always, ...more].filter((one) => one.group === group);
    list.append(el("li", { role: "presentation", class: "palette-group" }, groups[group] ?? ""));
    for (const entry of members) list.append(option(entry));
  }
  if (words.length && dialog.dataset.everything) {
    const entry = { icon: "search", label: "", group: "", url: `/search?q=${encodeURIComponent(text.trim())}`, everything: true };
    list.append(option(entry, [`${dialog.dataset.everything} `, el("b", {}, text.trim())]));
  }
  options().forEach((one, at) => { one.id = `palette-${at}`; });
}

function option(entry, label = [entry.label]) {
  const icon = shape("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": true });
  icon.append(shape("use", { href: `${dialog.dataset.icons}#${entry.icon}` }));
  const made = el("li", { role: "option", "aria-selected": "false" }, icon, el("span", { class: "palette-label" }, ...label));
  made.entry = entry;
  return made;
}

/** Ask the hub for what matches, when the typing pauses. */
function look(text) {
  clearTimeout(typed);
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  if (!text.trim()) { found = []; return; }
  typed = setTimeout(async () => {
    const entries = await get(`/palette?q=${encodeURIComponent(text)}`, { signal }).catch(() => null);
    if (!entries || signal.aborted) return;
    found = entries;
    const before = moved ? selected()?.entry : null;
    show(text, found);
    const same = before && options().find((one) => one.entry.url === before.url && one.entry.label === before.label);
    select(same ?? options()[0]);
  }, PAUSE);
}

const selected = () => options().find((one) => one.getAttribute("aria-selected") === "true");

// -- what was chosen before ----------------------------------------------------------------------

const holder = () => document.getElementById("sidebar")?.dataset.holder ?? "";

function recent() {
  try {
    const kept = JSON.parse(localStorage.getItem(RECENT));
    return kept.holder === holder() ? kept.entries : [];
  } catch {
    return [];
  }
}

/** Forget what was chosen. */
export function forget() {
  localStorage.removeItem(RECENT);
}

function remember({ words, ...entry }) {
  if (entry.everything) return;
  const rest = recent().filter((one) => one.label !== entry.label);
  const entries = [{ ...entry, group: "recent" }, ...rest].slice(0, MOST_RECENT);
  try {
    localStorage.setItem(RECENT, JSON.stringify({ holder: holder(), entries }));
  } catch { /* the storage is full */ }
}

// -- doing ---------------------------------------------------------------------------------------

async function go(chosen) {
  if (!chosen) return;
  const { entry } = chosen;
  close();
  remember(entry);
  if (entry.confirm && !(await frame.confirm(entry.confirm))) return;
  if (entry.url) document.dispatchEvent(new CustomEvent("tabane:go", { detail: entry.url }));
  else if (entry.post) post(entry.post);
  else act(entry.does);
}

/** Send an action. The hub answers with a notice when it is done. */
async function post(url) {
  const progress = document.getElementById("progress");
  progress.hidden = false;
  try {
    await htmx.ajax("POST", url, { source: document.body, target: "#notices", swap: "none" });
  } finally {
    progress.hidden = true;
  }
}

function act(does) {
  const [what, value] = does.split(":");
  if (what === "theme" || what === "lang") choose(what, value);
  else if (what === "shortcuts") shortcuts();
  else if (what === "sign-out") frame.signOut();
}

function move(step) {
  const all = options();
  const at = all.findIndex((one) => one.getAttribute("aria-selected") === "true");
  moved = true;
  select(all[(at + step + all.length) % all.length]);
}

export function start(given) {
  frame = given;
  document.addEventListener("keydown", (event) => {
    const combined = (event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k";
    const slash = event.key === "/" && !event.ctrlKey && !event.metaKey && !event.altKey && !typing(event.target);
    if (combined || slash) {
      event.preventDefault();
      open();
    } else if (dialog?.open && event.target.closest("#palette")) {
      if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        event.preventDefault();
        move(event.key === "ArrowDown" ? 1 : -1);
      } else if (event.key === "Escape" && !event.isComposing) {
        // In a search box, the first Escape would only clear it.
        event.preventDefault();
        close();
      } else if (event.key === "Enter" && !event.isComposing) {
        event.preventDefault();
        go(selected());
      }
    }
  });
  document.addEventListener("input", (event) => {
    if (event.target.closest("#palette")) filter(event.target.value);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("[data-palette]")) open();
    const option = event.target.closest("#palette [role=option]");
    if (option) go(option);
    else if (event.target.id === "palette") close();
  });
}
