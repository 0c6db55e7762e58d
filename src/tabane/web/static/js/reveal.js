// Results come into view: [data-reveal] in what was swapped in is scrolled to, and gets the focus.

/** Show the result of a request that somebody made with a control. Where somebody types on, the focus stays. */
export function reveal({ target, sourceElement } = {}) {
  const place = document.getElementById(target?.id) ?? target;
  const shown = place?.isConnected ? (place.matches("[data-reveal]") ? place : place.querySelector("[data-reveal]")) : null;
  if (!shown) return;
  shown.style.scrollMarginTop = "64px";
  const box = shown.getBoundingClientRect();
  if (box.top < 56 || box.bottom > innerHeight) shown.scrollIntoView({ block: box.height < innerHeight - 64 ? "nearest" : "start" });
  const active = document.activeElement;
  const used = active === document.body || active === sourceElement || (sourceElement?.contains?.(active) && active.matches("button"));
  if (!used) return;
  if (!shown.matches("a, button, [tabindex]")) shown.tabIndex = -1;
  shown.focus({ preventScroll: true });
}
