// Assistants: the dialogs that show what changes before it does.

/** Show a dialog that was loaded, and close it with its answer. */
export function dialogs(root) {
  const swapped = () => {
    const dialog = root.querySelector("dialog[data-show]");
    if (!dialog || dialog.open) return;
    dialog.removeAttribute("data-show");
    dialog.showModal();
    dialog.addEventListener("submit", () => dialog.close());
    dialog.querySelector("[data-confirmed]")?.addEventListener("click", () => dialog.close());
  };
  root.addEventListener("htmx:after:swap", swapped);
  return () => root.removeEventListener("htmx:after:swap", swapped);
}

export const mount = dialogs;
