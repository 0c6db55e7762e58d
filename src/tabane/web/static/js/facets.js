// Facets beside a list: open on a wide screen, folded above the list on a narrow one.

const WIDE = matchMedia("(min-width: 1100px)");

/** Open the facets of a page where there is room. Return what ends it. */
export function openFacets(root) {
  const facets = root.querySelector("[data-facets]");
  if (!facets) return () => {};
  const fit = () => { facets.open = WIDE.matches; };
  fit();
  WIDE.addEventListener("change", fit);
  return () => WIDE.removeEventListener("change", fit);
}
