// Settings: the choice of a section, changes by others, and the focus where a row becomes a form.

import { headers } from "./http.js";

const go = (url) => document.dispatchEvent(new CustomEvent("tabane:go", { detail: url }));

export function mount(root) {
  let edited = "";
  let asked = 0;
  const row = (name) => root.querySelector(`#setting-${CSS.escape(name)}`);

  /** Show the setting that the address names: /settings#list_wait, or /settings?q=list_wait. */
  function find() {
    const name = location.hash.slice(1);
    const found = /^[a-z_]+$/.test(name) ? row(name) : root.querySelector(".setting.found");
    if (found) found.scrollIntoView({ block: "center" });
    else if (/^[a-z_]+$/.test(name)) go(`/settings?q=${name}`);
  }

  /** Focus the field of a new form, or the button of the row that was a form before. */
  function focus() {
    const field = root.querySelector(".setting.editing [data-focus]:not([data-focused])");
    if (field) {
      field.dataset.focused = "1";
      edited = field.closest(".setting").id;
      field.focus();
      field.select?.();
    } else if (edited && document.activeElement === document.body) {
      root.querySelector(`#${CSS.escape(edited)} :is([data-focus], .btn)`)?.focus();
    }
  }

  /** Show what somebody changed, also in the index. Forms stay as they are. */
  async function refresh() {
    const mine = ++asked;
    const url = location.pathname + location.search;
    const response = await fetch(url, { headers: headers({ "HX-Request": "true", "Tabane-Part": "1" }) }).catch(() => null);
    const text = response?.ok ? await response.text().catch(() => null) : null;
    if (text === null || mine !== asked || url !== location.pathname + location.search) return;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const replace = (old, made) => htmx.swap({ sourceElement: old, target: old, text: made.outerHTML, swap: "outerHTML" });
    for (const made of fresh.querySelectorAll(".setting")) {
      const old = root.querySelector(`#${CSS.escape(made.id)}`);
      const value = (one) => one.querySelector(".setting-value")?.textContent;
      if (!old || old.matches(".editing") || value(old) === value(made) || !root.isConnected) continue;
      await replace(old, made);
    }
    const index = root.querySelector(".settings-index");
    const made = fresh.querySelector(".settings-index");
    if (index && made && !index.contains(document.activeElement)) await replace(index, made);
  }

  const changed = (event) => { if (event.target.id === "settings-section" && event.target.value) go(event.target.value); };
  // An empty search is no part of the address.
  const cleaned = (event) => { if (!event.formData.get("q")) event.formData.delete("q"); };
  root.addEventListener("change", changed);
  root.querySelector("#settings-filter").addEventListener("formdata", cleaned);
  document.addEventListener("htmx:after:swap", focus);
  document.body.addEventListener("settings", refresh);
  find();
  return () => {
    document.removeEventListener("htmx:after:swap", focus);
    document.body.removeEventListener("settings", refresh);
  };
}
