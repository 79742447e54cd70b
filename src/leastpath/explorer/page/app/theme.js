"use strict";
// Light or dark: as the system says, until the reader says otherwise. Runs before the page is drawn.
const Theme = (() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const watchers = [];

  // A page opened from a file may have no storage.
  function remembered() {
    try { return window.localStorage.getItem("leastpath-theme"); } catch { return null; }
  }

  function apply(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    watchers.forEach((watch) => watch(dark));
  }

  const isDark = () => document.documentElement.dataset.theme === "dark";

  function toggle() {
    apply(!isDark());
    try { window.localStorage.setItem("leastpath-theme", isDark() ? "dark" : "light"); } catch { /* see above */ }
  }

  apply(remembered() ? remembered() === "dark" : system.matches);
  system.addEventListener("change", (event) => { if (!remembered()) apply(event.matches); });
  return { isDark, toggle, watch: (watcher) => watchers.push(watcher) };
})();
