// Preferences, which this browser keeps.

export function mount(root) {
  for (const input of root.querySelectorAll("[data-preference]")) {
    const key = `tabane.${input.dataset.preference}`;
    input.checked = input.value === (localStorage.getItem(key) || "");
    input.addEventListener("change", () => {
      if (input.value) localStorage.setItem(key, input.value);
      else localStorage.removeItem(key);
      if (input.dataset.preference === "lang") location.reload();
      else {
        if (input.value) document.documentElement.dataset.theme = input.value;
        else delete document.documentElement.dataset.theme;
        document.dispatchEvent(new CustomEvent("tabane:theme"));
      }
    });
  }
}
