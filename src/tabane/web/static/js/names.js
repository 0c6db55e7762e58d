// Completion of users and tags: the last name of a list is completed with those that begin like it.

import { get } from "./http.js";

const WAIT = 120;

/** Complete the inputs with `data-names` of a form. Returns a function that ends it. */
export function completeNames(form) {
  const ends = [...form.querySelectorAll("[data-names]")].filter((one) => one !== form).map((input) => {
    const list = input.list;
    let timer = 0;
    let asked = 0;
    const load = async () => {
      const cut = Math.max(input.value.lastIndexOf(","), input.value.lastIndexOf("、")) + 1;
      const before = input.value.slice(0, cut) + (cut ? " " : "");
      const mine = ++asked;
      const query = new URLSearchParams({ of: input.dataset.names, prefix: input.value.slice(cut).trim() });
      const rows = await get(`${form.dataset.names}?${query}`).catch(() => []);
      if (mine !== asked) return;
      list.replaceChildren(...rows.map(([name]) => Object.assign(document.createElement("option"), { value: before + name })));
    };
    const typed = () => { clearTimeout(timer); timer = setTimeout(load, WAIT); };
    input.addEventListener("input", typed);
    input.addEventListener("focus", typed, { once: true });
    return () => clearTimeout(timer);
  });
  return () => ends.forEach((end) => end());
}
