// Jobs: the kind that is chosen is part of the address.

export function mount(root) {
  const change = (event) => {
    const form = event.target.closest("[data-jobs-form]");
    if (!form) return;
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    document.dispatchEvent(new CustomEvent("tabane:go", { detail: asked.size ? `/jobs?${asked}` : "/jobs" }));
  };
  root.addEventListener("change", change);
  return () => root.removeEventListener("change", change);
}
