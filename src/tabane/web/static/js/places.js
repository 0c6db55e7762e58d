// The place of a person on each page of the history: how far it is scrolled, and how much of its list is loaded.

const KEY = "tabane.places";
const MOST = 50;
const PATIENCE = 4000;
const MORE = "[hx-trigger*='intersect once']";

const main = () => document.getElementById("main");
let current = "";
let parts = 0;
let end = null;

/** The browser would scroll before the page is there. */
history.scrollRestoration = "manual";

function all() {
  try {
    return JSON.parse(sessionStorage.getItem(KEY)) ?? {};
  } catch {
    return {};
  }
}

/** Return the state of a new entry of the history. */
export function entry() {
  return { htmx: true, place: `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}` };
}

/** A page is shown: its place is that of the current entry of the history. */
export function begin() {
  if (!history.state?.place) history.replaceState({ ...history.state, ...entry() }, "");
  current = history.state.place;
  parts = 0;
}

/** Return where the person is now. */
export function here() {
  return { y: scrollY, height: document.documentElement.scrollHeight, parts };
}

/** Remember the place of the page that is shown; `to` is where a person goes from here. */
export function leave(to = "") {
  if (!current || end) return;
  const places = all();
  delete places[current];
  places[current] = { ...here(), to };
  try {
    sessionStorage.setItem(KEY, JSON.stringify(Object.fromEntries(Object.entries(places).slice(-MOST))));
  } catch { /* the storage is full: the way back leads to the top of the page */ }
}

/** Return what is remembered of the current entry of the history, or null. */
export function remembered() {
  return all()[history.state?.place] ?? null;
}

/**
 * Go to a place of the page that was just shown, once the parts of its list are there again. Until then the page is
 * as high as it was. Whoever scrolls meanwhile goes where they want.
 */
export function restore(place) {
  end?.();
  if (!place || !(place.y || place.parts)) {
    scrollTo(0, 0);
    focus(place);
    return;
  }
  const whole = main();
  const stop = new AbortController();
  const { signal } = stop;
  const finish = (scroll = true) => {
    if (signal.aborted) return;
    stop.abort();
    clearTimeout(timer);
    end = null;
    whole.style.minHeight = "";
    if (!scroll) return;
    scrollTo(0, place.y);
    focus(place);
  };
  const step = () => {
    if (signal.aborted) return;
    const more = parts < place.parts ? whole.querySelector(MORE) : null;
    if (more) {
      if (!more.matches(".htmx-request")) htmx.trigger(more, "intersect", {}, false);
    } else if (bottom(whole) >= place.y + innerHeight) finish();
  };
  const timer = setTimeout(finish, PATIENCE);
  end = () => finish(false);
  whole.style.minHeight = `${place.height}px`;
  scrollTo(0, place.y);
  for (const by of ["htmx:after:swap", "tabane:part"]) document.addEventListener(by, () => requestAnimationFrame(step), { signal });
  for (const by of ["wheel", "touchmove", "keydown"]) addEventListener(by, () => finish(false), { signal, passive: true });
  step();
}

/** Return where the content ends, whatever the height of its frame is. */
function bottom(whole) {
  const content = whole.querySelector(".content") ?? whole;
  const below = document.documentElement.getBoundingClientRect().bottom - whole.getBoundingClientRect().bottom;
  return content.getBoundingClientRect().bottom + scrollY + below + parseFloat(getComputedStyle(whole).paddingBottom);
}

/** Focus the link that led away, so that the next key goes on from there. */
function focus(place) {
  if (!place?.to || (document.activeElement && document.activeElement !== document.body && document.activeElement !== main())) return;
  for (const link of main()?.querySelectorAll("a[href]") ?? []) {
    if (link.getAttribute("href") === place.to) return link.focus({ preventScroll: true });
  }
}

/** Tell that a part has come, which takes the place of the button: htmx tells that only to the button, which is gone. */
function arrived(button) {
  if (button.isConnected) requestAnimationFrame(() => arrived(button));
  else {
    parts += 1;
    document.dispatchEvent(new CustomEvent("tabane:part"));
  }
}

document.addEventListener("htmx:after:request", (event) => {
  const { sourceElement, response } = event.detail.ctx ?? {};
  if (sourceElement?.matches?.(MORE) && response?.status === 200) arrived(sourceElement);
});
addEventListener("pagehide", () => leave());
