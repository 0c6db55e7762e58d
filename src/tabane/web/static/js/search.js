// Search as you type: by words at each key, by words and meaning on a pause, on Enter, or when a filter changes.

import { histogram } from "./histogram.js";
import { get } from "./http.js";
import { completeNames } from "./names.js";
import { showTimes } from "./text.js";

const PAUSE = 450;

export function mount(root) {
  const form = root.querySelector("#search-form");
  const box = form.elements.q;
  const results = root.querySelector("#search-results");
  const status = root.querySelector("#search-status");
  const hints = root.querySelector("#search-hints");
  const figure = form.querySelector("[data-histogram]");
  let running = null;
  let waiting = false;
  let timer = 0;
  let shown = "";
  let chart = null;

  function query({ dates = true } = {}) {
    const found = new URLSearchParams();
    for (const [name, value] of new FormData(form)) {
      if (value.trim() && (dates || (name !== "from" && name !== "to"))) found.append(name, value);
    }
    return found;
  }

  function remember(push) {
    const text = query().toString();
    const url = text ? `/search?${text}` : "/search";
    if (url === location.pathname + location.search) return;
    if (push) history.pushState({ htmx: true }, "", url);
    else history.replaceState({ htmx: true }, "", url);
  }

  /** One request at a time while typing: the newest text waits, those between are never sent. */
  async function ask(typing) {
    clearTimeout(timer);
    if (typing && running?.typing) { waiting = true; return; }
    running?.stop.abort();
    waiting = false;
    if (!box.value.trim()) {
      running = null;
      shown = "";
      results.replaceChildren(hints.content.cloneNode(true));
      status.textContent = "\u00a0";
      return;
    }
    const mine = { typing, stop: new AbortController() };
    running = mine;
    const asked = query();
    if (typing) asked.set("typing", "1");
    if (!typing) {
      results.setAttribute("aria-busy", "true");
      if (!results.querySelector(".search-found")) status.textContent = status.dataset.searching;
    }
    const began = performance.now();
    try {
      const text = await get(`${form.dataset.results}?${asked}`, { signal: mine.stop.signal });
      if (running !== mine) return;
      show(text);
      results.dataset.took = (performance.now() - began).toFixed(1);
      results.dataset.shown = `${typing ? "typing" : "whole"}:${asked.get("q")}`;
      if (!typing) narrow(asked, mine.stop.signal);
    } catch (error) {
      if (error.name === "AbortError" || running !== mine) return;
      status.textContent = `${status.dataset.failed} ${error.message}`;
    }
    running = null;
    results.setAttribute("aria-busy", "false");
    if (waiting) ask(true);
    else if (typing) timer = setTimeout(() => ask(false), PAUSE);
  }

  function show(text) {
    if (text === shown) return;
    const open = [...results.querySelectorAll("details.why[open]")].map((one) => one.closest("li").querySelector("a").pathname);
    shown = text;
    results.innerHTML = text;
    for (const one of results.querySelectorAll("details.why")) {
      if (open.includes(one.closest("li").querySelector("a").pathname)) one.open = true;
    }
    showTimes(results);
    status.textContent = results.querySelector("[data-status]")?.dataset.status ?? "\u00a0";
  }

  /** What the best hits consist of comes after them, since it takes a longer search. */
  async function narrow(asked, signal) {
    const place = results.querySelector("[data-facets]");
    if (!place) return;
    const text = await get(`${form.dataset.facets}?${asked}`, { signal }).catch(() => "");
    if (place.isConnected) place.innerHTML = text;
  }

  async function draw() {
    if (!figure) return;
    const asked = query({ dates: false });
    asked.delete("q");
    const rows = await get(`${form.dataset.timeline}?${asked}`).catch(() => []);
    if (!figure.isConnected) return;
    chart = histogram(figure, rows, (from, to) => {
      form.elements.from.value = from;
      form.elements.to.value = to;
      changed();
    });
    chart.range(form.elements.from.value, form.elements.to.value);
  }

  function changed() {
    form.elements.all.value = "";
    remember(false);
    chart?.range(form.elements.from?.value, form.elements.to?.value);
    ask(false);
  }

  function typed(event) {
    if (event.target !== box || event.isComposing) return;
    form.elements.all.value = "";
    remember(false);
    ask(true);
  }

  function picked(event) {
    const name = event.target.name;
    if (event.target === box) return;
    if (name === "in") {
      // Another kind has other filters and modes, so the page is made again around the same text.
      const asked = new URLSearchParams(box.value.trim() ? { q: box.value } : {});
      if (event.target.value) asked.set("in", event.target.value);
      document.dispatchEvent(new CustomEvent("tabane:go", { detail: `/search${asked.size ? `?${asked}` : ""}` }));
      return;
    }
    changed();
    if (["user", "tag", "type"].includes(name)) draw();
  }

  function submitted(event) {
    event.preventDefault();
    remember(true);
    ask(false);
  }

  function clicked(event) {
    if (event.target.closest("[data-all]")) {
      form.elements.all.value = "1";
      remember(false);
      ask(false);
    } else if (event.target.closest("[data-clear-filters]")) {
      for (const name of ["from", "to", "user", "tag", "type"]) form.elements[name].value = "";
      changed();
      draw();
    }
  }

  form.addEventListener("input", typed);
  box.addEventListener("compositionend", () => typed({ target: box }));
  form.addEventListener("change", picked);
  form.addEventListener("submit", submitted);
  root.addEventListener("click", clicked);
  const endNames = completeNames(form);
  draw();
  if (box.value.trim()) ask(false);
  if (document.activeElement === document.body || document.activeElement?.id === "main") {
    box.focus();
    box.setSelectionRange(box.value.length, box.value.length);
  }
  return () => {
    clearTimeout(timer);
    running?.stop.abort();
    running = null;
    waiting = false;
    endNames();
  };
}
