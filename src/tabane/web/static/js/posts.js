// Posts: the histogram, the filters of the timeline and the names that complete them.

import { openFacets } from "./facets.js";
import { histogram } from "./histogram.js";
import { get } from "./http.js";
import { completeNames } from "./names.js";

const PAUSE = 400;

const go = (url) => document.dispatchEvent(new CustomEvent("tabane:go", { detail: url }));

function filter(form) {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) asked.append(name, value.trim());
  const url = asked.size ? `/posts?${asked}` : "/posts";
  if (url !== location.pathname + location.search) go(url);
}

async function draw(figure, url, onselect) {
  const rows = await get(url).catch(() => []);
  return figure.isConnected ? histogram(figure, rows, onselect) : null;
}

async function drawTimeline(form) {
  const asked = new URLSearchParams();
  for (const name of ["q", "user", "tag", "type"]) if (form.elements[name].value.trim()) asked.set(name, form.elements[name].value.trim());
  const { from, to } = form.elements;
  const chart = await draw(form.querySelector("[data-histogram]"), `${form.dataset.timeline}?${asked}`, (first, last) => {
    [from.value, to.value] = [first, last];
    filter(form);
  });
  if (from.value || to.value) chart?.range(from.value, to.value);
}

export function mount(root) {
  root.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  const form = root.querySelector("#posts-form");
  const months = root.querySelector("[data-months]");
  if (months) draw(months.querySelector("[data-histogram]"), months.dataset.months, (from, to) => go(`/posts?from=${from}&to=${to}`));
  if (!form) return null;
  const endFacets = openFacets(root);
  const endNames = completeNames(form);
  let timer = 0;
  drawTimeline(form);
  form.addEventListener("submit", (event) => { event.preventDefault(); filter(form); });
  form.addEventListener("change", () => { clearTimeout(timer); timer = setTimeout(() => filter(form), PAUSE); });
  return () => { clearTimeout(timer); endNames(); endFacets(); };
}
