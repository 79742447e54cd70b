"use strict";
// Every call to the server. A saved page carries its bundle instead, and asks nobody.
// The server keeps no choice: a page says with every request what it is about, so that two tabs do not mix.
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

  const asking = (about) => (about ? `about=${encodeURIComponent(JSON.stringify(about))}` : "");
  const taskAt = (id) => `api/tasks/${encodeURIComponent(id)}`;

  const upload = (file, about) => request(`api/upload?name=${encodeURIComponent(file.name)}&${asking(about)}`, {
    method: "POST", headers: { "Content-Type": "application/octet-stream" }, body: file,
  });

  return {
    open,
    upload,
    post,
    asking,
    bundle: () => bundle,
    state: async (about) => (bundle ? { ...bundle.state, offline: true } : request(`api/state?${asking(about)}`)),
    result: async (key) => (bundle ? bundle.results[key] : request(`api/results/${encodeURIComponent(key)}`)),
    code: async (about) => (bundle ? { code: bundle.code || "This page was saved without its code." } : request(`api/code?${asking(about)}`)),
    choose: (about, change) => post("api/choose", { about, change }),
    explain: (about, more = {}) => post("api/explain", { about, ...more }),
    task: (id, seen) => request(`${taskAt(id)}${seen ? `?seen=${encodeURIComponent(seen)}` : ""}`), // waits a little for news
    stop: (id) => post(`${taskAt(id)}/stop`, {}),
    leave: (id) => navigator.sendBeacon(`${taskAt(id)}/leave`, "{}"), // also while the page is being closed
    remove: (about, removed, fill, signal) => post("api/remove", { about, removed, fill }, signal),
  };
})();
