// Servers: filters, the log as it grows, trials, and the confirmation before something is saved.

import { get } from "./http.js";

const MOST_LINES = 5000;
const SOONEST = 1000;
const LATEST = 5000;
const TYPED = 180;

export function mount(root) {
  const ends = [filters(root), trials(root), dialogs(root), opened(root), corrected(root), listed(root)];
  const log = root.querySelector("[data-log]");
  if (log) ends.push(follow(log));
  return () => ends.forEach((end) => end());
}

function listen(root, type, listener) {
  root.addEventListener(type, listener);
  return () => root.removeEventListener(type, listener);
}

/** A list is fetched again a moment after something was typed into its filter. */
function filters(root) {
  let timer = 0;
  const typed = listen(root, "input", (event) => {
    const form = event.target.closest("#server-filter, #tool-filter");
    if (!form) return;
    const page = form.querySelector("[name=page]");
    if (page) page.value = "1";
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (form.id === "server-filter") written(form);
      root.querySelector(form.id === "tool-filter" ? "#server-tools" : "#server-rows")?.dispatchEvent(new CustomEvent("filtered"));
    }, TYPED);
  });
  const sent = listen(root, "submit", (event) => {
    if (event.target.matches("#server-filter, #tool-filter")) event.preventDefault();
  });
  return () => { clearTimeout(timer); typed(); sent(); };
}

/** Write the filter into the address, so that Back shows the same list. */
function written(form) {
  const given = new URLSearchParams([...new FormData(form)].filter(([name, value]) => value.trim() && name !== "page"));
  history.replaceState(history.state, "", `/servers${given.size ? `?${given}` : ""}`);
}

/** While a server is tried, its place says so, with the seconds that have passed. */
function trials(root) {
  let timer = 0;
  const stop = () => clearInterval(timer);
  const clicked = listen(root, "click", (event) => {
    const button = event.target.closest("[data-try]");
    const place = button && root.querySelector(button.dataset.try);
    if (!place) return;
    stop();
    place.replaceChildren(root.querySelector("#try-progress").content.cloneNode(true));
    const shown = place.querySelector("[data-seconds]");
    const began = Date.now();
    timer = setInterval(() => { shown.textContent = `${Math.round((Date.now() - began) / 1000)} s`; }, 1000);
  });
  const answered = listen(root, "htmx:after:request", (event) => {
    const source = event.detail.ctx?.sourceElement;
    if (!source?.matches?.("[data-try]")) return;
    stop();
    if (event.detail.ctx.response?.status !== 200) root.querySelector(source.dataset.try)?.replaceChildren();
  });
  return () => { stop(); clicked(); answered(); };
}

function dialogs(root) {
  return listen(root, "htmx:after:swap", () => {
    const dialog = root.querySelector("dialog[data-show]");
    if (dialog && !dialog.open) {
      dialog.removeAttribute("data-show");
      dialog.showModal();
      dialog.querySelector("[data-confirmed]")?.addEventListener("click", () => dialog.close());
    }
    const wrong = root.querySelector("#server-form [aria-invalid=true]");
    if (wrong && !wrong.dataset.seen) {
      wrong.dataset.seen = "1";
      wrong.focus();
    }
  });
}

/** A message beside a field goes away when the field is changed. */
function corrected(root) {
  return listen(root, "input", (event) => {
    const field = event.target.closest("#server-form .wrong");
    if (!field) return;
    field.classList.remove("wrong");
    field.querySelector("[aria-invalid]")?.removeAttribute("aria-invalid");
    field.querySelector(".field-error")?.replaceChildren();
  });
}

/** The parameters of a tool are fetched when it is opened. */
function opened(root) {
  const listener = (event) => {
    if (event.target.open) event.target.querySelector(":scope > .tool-body")?.dispatchEvent(new CustomEvent("opened"));
  };
  root.addEventListener("toggle", listener, true);
  return () => root.removeEventListener("toggle", listener, true);
}

/** The list of tools follows the catalog, unless somebody opened a tool or more of the list: that would be lost. */
function listed(root) {
  const list = root.querySelector("#server-tools");
  if (!list) return () => {};
  const changed = () => list.dispatchEvent(new CustomEvent("listed"));
  const kept = listen(root, "htmx:before:swap", (event) => {
    const { sourceElement, sourceEvent } = event.detail.ctx ?? {};
    if (sourceElement !== list || sourceEvent?.type !== "listed") return;
    if (list.querySelector("details[open]") || list.querySelectorAll(":scope > .card").length > 1) event.preventDefault();
  });
  document.body.addEventListener("catalog", changed);
  return () => { kept(); document.body.removeEventListener("catalog", changed); };
}

/** Add new lines to a log while it is shown, and stay at its end unless somebody scrolled away. */
function follow(log) {
  const lines = log.querySelector(".log-lines");
  const state = log.querySelector("[data-log-state]");
  const pause = log.querySelector("[data-log-pause]");
  const wrap = log.querySelector("[data-log-wrap]");
  const ended = new AbortController();
  let cursor = log.dataset.cursor;
  let timer = 0;
  let wait = SOONEST;
  const paused = () => pause.getAttribute("aria-pressed") === "true";
  const toEnd = () => { lines.scrollTop = lines.scrollHeight; };

  const add = (found) => {
    cursor = found.cursor;
    // A quiet server is asked less often.
    wait = found.lines.length ? SOONEST : Math.min(LATEST, wait * 1.5);
    if (!found.lines.length) return;
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 24;
    const all = lines.textContent.split("\n").slice(0, -1).concat(found.lines);
    if (all.length > MOST_LINES) lines.textContent = `${all.slice(-MOST_LINES).join("\n")}\n`;
    else lines.append(`${found.lines.join("\n")}\n`);
    log.querySelector("[data-log-empty]").hidden = true;
    if (found.missed) state.textContent = state.dataset.missed;
    if (atEnd) toEnd();
  };

  const look = async () => {
    try {
      if (!paused() && !document.hidden) add(await get(`${log.dataset.log}?after=${encodeURIComponent(cursor)}`, { signal: ended.signal }));
    } catch (error) {
      if (ended.signal.aborted || error.status === 401) return;
    }
    if (!ended.signal.aborted) timer = setTimeout(look, wait);
  };

  pause.addEventListener("click", () => {
    pause.setAttribute("aria-pressed", String(!paused()));
    state.textContent = paused() ? state.dataset.paused : state.dataset.following;
  });
  wrap.addEventListener("click", () => {
    const wrapped = wrap.getAttribute("aria-pressed") !== "true";
    wrap.setAttribute("aria-pressed", String(wrapped));
    lines.classList.toggle("unwrapped", !wrapped);
  });
  toEnd();
  timer = setTimeout(look, wait);
  return () => { clearTimeout(timer); ended.abort(); };
}
