// Reader: a URL that is typed, pages that were read, and copies of their text.

import { copying } from "./documents.js";
import * as live from "./live.js";

export function mount(root) {
  const ends = [copying(root)];
  root.querySelector("[data-reader-form]").addEventListener("submit", (event) => {
    event.preventDefault();
    const url = new FormData(event.target).get("url").trim();
    if (url) document.dispatchEvent(new CustomEvent("tabane:go", { detail: `/reader?url=${encodeURIComponent(url)}` }));
  });
  root.querySelector("[data-search-form]")?.addEventListener("submit", (event) => event.preventDefault());
  const reading = root.querySelector("[data-reading]");
  reading?.addEventListener("htmx:after:swap", () => {
    reading.setAttribute("aria-busy", "false");
    const shown = reading.querySelector(".article-title");
    if (shown) root.querySelector("[data-reading-status]").textContent = reading.dataset.ended;
  });
  const changed = () => {
    const shelf = root.querySelector("#shelf");
    if (shelf && shelf.querySelectorAll(".page-list").length < 2) shelf.dispatchEvent(new CustomEvent("list-changed"));
  };
  const other = () => changed();
  document.body.addEventListener("pages", other);
  ends.push(() => document.body.removeEventListener("pages", other), live.on("connected", changed));
  root.dataset.mounted = "";
  return () => ends.forEach((end) => end());
}
