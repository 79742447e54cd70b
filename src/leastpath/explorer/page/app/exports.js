"use strict";
// What can be taken away: the page itself, its numbers, the code, a result, the charts.
(() => {
  Dialog.connect(() => Store.state.about, () => Store.state.title);
  find("export-result").addEventListener("click", () => Dialog.saveFrom(`api/results/${encodeURIComponent(Store.selected.key)}.safetensors`));
  find("walk-png").addEventListener("click", () => Charts.save(find("walk-chart"), `${Store.state.title}-walk-${Store.selected.name}`));
  find("curves-png").addEventListener("click", () => Charts.save(find("curves-chart"), `${Store.state.title}-removal`));
})();
