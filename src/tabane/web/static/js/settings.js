// Settings: search among them, changes by others, and the focus where a row becomes a form.

import { headers } from "./http.js";

export function mount(root) {
  const search = root.querySelector("#settings-search");
  const changed = root.querySelector("#settings-changed");
  const none = root.querySelector("#settings-none");
  let edited = "";
  let asked = 0;

  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const group of root.querySelectorAll(".settings-group")) {
      let any = false;
      for (const row of group.querySelectorAll(".setting")) {
        const text = row.dataset.setting.toLowerCase();
        const fits = words.every((word) => text.includes(word)) && (!changed.checked || row.matches(".changed, .editing"));
        row.hidden = !fits;
        any ||= fits;
        shown += fits;
      }
      group.hidden = !any;
    }
    none.hidden = shown > 0;
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

  /** Show what somebody else changed. Forms stay as they are. */
  async function refresh() {
    const mine = ++asked;
    const response = await fetch("/settings", { headers: headers({ "HX-Request": "true" }) }).catch(() => null);
    const text = response?.ok ? await response.text().catch(() => null) : null;
    if (text === null || mine !== asked) return;
    const fresh = new DOMParser().parseFromString(text, "text/html");
    for (const row of fresh.querySelectorAll(".setting")) {
      const old = root.querySelector(`#${CSS.escape(row.id)}`);
      const value = (one) => one.querySelector(".setting-value")?.textContent;
      if (!old || old.matches(".editing") || value(old) === value(row) || !root.isConnected) continue;
      await htmx.swap({ sourceElement: old, target: old, text: row.outerHTML, swap: "outerHTML" });
    }
    filter();
  }

  const swapped = () => { filter(); focus(); };
  search.addEventListener("input", filter);
  changed.addEventListener("change", filter);
  document.addEventListener("htmx:after:swap", swapped);
  document.body.addEventListener("settings", refresh);
  filter();
  return () => {
    document.removeEventListener("htmx:after:swap", swapped);
    document.body.removeEventListener("settings", refresh);
  };
}
