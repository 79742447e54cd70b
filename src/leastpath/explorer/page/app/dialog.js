"use strict";
// The dialog with the code, the theme's button, and files that the browser keeps: the same on every page.
const Dialog = (() => {
  function saveFrom(address) {
    make("a", { href: address, download: true }).click();
  }

  /** `about` says what the page shows. */
  async function showCode(about) {
    try {
      const { code } = await Server.code(about);
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

  function download(blob, name) {
    const address = URL.createObjectURL(blob);
    make("a", { href: address, download: name.replace(/[^\p{L}\p{N}._-]+/gu, "-") }).click();
    window.setTimeout(() => URL.revokeObjectURL(address), 10000);
  }

  /** The buttons that save the page and its numbers; `about` is asked when one is pressed. */
  function connect(about, title) {
    find("export-html").addEventListener("click", () => saveFrom(`api/export.html?${Server.asking(about())}`));
    find("export-json").addEventListener("click", () => {
      if (Server.bundle()) download(new Blob([JSON.stringify(Arrays.inPlainNumbers(Server.bundle()))], { type: "application/json" }), `${title()}.json`);
      else saveFrom(`api/export.json?${Server.asking(about())}`);
    });
    find("export-code").addEventListener("click", () => showCode(about()));
  }

  const nameTheme = () => {
    find("theme").textContent = Theme.isDark() ? "Light" : "Dark";
    find("theme").setAttribute("aria-pressed", String(Theme.isDark()));
  };
  find("theme").addEventListener("click", Theme.toggle);
  Theme.watch(nameTheme);
  nameTheme();
  find("code-copy").addEventListener("click", copy);
  find("code-close").addEventListener("click", () => find("code-dialog").close());
  find("code-dialog").addEventListener("close", () => { find("code-copy").textContent = "Copy"; });
  return { connect, saveFrom, download };
})();
