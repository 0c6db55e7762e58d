// The pages of tools: search as it is typed, the form of a tool and its JSON, calls and their results.

import { confirm, notice } from "./app.js";
import { fields } from "./form_fields.js";
import { headers, send } from "./http.js";
import { enhance } from "./json_tree.js";
import { on } from "./live.js";
import { el, ms, number as shown, showTimes } from "./text.js";

const PAUSE = 150;
const KEPT = 20;

export function mount(root) {
  const ends = [search(root), calls(root), tabs(root)];
  root.addEventListener("click", format);
  enhance(root);
  bound(root);
  const watch = new MutationObserver((changes) => {
    if (!changes.some((change) => change.addedNodes.length)) return;
    enhance(root);
    bound(root);
  });
  watch.observe(root, { childList: true, subtree: true });
  return () => {
    watch.disconnect();
    root.removeEventListener("click", format);
    for (const end of ends) end?.();
  };
}

/** Give a long text a button that shows all of it at once. Until then, it scrolls. */
function bound(root) {
  for (const one of root.querySelectorAll("[data-bounded]")) {
    if (!one.offsetParent || one.dataset.bounded) continue;
    one.dataset.bounded = "seen";
    if (one.scrollHeight <= one.clientHeight + 1) continue;
    const button = el("button", { class: "btn small tool-all", type: "button" }, root.querySelector("[data-show-all]").content.textContent);
    button.addEventListener("click", () => { one.classList.add("all"); button.remove(); one.focus(); });
    one.after(button);
  }
}

/** Set the text of a field. Where all of it was selected, all of the new one is: what is typed next replaces it. */
function replaceText(field, text) {
  const whole = document.activeElement === field && field.selectionStart === 0 && field.selectionEnd === field.value.length;
  field.value = text;
  if (whole) field.select();
}

function later(work, pause = PAUSE) {
  let timer = 0;
  const made = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(work, pause, ...given);
  };
  made.cancel = () => clearTimeout(timer);
  return made;
}

/** Load a part of the page as HTML. */
async function part(url, options = {}) {
  const response = await fetch(url, { ...options, headers: headers({ "HX-Request": "true", "Tabane-Part": "1", ...options.headers }) });
  if (response.status === 401) {
    document.dispatchEvent(new CustomEvent("tabane:signed-out", { detail: (await response.json()).error }));
    return null;
  }
  return response;
}

// -- search -------------------------------------------------------------------------------------

function search(root) {
  const form = root.querySelector("[data-tool-search]");
  if (!form) return null;
  const found = root.querySelector("#tools-found");
  let asked = null;

  async function ask(keep) {
    asked?.abort();
    const mine = new AbortController();
    asked = mine;
    const given = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));
    const url = `/tools${given.size ? `?${given}` : ""}`;
    found.setAttribute("aria-busy", "true");
    try {
      const response = await part(url, { signal: mine.signal });
      if (!response || mine !== asked) return;
      if (!response.ok) { notice(textOf(await response.text()), "error"); return; }
      const text = await response.text();
      if (mine !== asked || !found.isConnected) return;
      await htmx.swap({ sourceElement: found, target: found, text, swap: keep ? "innerMorph" : "innerHTML" });
      if (!keep) history.replaceState(history.state, "", url);
    } catch (error) {
      if (error.name !== "AbortError") throw error;
    } finally {
      if (mine === asked) found.setAttribute("aria-busy", "false");
    }
  }

  const soon = later(() => ask(false));
  const changed = later(() => { if (!root.querySelector(".tool-more:not(:last-child)")) ask(true); }, 1000);
  form.addEventListener("input", soon);
  form.addEventListener("submit", (event) => { event.preventDefault(); soon.cancel(); ask(false); });
  document.body.addEventListener("catalog", changed);
  return () => {
    soon.cancel();
    changed.cancel();
    asked?.abort();
    document.body.removeEventListener("catalog", changed);
  };
}

function textOf(html) {
  return new DOMParser().parseFromString(html, "text/html").body.textContent.trim();
}

