// The command palette: / and Ctrl+K.

import { get } from "./http.js";

const PAUSE = 120;

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
  return [...dialog.querySelectorAll("[role=option]:not([hidden])")];
}

function select(option) {
  for (const one of dialog.querySelectorAll("[role=option]")) one.setAttribute("aria-selected", String(one === option));
  dialog.querySelector("input").setAttribute("aria-activedescendant", option ? option.id : "");
  option?.scrollIntoView({ block: "nearest" });
}

function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  for (const one of dialog.querySelectorAll("[role=option]")) {
    if (one.dataset.search) {
      one.hidden = !words.length;
      one.querySelector("[data-typed]").textContent = text;
    } else if (one.dataset.words !== undefined) {
      const found = one.dataset.words.toLowerCase();
      one.hidden = !words.every((word) => found.includes(word));
    }
  }
  // What was found for the earlier text stays in sight until the answer comes, but Enter must not open it.
  moved = false;
  select(options().find((one) => one.dataset.found === undefined));
  look(text);
}

/** Ask the hub for servers and tools, when the typing pauses. */
function look(text) {
  clearTimeout(typed);
  asking?.abort();
  asking = new AbortController();
  const { signal } = asking;
  typed = setTimeout(async () => {
    const entries = text.trim() ? await get(`/palette?q=${encodeURIComponent(text)}`, { signal }).catch(() => null) : [];
    if (entries && !signal.aborted) add(entries);
  }, text.trim() ? PAUSE : 0);
}

function add(entries) {
  const list = dialog.querySelector("[role=listbox]");
  for (const old of list.querySelectorAll("[data-found]")) old.remove();
  const last = list.querySelector("[data-search]");
  entries.forEach((entry, at) => {
    const made = document.getElementById("palette-found").content.cloneNode(true).firstElementChild;
    made.id = `palette-found-${at}`;
    made.dataset.url = entry.url;
    made.querySelector("span").textContent = entry.label;
    const use = made.querySelector("use");
    use.setAttribute("href", `${use.dataset.icons}#${entry.icon}`);
    list.insertBefore(made, last);
  });
  if (!moved || !options().some((one) => one.getAttribute("aria-selected") === "true")) select(options()[0]);
}

function go(option) {
  if (!option) return;
  const url = option.dataset.search ? option.dataset.search + encodeURIComponent(dialog.querySelector("input").value) : option.dataset.url;
  close();
  document.dispatchEvent(new CustomEvent("tabane:go", { detail: url }));
}

function move(step) {
  const all = options();
  const at = all.findIndex((one) => one.getAttribute("aria-selected") === "true");
  moved = true;
  select(all[(at + step + all.length) % all.length]);
}

export function start() {
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
        go(options().find((one) => one.getAttribute("aria-selected") === "true"));
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
