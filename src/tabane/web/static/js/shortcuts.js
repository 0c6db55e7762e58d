// Keys: j and k move through the list of a page, g and a letter open a page, ? shows all of them.

const ROWS = "main :is(tbody > tr, .list > *, .posts > *, .search-hits > *, .doc-list > *, .page-list > *, .tool-rows > *, [data-row])";
const PATIENCE = 1200;

let waiting = 0;

/** Return the first link of each row that is shown. */
function links() {
  const found = new Set();
  for (const row of document.querySelectorAll(ROWS)) {
    const link = row.matches("a[href], summary") ? row : row.querySelector("a[href], summary, button");
    if (link?.checkVisibility()) found.add(link);
  }
  return [...found];
}

/** Move the focus to the next or the previous row. */
function move(step) {
  const all = links();
  if (!all.length) return;
  const active = document.activeElement;
  let at = all.indexOf(active);
  if (at < 0) {
    const row = active.closest?.(ROWS);
    at = row ? all.findIndex((one) => row.contains(one)) : all.findIndex((one) => one.getBoundingClientRect().top >= 56) - (step > 0 ? 1 : 0);
  }
  const next = all[Math.max(0, Math.min(all.length - 1, at + step))];
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
  // What is fixed at the top would lie over it.
  const { top, bottom } = next.getBoundingClientRect();
  if (top < 112 || bottom > innerHeight - 24) scrollBy(0, top < 112 ? top - 112 : bottom - innerHeight + 24);
}

export function show() {
  document.getElementById("shortcuts")?.showModal();
}

export function start() {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    // For some frames after a dialog was closed, the focus is still in it, unseen.
    const field = event.target.closest("input, textarea, select, [contenteditable]");
    if (field?.checkVisibility() || document.querySelector("dialog[open]")) return;
    const place = Date.now() < waiting ? document.querySelector(`#shortcuts [data-key="${CSS.escape(event.key)}"]`) : null;
    waiting = 0;
    if (place) {
      event.preventDefault();
      document.dispatchEvent(new CustomEvent("tabane:go", { detail: place.dataset.url }));
    } else if (event.key === "j" || event.key === "k") {
      event.preventDefault();
      move(event.key === "j" ? 1 : -1);
    } else if (event.key === "?") {
      event.preventDefault();
      show();
    } else if (event.key === "g") {
      waiting = Date.now() + PATIENCE;
    }
  });
}