/** Show a text of a result as Markdown, or as it is. */
async function format(event) {
  const button = event.target.closest("[data-format]");
  if (!button) return;
  const block = button.closest(".tool-block");
  const plain = block.querySelector(".tool-text");
  const place = block.querySelector("[data-formatted]");
  const on = button.getAttribute("aria-pressed") !== "true";
  if (on && !place.childNodes.length) {
    const response = await part("/tools/-/markdown", { method: "POST", body: plain.textContent, headers: { "Content-Type": "text/plain" } });
    if (!response?.ok) return;
    await htmx.swap({ sourceElement: place, target: place, text: await response.text(), swap: "innerHTML" });
  }
  button.setAttribute("aria-pressed", String(on));
  place.hidden = !on;
  plain.hidden = on;
  for (const one of block.querySelectorAll(".tool-all")) one.hidden = on;
}

// -- the form and its JSON ------------------------------------------------------------------------

function calls(root) {
  const section = root.querySelector("[data-call]");
  if (!section) return null;
  const form = section.querySelector("[data-form]");
  const json = section.querySelector("#arguments");
  const wrong = section.querySelector("#arguments-error");
  const schema = JSON.parse(section.dataset.schema);
  const touched = new Set();
  let source = "form";
  let number = 0;

  function values() {
    const found = {};
    for (const [name, value] of new FormData(form)) (found[name] ??= []).push(value);
    return found;
  }

  function showErrors(errors, all) {
    for (const place of form.querySelectorAll("[data-error]")) {
      const text = all || touched.has(place.dataset.error) ? errors[place.dataset.error] || "" : "";
      place.textContent = text;
      place.hidden = !text;
      const input = form.querySelector(`[aria-describedby~="${CSS.escape(place.id)}"]`);
      if (text) input?.setAttribute("aria-invalid", "true");
      else input?.removeAttribute("aria-invalid");
    }
  }

  /** Bring the JSON up to date with the form. Return whether all of the form is right. */
  async function toJson(all = false) {
    const mine = ++number;
    const answer = await send("POST", "/tools/-/arguments", { schema, values: values() });
    if (mine !== number || source !== "form") return false;
    replaceText(json, answer.text);
    json.fromForm = json.value;
    wrong.hidden = true;
    showErrors(answer.errors, all);
    return Object.keys(answer.errors).length === 0;
  }

  /** Show the JSON in the form, if it can. */
  async function toForm() {
    const mine = ++number;
    const body = JSON.stringify({ schema, arguments: json.value });
    const response = await part("/tools/-/form", { method: "POST", body, headers: { "Content-Type": "application/json" } });
    if (!response || mine !== number || source !== "json") return;
    if (response.ok) {
      await htmx.swap({ sourceElement: form, target: form, text: await response.text(), swap: "innerHTML" });
      form.classList.remove("stale");
    } else {
      form.classList.add("stale");
    }
    const text = response.ok ? "" : (await response.json()).error;
    wrong.textContent = text;
    wrong.hidden = !text;
  }

  const formSoon = later(() => toJson().catch(() => null));
  const jsonSoon = later(() => toForm().catch(() => null), 300);

  function edited() {
    source = "form";
    form.classList.remove("stale");
    formSoon();
  }

  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", (event) => {
    const { name } = event.target;
    for (const one of form.querySelectorAll(`input[name="${CSS.escape(`e:${name}`)}"]`)) one.remove();
    edited();
  });
  form.addEventListener("change", (event) => {
    const { name } = event.target;
    touched.add(name);
    if (event.target.matches("[data-variant], [name^='i:']")) touched.add(name.slice(2));
    edited();
  });
  fields(form, edited);
  json.addEventListener("input", () => {
    source = "json";
    jsonSoon();
  });

  // -- calls ------------------------------------------------------------------------------------

  const run = section.querySelector("[data-run]");
  const cancel = section.querySelector("[data-cancel]");
  const clock = section.querySelector("[data-clock]");
  const result = section.querySelector("[data-result]");
  const past = calledBefore(root, section.dataset.tool, (given) => {
    json.value = given;
    source = "json";
    toForm().catch(() => null);
    run.focus();
  });
  // Few tools have an app: its host is loaded for those alone.
  const app = root.querySelector("[data-app]") && import("./app_host.js").then(({ apps }) => apps(root));
  let running = null;

  async function call() {
    if (running) return;
    formSoon.cancel();
    if (source === "form" && !(await toJson(true))) {
      form.querySelector('[aria-invalid="true"]')?.focus();
      return;
    }
    if (section.dataset.confirm && !(await confirm(section.dataset.confirm))) return;
    const mine = new AbortController();
    const given = json.value;
    const began = performance.now();
    const id = Array.from(crypto.getRandomValues(new Uint32Array(4)), (part) => part.toString(16)).join("");
    running = mine;
    state(true);
    const timer = setInterval(() => { clock.textContent = ms(performance.now() - began); }, 100);
    const heard = on("calls", (one) => { if (one.request === id && one.progress) progress.show(one.progress); });
    try {
      const body = new URLSearchParams(app ? { arguments: given, app: "true" } : { arguments: given });
      const response = await part(section.dataset.call, { method: "POST", body, signal: mine.signal, headers: { "Tabane-Request": id } });
      if (!response) return;
      await htmx.swap({ sourceElement: result, target: result, text: await response.text(), swap: "innerHTML" });
      const outcome = result.querySelector("[data-outcome]");
      (await app)?.show(given, result.querySelector("[data-app-result]")?.dataset.appResult);
      if (response.ok && outcome) past.add(given, outcome.dataset.outcome, Number(outcome.dataset.ms));
    } catch (error) {
      const canceled = error.name === "AbortError";
      result.replaceChildren(section.querySelector(canceled ? "template[data-canceled]" : "template[data-lost]").content.cloneNode(true));
      if (canceled) past.add(given, "canceled", performance.now() - began);
    } finally {
      heard();
      clearInterval(timer);
      running = null;
      state(false);
      reveal();
    }
  }

  /** Scroll to the result, unless it can be seen, and focus its heading for the keyboard and screen readers. */
  function reveal() {
    const shownResult = result.querySelector(".tool-result");
    if (!shownResult) return;
    shownResult.querySelector("h3").focus({ preventScroll: true });
    const { top, bottom } = shownResult.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) shownResult.scrollIntoView({ block: bottom - top < innerHeight / 2 ? "nearest" : "start" });
  }

  const progress = progressOf(section);
  const label = run.querySelector("[data-label]");
  const usual = label.textContent;

  function state(busy) {
    run.disabled = busy;
    label.textContent = busy ? run.dataset.busy : usual;
    cancel.hidden = clock.hidden = !busy;
    clock.textContent = "";
    progress.hide();
    result.setAttribute("aria-busy", String(busy));
    if (busy) cancel.focus();
    else if (document.activeElement === document.body || document.activeElement === cancel) run.focus();
  }

  result.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.matches("[data-again]")) run.click();
    else if (button?.matches("[data-copy-result]")) copyResult(button, result);
    else if (button?.matches("[data-save-result]")) saveResult(section.dataset.tool, rawOf(result));
  });
  run.addEventListener("click", () => call().catch((error) => notice(error.message, "error")));
  cancel.addEventListener("click", () => running?.abort());
  section.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run.click();
    }
  });
  section.querySelector("[data-copy-command]").addEventListener("click", async (event) => {
    const button = event.currentTarget;
    await navigator.clipboard.writeText(command(section.dataset.tool, json.value));
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  });
  // A text that was typed before this module was here, or before the page was loaded again, is kept.
  if (json.value !== (json.fromForm ?? json.defaultValue)) source = "json";
  (source === "json" ? toForm() : toJson()).catch(() => null);
  return () => {
    formSoon.cancel();
    jsonSoon.cancel();
    running?.abort();
    app?.then((shown) => shown.close());
  };
}

