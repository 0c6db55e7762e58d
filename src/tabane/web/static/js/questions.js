// The page of a question: its form, and the link that it asks to open.

import { fields } from "./form_fields.js";

export function mount(root) {
  // A form that came back with errors is another element: what is heard is heard above it.
  fields(root);
  const opened = (event) => {
    if (event.button > 1 || !event.target.closest("[data-opens]")) return;
    // The browser opens the link by itself; the server is told after it has.
    setTimeout(() => root.querySelector("#question-form")?.requestSubmit());
  };
  const swapped = () => root.querySelector("[aria-invalid=true]")?.focus();
  root.addEventListener("click", opened);
  root.addEventListener("auxclick", opened);
  document.addEventListener("htmx:after:swap", swapped);
  return () => {
    root.removeEventListener("click", opened);
    root.removeEventListener("auxclick", opened);
    document.removeEventListener("htmx:after:swap", swapped);
  };
}
