// Documents: files that are dropped, live lists, and the editor.

import { confirm, notice } from "./app.js";
import { openFacets } from "./facets.js";
import { get } from "./http.js";
import * as live from "./live.js";
import { uploads } from "./uploads.js";

export function mount(root) {
  const again = sometimes(() => changed(root));
  const ends = [copying(root), uploads(root, again), openFacets(root), again.end];
  if (root.querySelector("#document-list")) ends.push(live.on("documents", again));
  if (root.querySelector("[data-document]")) ends.push(watching(root));
  if (root.querySelector("[data-editor]")) ends.push(editing(root));
  const form = root.querySelector("[data-search-form]");
  form?.addEventListener("submit", (event) => event.preventDefault());
  root.dataset.mounted = "";
  return () => ends.forEach((end) => end?.());
}

/** Return a function that calls `work` soon, and not more often than every 1.5 seconds. */
function sometimes(work) {
  let timer = 0;
  let last = 0;
  const later = () => {
    if (timer) return;
    timer = setTimeout(() => { timer = 0; last = Date.now(); work(); }, Math.max(150, last + 1500 - Date.now()));
  };
  later.end = () => clearTimeout(timer);
  return later;
}

/** Show the list again, unless more pages of it were loaded: those would be lost. */
function changed(root) {
  const list = root.querySelector("#document-list");
  if (list && list.querySelectorAll(".doc-list").length < 2) list.dispatchEvent(new CustomEvent("list-changed"));
}

/** Buttons that copy the texts of several elements. */
export function copying(root) {
  const click = async (event) => {
    const button = event.target.closest("[data-copy-parts]");
    if (!button) return;
    const parts = [...root.querySelectorAll(button.dataset.copyParts)].map((part) => part.value);
    await navigator.clipboard.writeText(parts.join(""));
    button.classList.add("copied");
    setTimeout(() => button.classList.remove("copied"), 1500);
  };
  root.addEventListener("click", click);
  return () => root.removeEventListener("click", click);
}

async function hashOf(path) {
  return (await get(`/documents/-/version?path=${encodeURIComponent(path)}`)).hash;
}

function watching(root) {
  const shown = root.querySelector("[data-document]");
  let told = false;
  return live.on("documents", async () => {
    if (told) return;
    const hash = await hashOf(shown.dataset.document).catch(() => shown.dataset.hash);
    if (hash !== shown.dataset.hash && !told) {
      told = true;
      notice(shown.dataset.changed, "ok");
    }
  });
}

// -- the editor

function editing(root) {
  const form = () => root.querySelector("[data-editor]");
  const text = () => root.querySelector("[data-text]");
  const field = (name) => form().elements[name]?.value ?? "";
  // What is typed before this script runs is a change too.
  let saved = `${form().elements.path?.defaultValue ?? ""}\n${text().defaultValue}`;
  const dirty = () => `${field("path")}\n${text().value}` !== saved;

  function mark() {
    const unsaved = root.querySelector("[data-unsaved]");
    if (unsaved) unsaved.hidden = !dirty();
  }
  const forget = () => {
    saved = `${field("path")}\n${text().value}`;
    form()?.dispatchEvent(new CustomEvent("tabane:saved", { bubbles: true }));
  };

  const keys = (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "s") {
      event.preventDefault();
      form().requestSubmit(root.querySelector("[data-save]"));
    }
  };
  const unload = (event) => { if (dirty()) event.preventDefault(); };
  const click = (event) => {
    const link = event.target.closest("a[href]");
    if (!link || link.target || !dirty() || event.ctrlKey || event.metaKey || link.getAttribute("href").startsWith("#")) return;
    event.preventDefault();
    event.stopPropagation();
    confirm(form().dataset.leave).then((agreed) => {
      if (!agreed) return;
      forget();
      document.dispatchEvent(new CustomEvent("tabane:go", { detail: link.pathname + link.search }));
    });
  };
  const after = (event) => {
    const { ctx } = event.detail;
    if (ctx?.sourceElement === form() && ctx.response?.status < 400) forget();
  };
  root.addEventListener("input", mark);
  document.addEventListener("keydown", keys);
  document.addEventListener("click", click, true);
  document.addEventListener("htmx:after:request", after);
  addEventListener("beforeunload", unload);

  const path = form().dataset.path;
  const off = path ? live.on("documents", async () => {
    const hash = await hashOf(path).catch(() => field("replaces"));
    const told = root.querySelector("[data-meanwhile]");
    if (told) told.hidden = hash === field("replaces");
  }) : null;

  return () => {
    off?.();
    root.removeEventListener("input", mark);
    document.removeEventListener("keydown", keys);
    document.removeEventListener("click", click, true);
    document.removeEventListener("htmx:after:request", after);
    removeEventListener("beforeunload", unload);
  };
}
