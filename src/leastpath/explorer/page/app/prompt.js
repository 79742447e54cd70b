"use strict";
// A prompt, its answer, and what each token of the answer rests on.
const Prompt = (() => {
  const FIELDS = ["prompt", "continuation", "contrast", "groups", "method", "max_new_tokens", "chat"];
  const results = []; // in the order in which they were asked for
  let state = null;
  let result = null; // the one that is shown
  let row = null; // the token of the answer that was pressed; null: all of it

  const seen = (text) => text.replaceAll("\n", "⏎").trim() || "␣";
  const chosen = () => ({ ...result?.about, results: results.map(({ key }) => key) });
  const nats = (value) => `${number(value, true)} nats`;

  // ---- asking ----------------------------------------------------------------------------------------------------------

  function about() {
    const values = { max_new_tokens: Number(find("max_new_tokens").value), chat: find("chat").checked };
    return Object.fromEntries(FIELDS.map((name) => [name, name in values ? values[name] : find(name).value]));
  }

  function fill(wanted) {
    for (const name of FIELDS) {
      if (name === "chat") find(name).checked = wanted[name];
      else find(name).value = wanted[name];
    }
    describeMethod();
  }

  function describeMethod() {
    find("method-sentence").textContent = state.methods.find(({ name }) => name === find("method").value)?.sentence || "";
  }

  async function explain(wanted) {
    Errors.clear();
    Tasks.begin();
    await Tasks.run("Explanation", () => Server.explain(wanted), add);
  }

  function add(found) {
    const place = results.findIndex(({ key }) => key === found.key);
    if (place >= 0) results[place] = found; else results.push(found);
    select(found);
  }

  function select(found) {
    result = found;
    row = null;
    fill(found.about);
    show();
    Replace.load(found);
  }

  // ---- showing ---------------------------------------------------------------------------------------------------------

  /** What all of the answer, or the pressed token, gets from each feature and from each earlier token of the answer. */
  function values() {
    const n = result.values.length;
    return row === null ? { features: result.values, earlier: [] } : { features: result.matrix[row].slice(0, n), earlier: result.matrix[row].slice(n) };
  }

  function show() {
    for (const id of ["why", "replace"]) find(id).hidden = false;
    document.title = `${result.heading} · leastpath explorer`;
    find("title").textContent = result.about.prompt;
    const total = (tokens) => tokens.reduce((sum, { log_probability: log }) => sum + log, 0);
    const other = result.contrast.length ? `, of “${text(result.contrast)}” ${number(total(result.contrast))}` : "";
    find("prediction").textContent = `log p of “${text(result.continuation)}” ${number(total(result.continuation))}${other}; ${nats(result.change)} against the start. ${state.sentence || ""}`;
    find("heading").textContent = result.heading;
    find("headline").textContent = result.headline;
    const mark = { true: ["✓", "good"], false: ["!", "bad"], null: ["–", ""] }[String(result.trusted ?? null)];
    find("status").replaceChildren(make("span", { class: `badge ${mark[1]}`, "aria-hidden": "true" }, mark[0]), make("span", {}, result.status));
    find("figures").replaceChildren(...result.evidence.map(({ label, text: said, hint }) => make("div", { title: hint || false }, make("dt", {}, label), make("dd", {}, said))));
    const cut = (said) => (said.length > 48 ? `${said.slice(0, 46)}…` : said);
    find("starts").replaceChildren("Words start from: ", ...result.baselines.flatMap((said, k) => [k ? " · " : "", make("span", { title: said }, cut(said))]));
    tabs();
    words();
    answer();
    matrix();
  }

  const text = (tokens) => seen(tokens.map((token) => token.text).join(""));

  function tabs() {
    const shown = results.length > 1 ? results : [];
    find("tabs").replaceChildren(...shown.map((one) => make("button", { type: "button", class: "tab", "aria-pressed": String(one === result), title: one.about.prompt, click: () => select(one) },
      `${one.heading.replace("What speaks for ", "")} · ${one.label}`)));
  }

  function paint(element, share) {
    Object.assign(element.style, { background: Colors.css(share), color: Colors.ink(share) });
    return element;
  }

  /** The prompt in colours; behind it, for one token of the answer, the answer so far. */
  function words() {
    const { features, earlier } = values();
    const before = earlier.slice(0, row ?? 0);
    const strongest = Arrays.largest([...features, ...before]);
    const chip = (said, value, spread) => paint(make("span", { class: "token", title: `${seen(said)}: ${nats(value)}${Number.isFinite(spread) ? `, ± ${number(spread)} between starts` : ""}` }, seen(said)),
      strongest > 0 ? value / strongest : 0);
    const parts = result.segments.map(({ text: said, feature }) => (feature === null ? said.trim() && make("span", { class: "token special" }, said.trim())
      : chip(said, features[feature], row === null ? result.spread[feature] : null)));
    const answered = before.map((value, k) => chip(result.continuation[k].text, value));
    find("words").replaceChildren(...parts.filter(Boolean), ...(answered.length ? [make("span", { class: "token special" }, "→"), ...answered] : []));
    find("legend-low").textContent = number(-strongest);
    find("legend-high").textContent = number(strongest, true);
    const context = find("legend").getContext("2d");
    const { width, height } = find("legend");
    for (let x = 0; x < width; x++) {
      context.fillStyle = Colors.css((2 * x) / (width - 1) - 1);
      context.fillRect(x, 0, 1, height);
    }
    const best = features.indexOf(Math.max(...features));
    const first = result.segments.find(({ feature }) => feature === best)?.text || "";
    const what = row === null ? `“${text(result.continuation)}”${result.contrast.length ? ` rather than “${text(result.contrast)}”` : ""}` : `the token “${seen(result.continuation[row].text)}”`;
    find("row-sentence").textContent = `Most in the prompt for ${what}: “${seen(first)}”, ${nats(features[best])}.`;
  }

  /** The tokens of the answer as buttons, where each has a row of its own. */
  function answer() {
    const single = !result.matrix || result.continuation.length < 2;
    const button = (label, k, title) => make("button", { type: "button", class: "chip pick", disabled: single, "aria-pressed": String(row === k), title, click: () => { row = k; words(); answer(); matrix(); } }, label);
    const tokens = result.continuation.map(({ text: said, log_probability: log }, k) => button(seen(said), k, `probability ${number(Math.exp(log))}`));
    find("answer-tokens").replaceChildren(...(single ? [] : [button("all", null, "the whole answer")]), ...tokens);
    find("answer-label").textContent = single ? "Answer" : "Answer: press a token to see what it rests on";
  }

  function matrix() {
    find("all-rows").hidden = !result.matrix || result.continuation.length < 2;
    if (find("all-rows").hidden) return;
    const names = [...result.segments.filter(({ feature }) => feature !== null), ...result.continuation].map((part) => seen(part.text));
    const rows = [...result.continuation, ...result.contrast.map(({ text: said }) => ({ text: `not ${said}` }))];
    const strongest = Arrays.largest(result.matrix.flat());
    const cell = (value, name, of) => { const made = make("td", { title: `${name} → ${of}: ${nats(value)}` }); made.style.background = Colors.css(strongest > 0 ? value / strongest : 0); return made; };
    const head = make("tr", {}, make("th"), ...names.map((name) => make("th", { scope: "col" }, make("span", {}, name))));
    const body = result.matrix.map((line, k) => make("tr", { class: row === k ? "pointed" : false }, make("th", { scope: "row" }, seen(rows[k].text)), ...line.map((value, i) => cell(value, names[i], seen(rows[k].text)))));
    find("matrix").replaceChildren(make("thead", {}, head), make("tbody", {}, ...body));
  }

  // ---- the start -------------------------------------------------------------------------------------------------------

  async function begin() {
    Server.open();
    try {
      state = await Server.state();
      find("version").textContent = `leastpath ${state.version}`;
      find("title").textContent = state.title;
      fillSelect(find("groups"), state.groups.map((name) => [name, name]), state.about.groups);
      fillSelect(find("method"), state.methods.map(({ name, label }) => [name, label]), state.about.method);
      find("chat-field").hidden = !state.has_chat;
      fill(state.about);
      if (state.offline) disable();
      for (const key of state.results) add(await Server.result(key));
      if (!state.results.length && !state.offline) await explain(state.about);
    } catch (failure) {
      Errors.show(failure.message);
    }
  }

  function disable() {
    for (const id of ["choices", "export-html"]) find(id).hidden = true;
    find("offline-note").textContent = " · A saved page: colours and rows work without the model. To ask again, run `leastpath explore --prompt` with it.";
  }

  find("choices").addEventListener("submit", (event) => { event.preventDefault(); explain(about()); });
  find("prompt").addEventListener("keydown", (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); explain(about()); } });
  find("method").addEventListener("change", describeMethod);
  Dialog.connect(chosen, () => result?.heading || "prompt");
  Theme.watch(() => { if (result) show(); });
  document.addEventListener("DOMContentLoaded", begin);
  return { explain, seen, isOffline: () => Boolean(state?.offline), about: () => result.about };
})();
