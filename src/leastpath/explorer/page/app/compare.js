"use strict";
// The maps of all methods, in one view and, unless each has its own, on one scale.
const Compare = (() => {
  const FAR = 5; // times weaker than the strongest: hardly to be seen on its scale
  let cards = new Map(); // key -> {result, map, note, card}

  function build() {
    if (!Store.state) return;
    const before = cards;
    cards = new Map();
    for (const result of Store.results) {
      const kept = before.get(result.key);
      cards.set(result.key, kept?.result === result ? kept : card(result));
    }
    find("cards").replaceChildren(...Array.from(cards.values(), ({ card: element }) => element));
    draw();
  }

  function card(result) {
    const map = Walk.kind().map(result);
    const note = make("p", { class: "note" });
    const support = result.evidence.find(({ name }) => name === "support");
    const head = make("button", { type: "button", class: "card-head", title: "Show this explanation above", click: () => Store.select(result.key) },
      make("i", { class: "dot", style: `background:${result.color}` }), make("span", {}, result.name));
    const save = make("button", { type: "button", class: "ghost", title: "Save as PNG", "aria-label": `Save as PNG: ${result.name}`, click: () => map.save() }, "PNG");
    const element = make("article", { class: "card", "aria-label": result.name }, make("div", { class: "card-top" }, head, save), map.element, note);
    return { result, map, note, card: element, rest: support ? `support ${support.text}` : "" };
  }

  function draw() {
    if (!Store.state || !Store.results.length) return;
    const own = new Map(Store.results.map((result) => [result.key, Walk.kind().strengths(result)]));
    const strongest = Math.max(...own.values());
    const shared = isShared(Array.from(own.values()));
    for (const [key, { map }] of cards) map.draw(shared ? strongest : own.get(key));
    legend(strongest, shared);
    point(null);
  }

  /** One scale for all, unless the reader says otherwise or it would leave a map blank. */
  function isShared(strengths) {
    if (Store.view.scale !== "auto") return Store.view.scale === "shared";
    const seen = strengths.filter((strength) => strength > 0);
    return !seen.length || Math.max(...seen) <= FAR * Math.min(...seen);
  }

  function legend(scale, shared) {
    find("legend").parentElement.hidden = !Store.view.signed;
    find("legend-low").textContent = shared ? number(-scale) : "− strongest";
    find("legend-high").textContent = shared ? number(scale, true) : "+ strongest";
    find("legend-words").textContent = `speaks against · speaks for${shared ? "" : ": each map has its own scale"}`;
    const context = find("legend").getContext("2d");
    const { width, height } = find("legend");
    for (let x = 0; x < width; x++) {
      context.fillStyle = Colors.css((2 * x) / (width - 1) - 1);
      context.fillRect(x, 0, 1, height);
    }
  }

  function mark() {
    for (const [key, { card: element }] of cards) {
      element.classList.toggle("chosen", key === Store.selected?.key);
      element.querySelector(".card-head").setAttribute("aria-pressed", String(key === Store.selected?.key));
    }
  }

  /** The number under the pointer, in every card at the same place. */
  function point(place) {
    for (const { map, note, rest } of cards.values()) note.textContent = map.point(place) || rest;
  }

  function controls() {
    fillSelect(find("channel"), [["all", "all, summed"], ...Store.state.channels.map((name, i) => [i, name])], "all");
    find("channel-field").hidden = Store.state.channels.length < 2;
  }

  find("view").addEventListener("change", (event) => Store.setView({ mode: event.target.value }));
  find("signed").addEventListener("change", (event) => Store.setView({ signed: event.target.value === "signed" }));
  find("scale").addEventListener("change", (event) => Store.setView({ scale: event.target.value }));
  find("channel").addEventListener("change", (event) => Store.setView({ channel: event.target.value }));
  find("strength").addEventListener("input", (event) => Store.setView({ strength: Number(event.target.value) / 100 }));
  find("merge").addEventListener("change", (event) => Store.setView({ merge: event.target.checked }));
  Store.on("state", controls);
  Store.on("results", build);
  Store.on("view theme", draw);
  Store.on("selected results", mark);
  return { point };
})();
