// Preferences, which this browser keeps.

/** Keep a choice: "lang" or "theme"; "" follows the browser and the system. */
export function choose(name, value) {
  const key = `tabane.${name}`;
  if (value) localStorage.setItem(key, value);
  else localStorage.removeItem(key);
  if (name === "lang") location.reload();
  else {
    if (value) document.documentElement.dataset.theme = value;
    else delete document.documentElement.dataset.theme;
    document.dispatchEvent(new CustomEvent("tabane:theme"));
  }
}

export function mount(root) {
  for (const input of root.querySelectorAll("[data-preference]")) {
    const name = input.dataset.preference;
    input.checked = input.value === (localStorage.getItem(`tabane.${name}`) || "");
    input.addEventListener("change", () => choose(name, input.value));
  }
}
