"use strict";
// Every call to the server. A saved page carries its bundle instead, and asks nobody.
const Server = (() => {
  let bundle = null;

  function open() {
    const element = find("bundle");
    bundle = element ? JSON.parse(element.textContent) : null;
  }

  async function request(address, options = {}) {
    let response;
    try {
      response = await fetch(address, options);
    } catch (failure) {
      if (failure.name === "AbortError") throw failure;
      throw new Error("The server does not answer. Start `leastpath explore` again, then reload this page.");
    }
    const answer = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(answer.error || `The server answered ${response.status} without a reason.`);
    return answer;
  }

  const post = (address, body, signal) => request(address, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  });

  const upload = (file) => request(`api/upload?name=${encodeURIComponent(file.name)}`, {
    method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file,
  });

  return {
    open,
    upload,
    bundle: () => bundle,
    state: async () => (bundle ? { ...bundle.state, offline: true } : request("api/state")),
    result: async (key) => (bundle ? bundle.results[key] : request(`api/results/${encodeURIComponent(key)}`)),
    code: async () => (bundle ? { code: bundle.code || "This page was saved without its code." } : request("api/code")),
    choose: (choice) => post("api/choose", choice),
    explain: (method, stiffness) => post("api/explain", { method, stiffness }),
    task: (id, seen) => request(`api/tasks/${encodeURIComponent(id)}${seen ? `?seen=${encodeURIComponent(seen)}` : ""}`), // waits a little for news
    stop: (id) => post(`api/tasks/${encodeURIComponent(id)}/stop`, {}),
    remove: (removed, fill, signal) => post("api/remove", { removed, fill }, signal),
  };
})();
