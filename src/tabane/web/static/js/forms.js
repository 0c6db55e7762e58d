// Forms of a page: where the focus goes when one comes back, or its result is there.

export function mount() {
  const swapped = () => {
    const wrong = document.querySelector("#main [aria-invalid=true]");
    if (wrong) wrong.focus();
    else if (document.querySelector("#main [data-result]")) {
      scrollTo(0, 0);
      document.getElementById("main").focus({ preventScroll: true });
    }
  };
  document.addEventListener("htmx:after:swap", swapped);
  return () => document.removeEventListener("htmx:after:swap", swapped);
}
