// A JSON value as a tree that opens and closes, by pointer and by keyboard. Branches are made when they open.

import { el } from "./text.js";

const AT_ONCE = 100;
const OPEN_SIZE = 12;
const LONGEST = 400;

/** Replace the text of each element with `data-json` in `root` by a tree. What is not JSON stays as it is. */
export function enhance(root) {
  for (const place of root.querySelectorAll("[data-json]")) {
    const source = place.querySelector("pre");
    if (!source || place.querySelector(".tree")) continue;
    let value;
    try {
      value = JSON.parse(source.textContent);
    } catch {
      continue;
    }
    if (value === null || typeof value !== "object") continue;
    place.replaceChildren(tree(value, place.dataset.json, source.textContent));
  }
}

/** Return the tree of a value. `label` names it for a screen reader; `text` is what is copied. */
export function tree(value, label = "JSON", text = null) {
  const made = el("div", { class: "tree code", role: "group", "aria-label": label });
  made.append(branch(null, value, 0));
  made.addEventListener("keydown", move);
  made.jsonText = text;
  return made;
}

function branch(key, value, depth) {
  const entries = Array.isArray(value) ? value.map((part, at) => [at, part]) : Object.entries(value);
  const [open, close] = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return el("div", { class: "tree-leaf" }, ...named(key), el("span", { class: "tree-mark" }, open + close));
  const body = el("div", { class: "tree-body" });
  const summary = el("summary", {}, ...named(key), el("span", { class: "tree-mark" }, open), el("span", { class: "tree-count" }, ` ${entries.length} `), el("span", { class: "tree-mark tree-close" }, close));
  const made = el("details", { class: "tree-branch" }, summary, body, el("div", { class: "tree-mark tree-end" }, close));
  const fill = () => { if (!body.childNodes.length) more(body, entries, 0, depth + 1); };
  made.fill = fill;
  made.addEventListener("toggle", () => { if (made.open) fill(); });
  if (depth === 0 || (depth < 3 && entries.length <= OPEN_SIZE)) {
    made.open = true;
    fill();
  }
  return made;
}

function more(body, entries, from, depth) {
  for (const [key, part] of entries.slice(from, from + AT_ONCE)) {
    body.append(part !== null && typeof part === "object" ? branch(key, part, depth) : leaf(key, part));
  }
  const left = entries.length - from - AT_ONCE;
  if (left <= 0) return;
  const button = el("button", { class: "btn small", type: "button" }, `+ ${Math.min(left, AT_ONCE)} / ${left}`);
  button.addEventListener("click", () => {
    button.remove();
    const count = body.childNodes.length;
    more(body, entries, from + AT_ONCE, depth);
    const next = body.childNodes[count];
    next?.setAttribute("tabindex", "-1");
    next?.focus({ preventScroll: true });
  });
  body.append(button);
}

function named(key) {
  if (key === null) return [];
  const shown = typeof key === "number" ? el("span", { class: "tree-index" }, String(key)) : el("span", { class: "tree-key" }, key);
  return [shown, el("span", { class: "tree-mark" }, ": ")];
}

function leaf(key, value) {
  const kind = value === null ? "null" : typeof value;
  const text = kind === "string" ? JSON.stringify(value) : String(value);
  const shown = el("span", { class: `tree-value ${kind}` }, text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text);
  const made = el("div", { class: "tree-leaf" }, ...named(key), shown);
  if (text.length > LONGEST) {
    const button = el("button", { class: "btn small", type: "button" }, `+ ${text.length - LONGEST}`);
    button.addEventListener("click", () => { shown.textContent = text; button.remove(); });
    made.append(" ", button);
  }
  return made;
}

/** Open a branch, with its content at once: the event of the element comes later. */
function openBranch(details) {
  details.fill();
  details.open = true;
}

/** Arrows move between branches, and open and close them. */
function move(event) {
  const summary = event.target.closest("summary");
  if (!summary || event.altKey || event.ctrlKey || event.metaKey) return;
  const details = summary.parentElement;
  const seen = [...event.currentTarget.querySelectorAll("summary")].filter((one) => one.checkVisibility?.() ?? one.offsetParent);
  const at = seen.indexOf(summary);
  const go = {
    ArrowDown: () => seen[at + 1]?.focus(),
    ArrowUp: () => seen[at - 1]?.focus(),
    ArrowRight: () => { if (details.open) seen[at + 1]?.focus(); else openBranch(details); },
    ArrowLeft: () => { if (details.open) details.open = false; else details.parentElement.closest("details")?.querySelector("summary")?.focus(); },
    Home: () => seen[0]?.focus(),
    End: () => seen.at(-1)?.focus(),
  }[event.key];
  if (!go) return;
  event.preventDefault();
  go();
}
