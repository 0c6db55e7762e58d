// Letters of calls that wait: the keys a and r, the focus after a decision, and how long each still waits.

import { lang } from "./text.js";

const SETTLED = 500;
let decided = null;

const letters = (root) => [...root.querySelectorAll("[data-letter]")];
const writes = (target) => target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");

export function mount(root) {
  const places = new Map();
  const ended = new AbortController();
  const { signal } = ended;

  /** Note where each letter is. One that has just come or moved takes no key: it may not be the one that was meant. */
  const look = () => {
    const now = performance.now();
    const here = new Map(letters(root).map((one) => [one.id, one.offsetTop]));
    for (const [id, top] of here) if (places.get(id)?.top !== top) places.set(id, { top, since: now });
    for (const id of places.keys()) if (!here.has(id)) places.delete(id);
  };

  const pressed = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.defaultPrevented) return;
    if (!["a", "r"].includes(event.key) || writes(event.target) || document.querySelector("dialog[open]")) return;
    look();
    const letter = document.activeElement?.closest?.("[data-letter]") ?? letters(root)[0];
    const place = letter && places.get(letter.id);
    if (!place || performance.now() - place.since < SETTLED) return;
    event.preventDefault();
    letter.querySelector(`[data-key="${event.key}"]:not(:disabled)`)?.click();
  };

  /** After a decision, the next letter has the focus: its Refuse, if that is what Enter should do. */
  const clicked = (event) => {
    const letter = event.target.closest?.("[data-decides]")?.closest("[data-letter]");
    if (!letter) return;
    const all = letters(root);
    const next = all[all.indexOf(letter) + 1] ?? all.find((one) => one !== letter);
    decided = { id: next?.id };
  };

  const focus = (letter, scroll) => {
    const refuse = letter.matches(".warned") && letter.querySelector('[data-key="r"]');
    (refuse || letter).focus({ preventScroll: !scroll });
    if (scroll) letter.scrollIntoView({ block: "start" });
  };

  const arrive = () => {
    if (signal.aborted) return;
    const next = decided?.id && document.getElementById(decided.id);
    if (next) focus(next, true);
    else if (letters(root)[0]?.matches(".warned")) focus(letters(root)[0], false);
    decided = null;
  };

  /** A text that is longer than its box can be opened. */
  const open = () => {
    for (const box of root.querySelectorAll(".approval-value.long, .approval-quote")) {
      box.classList.toggle("scrolls", box.scrollHeight > box.clientHeight + 1);
    }
  };

  const started = performance.now();
  const format = new Intl.NumberFormat(lang(), { minimumIntegerDigits: 2 });
  const tick = () => {
    for (const letter of letters(root)) {
      const shown = letter.querySelector("[data-countdown]");
      const due = Number(letter.querySelector("[data-countdown] time")?.dataset.when ?? shown?.dataset.due);
      if (!shown || !due) continue;
      shown.dataset.due = due;
      const left = Math.max(0, Math.round(due - Date.now() / 1000));
      const said = `${Math.floor(left / 60)}:${format.format(left % 60)}`;
      if (shown.textContent !== said) shown.textContent = said;
    }
  };

  document.addEventListener("keydown", pressed, { signal });
  root.addEventListener("click", clicked, { signal });
  document.addEventListener("htmx:after:swap", () => { look(); open(); tick(); }, { signal });
  look();
  open();
  tick();
  const timer = setInterval(tick, 1000);
  // The frame focuses the page first.
  setTimeout(arrive);
  return () => {
    clearInterval(timer);
    ended.abort();
  };
}