/** The bar of a call in progress: what the server says of it. */
function progressOf(section) {
  const place = section.querySelector("[data-progress]");
  const bar = place.querySelector("progress");
  const units = place.querySelector("template[data-units]").content.textContent;
  return {
    show({ done, total, message }) {
      if (place.hidden) {
        place.hidden = false;
        place.scrollIntoView({ block: "nearest" });
      }
      if (total) bar.value = Math.min(1, done / total);
      else bar.removeAttribute("value");
      const part = total ? ` (${Math.round((100 * done) / total)}%)` : "";
      const amount = total ? units.replace("#", shown(done)).replace("%", shown(total)) : shown(done);
      place.querySelector("[data-share]").textContent = amount + part;
      place.querySelector("[data-message]").textContent = message;
    },
    hide() {
      place.hidden = true;
      bar.removeAttribute("value");
      for (const one of place.querySelectorAll("[data-share], [data-message]")) one.textContent = "";
    },
  };
}

/** The whole result as JSON, as the hub sent it. */
function rawOf(result) {
  const place = result.querySelector("[data-raw]");
  return place?.querySelector(".tree")?.jsonText ?? place?.querySelector("pre")?.textContent ?? "";
}

/** Copy the texts of a result; one without texts is copied as JSON. */
async function copyResult(button, result) {
  const texts = [...result.querySelectorAll(".tool-text")].map((one) => one.textContent);
  const trees = [...result.querySelectorAll(".tool-block .tree")].map((one) => one.jsonText);
  await navigator.clipboard.writeText([...texts, ...trees].join("\n") || rawOf(result));
  button.classList.add("copied");
  setTimeout(() => button.classList.remove("copied"), 1500);
}

