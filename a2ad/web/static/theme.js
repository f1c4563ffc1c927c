// Before the first paint, so that a chosen theme does not flash in the system's first.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("a2ad.theme");
  } catch {
    // storage may be forbidden: the system's theme then
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
