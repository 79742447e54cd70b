"use strict";
// The start: the state, then the pictures; the charts when plotly.js has arrived.
(() => {
  window.addEventListener("load", () => { if (Store.selected) { Walk.load(); Removal.curves(); } });

  // Not earlier: a saved page may have its bundle after its scripts.
  document.addEventListener("DOMContentLoaded", () => {
    Server.open();
    Server.state()
      .then((state) => Choices.adopt(state))
      .catch((failure) => { find("title").textContent = "Nothing to show"; Errors.show(failure.message); });
  });
})();
