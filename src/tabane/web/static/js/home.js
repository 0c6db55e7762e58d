// Home: the search as somebody types, its results by the arrow keys, dialogs, and the first steps.

import { dialogs } from "./assistants.js";
import { get } from "./http.js";
import { showTimes } from "./text.js";

const PAUSE = 60;

export function mount(root) {
  const ends = [search(root), dialogs(root), steps(root)];
  return () => { for (const end of ends) end?.(); };
}

/** The first steps: files of posts are dropped here, and a page is opened in the reader. */
function steps(root) {
  const submitted = (event) => {
    if (!event.target.matches("[data-home-read]")) return;
    event.preventDefault();
    const url = event.target.elements.url.value.trim();
    if (url) document.dispatchEvent(new CustomEvent("tabane:go", { detail: `/reader?url=${encodeURIComponent(url)}` }));
  };
  root.addEventListener("submit", submitted);
  let end = null;
  let ended = false;
  if (root.querySelector("[data-post-drop]")) import("./post_drop.js").then(({ postDrop }) => { if (!ended) end = postDrop(root); });
  return () => { ended = true; root.removeEventListener("submit", submitted); end?.(); };
}

function search(root) {
  const form = root.querySelector("[data-search]");
  if (!form) return null;
  const input = form.querySelector("input");
  const results = root.querySelector("[data-results]");
  const state = root.querySelector("[data-state]");
  let timer = 0;
  let asked = null;
  let shown = "";

  /** Show what fits the text. Return whether that is shown. */
  async function find() {
    clearTimeout(timer);
    const query = input.value.trim();
    asked?.abort();
    history.replaceState(history.state, "", query ? `/?q=${encodeURIComponent(query)}` : "/");
    results.hidden = !query;
    state.hidden = Boolean(query);
    if (!query) { results.replaceChildren(); shown = ""; return false; }
    const mine = (asked = new AbortController());
    const text = await get(`/home/search?q=${encodeURIComponent(query)}`, { signal: mine.signal }).catch((error) => {
      if (error.name === "AbortError") return null;
      const told = document.createElement("p");
      told.className = "notice bad";
      told.textContent = error.message;
      return told;
    });
    if (text === null || mine.signal.aborted) return false;
    const at = places().indexOf(document.activeElement);
    if (typeof text === "string") results.innerHTML = text;
    else results.replaceChildren(text);
    showTimes(results);
    shown = query;
    // Whoever is among the results stays there.
    if (at > 0) (places()[at] ?? input).focus();
    return true;
  }

  const places = () => [input, ...results.querySelectorAll("[data-result]")];

  /** Open the first result for the text, never one that was found for an earlier text. */
  async function open() {
    const query = input.value.trim();
    if (shown !== query && !(await find())) return;
    if (input.value.trim() === query && root.isConnected) results.querySelector("[data-result]")?.click();
  }

  const typed = () => { clearTimeout(timer); timer = setTimeout(find, PAUSE); };
  const submitted = (event) => { event.preventDefault(); open(); };

  /** Move between the input and the results. */
  const pressed = (event) => {
    if (event.target !== input && !results.contains(event.target)) return;
    if (event.key === "Escape" && input.value) {
      event.preventDefault();
      input.value = "";
      input.focus();
      find();
      return;
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const all = places();
    const next = all[all.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    next.focus();
  };

  form.addEventListener("input", typed);
  form.addEventListener("submit", submitted);
  root.addEventListener("keydown", pressed);
  const before = new URLSearchParams(location.search).get("q");
  if (before) { input.value = before; find(); }
  return () => { clearTimeout(timer); asked?.abort(); };
}
