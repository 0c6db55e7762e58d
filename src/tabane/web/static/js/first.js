// Runs before the first paint, so that the theme does not flash.
(() => {
  const theme = localStorage.getItem("tabane.theme");
  if (theme) document.documentElement.dataset.theme = theme;
  const lang = localStorage.getItem("tabane.lang");
  if (lang) document.documentElement.lang = lang;
})();