function saveResult(tool, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(JSON.parse(text), null, 2)], { type: "application/json" }));
  link.download = `${tool}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** The command that makes this call, for a POSIX shell. */
function command(tool, text) {
  let given = text.trim();
  try {
    given = JSON.stringify(JSON.parse(given));
  } catch {
    // It is copied as it was typed.
  }
  const name = /^[A-Za-z0-9_.-]+$/.test(tool) ? tool : quoted(tool);
  return given && given !== "{}" ? `tabane tools call ${name} --args ${quoted(given)}` : `tabane tools call ${name}`;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// -- calls of this tab ------------------------------------------------------------------------------

function calledBefore(root, tool, repeat) {
  const section = root.querySelector("[data-history]");
  const key = `tabane.calls.${tool}`;
  const list = section.querySelector("ul");
  const template = section.querySelector("template");

  function read() {
    try {
      return JSON.parse(sessionStorage.getItem(key)) || [];
    } catch {
      return [];
    }
  }

  function render() {
    const known = read();
    section.hidden = !known.length;
    list.replaceChildren(...known.map((one) => {
      const made = template.content.cloneNode(true).firstElementChild;
      for (const badge of made.querySelectorAll("[data-state]")) badge.hidden = badge.dataset.state !== one.outcome;
      const shown = made.querySelector("[data-arguments]");
      shown.title = one.given.slice(0, 1000);
      shown.textContent = one.given.replace(/\s+/g, " ").slice(0, 400); // cut to its line
      made.querySelector("[data-took]").textContent = ms(one.took);
      made.querySelector("time").dataset.when = one.at;
      made.querySelector("button").addEventListener("click", () => repeat(one.given));
      return made;
    }));
    showTimes(section);
  }

  section.querySelector("[data-clear-history]").addEventListener("click", () => {
    sessionStorage.removeItem(key);
    render();
  });
  render();
  return {
    add(given, outcome, took) {
      if (given.length > 20000) return;
      const known = [{ given, outcome, took, at: new Date().toISOString() }, ...read()].slice(0, KEPT);
      try {
        sessionStorage.setItem(key, JSON.stringify(known));
      } catch {
        sessionStorage.removeItem(key);
      }
      render();
    },
  };
}

// -- tabs ---------------------------------------------------------------------------------------

function tabs(root) {
  for (const list of root.querySelectorAll('[role="tablist"]')) {
    const all = [...list.querySelectorAll('[role="tab"]')];
    const choose = (chosen) => {
      for (const one of all) {
        const on = one === chosen;
        one.setAttribute("aria-selected", String(on));
        one.tabIndex = on ? 0 : -1;
        root.querySelector(`#${one.getAttribute("aria-controls")}`).hidden = !on;
      }
    };
    list.addEventListener("click", (event) => {
      const tab = event.target.closest('[role="tab"]');
      if (tab) choose(tab);
    });
    list.addEventListener("keydown", (event) => {
      const at = all.indexOf(event.target);
      const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
      if (at < 0 || next === undefined) return;
      event.preventDefault();
      const tab = all[(next + all.length) % all.length];
      choose(tab);
      tab.focus();
    });
  }
  return null;
}
