"use strict";
// What can be taken away: the page itself, its numbers, the code.
const Exports = (() => {
  function saveFrom(address) {
    make("a", { href: address, download: true }).click();
  }

  async function showCode() {
    try {
      const { code } = await Server.code();
      find("code-text").textContent = code;
      find("code-dialog").showModal();
    } catch (failure) {
      Errors.show(failure.message);
    }
  }

  async function copy() {
    try {
      await navigator.clipboard.writeText(find("code-text").textContent);
      speak("Copied.");
      find("code-copy").textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(find("code-text"));
      speak("Selected: copy it with the keyboard.");
    }
  }

  find("export-html").addEventListener("click", () => saveFrom("api/export.html"));
  find("export-json").addEventListener("click", () => {
    if (Server.bundle()) Pictures.download(new Blob([JSON.stringify(Arrays.inPlainNumbers(Server.bundle()))], { type: "application/json" }), `${Store.state.title}.json`);
    else saveFrom("api/export.json");
  });
  find("export-result").addEventListener("click", () => saveFrom(`api/results/${encodeURIComponent(Store.selected.key)}.safetensors`));
  find("walk-png").addEventListener("click", () => Charts.save(find("walk-chart"), `${Store.state.title}-walk-${Store.selected.name}`));
  find("curves-png").addEventListener("click", () => Charts.save(find("curves-chart"), `${Store.state.title}-removal`));
  find("export-code").addEventListener("click", showCode);
  find("code-copy").addEventListener("click", copy);
  find("code-close").addEventListener("click", () => find("code-dialog").close());
  find("code-dialog").addEventListener("close", () => { find("code-copy").textContent = "Copy"; });
  return {};
})();
