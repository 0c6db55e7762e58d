// The timeline of posts: its histogram, its filters, and the names that complete them.

import { histogram } from "./histogram.js";
import { get } from "./http.js";
import { completeNames } from "./names.js";
import { postDrop } from "./post_drop.js";

const PAUSE = 400;

function go(form) {
  const asked = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value.trim()) asked.append(name, value.trim());
  const url = asked.size ? `/posts?${asked}` : "/posts";
  if (url !== location.pathname + location.search) document.dispatchEvent(new CustomEvent("tabane:go", { detail: url }));
}

async function draw(form, figure) {
  const asked = new URLSearchParams();
  for (const name of ["q", "user", "tag", "type"]) if (form.elements[name].value.trim()) asked.set(name, form.elements[name].value.trim());
  const rows = await get(`${form.dataset.timeline}?${asked}`).catch(() => []);
  if (!figure.isConnected) return;
  const chart = histogram(figure, rows, (from, to) => {
    form.elements.to.value = to;
    go(form);
  });
  if (form.elements.to.value) chart.range("", form.elements.to.value);
}

export function mount(root) {
  const form = root.querySelector("#posts-form");
  if (!form) return postDrop(root);
  const endNames = completeNames(form);
  let timer = 0;
  draw(form, form.querySelector("[data-histogram]"));
  form.addEventListener("submit", (event) => { event.preventDefault(); go(form); });
  form.addEventListener("change", () => { clearTimeout(timer); timer = setTimeout(() => go(form), PAUSE); });
  return () => { clearTimeout(timer); endNames(); };
}
