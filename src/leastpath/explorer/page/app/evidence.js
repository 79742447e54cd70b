"use strict";
// Evidence: words first (headline, status, support), then the numbers; below, the same of all methods in a table.
const Evidence = (() => {
  const startName = () => {
    const { baselines, baseline } = Store.state;
    return baseline.map((name) => baselines.find((one) => one.name === name)?.label || name).join(", ");
  };

  function describe() {
    const { title, classes, target, output, score, baseline_score: start, version, kind, sentence } = Store.state;
    document.title = `${title} · leastpath explorer`;
    document.body.dataset.kind = kind;
    find("title").textContent = title;
    const label = classes.find(({ index }) => index === target)?.label;
    const scores = score === null ? "" : `${label ? `${label}: ` : ""}score ${number(score)}, ${number(start)} at the start (${startName()}). `;
    const sure = kind === "text" && output === "softmax" && start >= 0.8 && start >= 0.9 * score; // as `transformers.explain` says it
    const warning = sure ? "The start gives this class already, so that little is left to explain: choose another start of the path, or another class. " : "";
    find("prediction").textContent = `${scores}${warning}${sentence || ""}`;
    find("version").textContent = `leastpath ${version}`;
  }

  function tabs() {
    find("tabs").replaceChildren(...Store.results.map((result) => make("button", { type: "button", class: "tab",
      "aria-pressed": String(result === Store.selected), "data-key": result.key, click: () => Store.select(result.key) },
    make("i", { class: "dot", style: `background:${result.color}` }), result.name)));
  }

  function figure({ label, text, hint }) {
    return make("div", { title: hint || false }, make("dt", {}, label), make("dd", {}, text));
  }

  function words() {
    const result = Store.selected;
    for (const id of ["evidence", "walk", "compare", "removal", "numbers"]) find(id).hidden = !result;
    if (result && Store.state.offline && !Store.state.fills.length) find("removal").hidden = true; // nothing could be asked or read
    find("export-result").disabled = !result || result.tested === false;
    if (!result) return;
    find("headline").textContent = result.headline;
    const mark = { true: ["✓", "good"], false: ["!", "bad"], null: ["–", ""] }[String(result.trusted ?? null)];
    find("status").replaceChildren(make("span", { class: `badge ${mark[1]}`, "aria-hidden": "true" }, mark[0]),
      make("span", {}, `${result.stopped ? "Stopped early. " : ""}${result.status}`));
    find("figures").replaceChildren(...result.evidence.map(figure));
  }

  function table() {
    const names = new Map(Store.results.flatMap(({ evidence }) => evidence.map(({ name, label, hint }) => [name, { label, hint }])));
    const head = make("tr", {}, make("th", { scope: "col" }, "Method"), ...Array.from(names.values(), ({ label, hint }) => make("th", { scope: "col", title: hint || false }, label)), make("th", { scope: "col" }, "Status"));
    const rows = Store.results.map((result) => {
      const texts = Array.from(names.keys(), (name) => result.evidence.find((one) => one.name === name)?.text || "–");
      return make("tr", {}, make("th", { scope: "row" }, make("i", { class: "dot", style: `background:${result.color}` }), result.name),
        ...texts.map((text) => make("td", { class: "figure" }, text)), make("td", { class: "words" }, result.status));
    });
    find("evidence-table").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
  }

  Store.on("state", describe);
  Store.on("results selected", tabs);
  Store.on("results", table);
  Store.on("selected", words);
  return { startName };
})();
