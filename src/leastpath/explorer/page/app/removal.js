"use strict";
// Remove and see: a mask, edited by hand or by a method's ranking; the server answers with the score.
const Removal = (() => {
  let mask = new Uint8Array(0);
  let editor = null;
  let byRank = false; // the mask is exactly what the slider says
  let pending = null;

  const fill = () => find("fill").value;
  const share = () => Number(find("top").value) / 100;

  function begin() {
    const kind = Walk.kind();
    mask = new Uint8Array(kind.size());
    editor = null;
    byRank = false;
    find("top").value = 0;
    find("top-value").textContent = "0 %";
    fillSelect(find("fill"), Store.state.fills.map(({ name, label }) => [name, label || name]), Store.state.fills[0]?.name);
    find("removal-hint").textContent = kind.hint;
    const [first, last] = Store.state.rank === "signed" ? ["what speaks for it", "what speaks against it"] : ["the strongest", "the weakest"];
    find("curves-first").textContent = first;
    find("curves-last").textContent = last;
  }

  function load() {
    const chosen = find("top-method").value;
    fillSelect(find("top-method"), Store.results.map(({ key, name }) => [key, name]), chosen);
    if (!find("top-method").value) find("top-method").value = Store.selected?.key || "";
    if (!editor && Store.selected) {
      editor = Walk.kind().editor(find("editor"), mask, () => { byRank = false; changed(); });
      editor.draw();
      say(null);
    }
    curves();
  }

  const changed = () => { say(null); ask(); };

  function rank() {
    find("top-value").textContent = percent(share());
    const result = Store.results.find(({ key }) => key === find("top-method").value);
    if (!result) return;
    const units = (result.cache.ranked ||= Walk.kind().ranked(result));
    const count = Math.floor(share() * units.length + 0.5 + 1e-9);
    mask.fill(0);
    units.slice(0, count).forEach((members) => members.forEach((i) => { mask[i] = 1; }));
    byRank = share() > 0;
    editor.draw();
    changed();
    curves();
  }

  function clear() {
    find("top").value = 0;
    rank();
  }

  // ---- the score -------------------------------------------------------------------------------------------------------

  /** What the curves measure: the probability of the class, or the score where there are no classes. */
  const level = () => (Store.state.classes.length ? "probability" : "score");
  const levelHere = () => (Store.state.classes.length ? Store.state.classes.find(({ index }) => index === Store.state.target)?.probability : Store.state.score);

  /** Where nothing can be asked, the curve of this ranking still knows about the level at its shares. */
  function fromCurve() {
    const curve = byRank ? Store.results.find(({ key }) => key === find("top-method").value)?.curves?.[fill()] : null;
    if (!curve) return null;
    const known = levelHere() === undefined ? [] : [0];
    const [shares, levels] = [[...known, ...curve.shares], [...known.map(levelHere), ...curve.most]];
    const right = shares.findIndex((one) => one >= share());
    if (right < 1) return null;
    const part = (share() - shares[right - 1]) / (shares[right] - shares[right - 1]);
    return levels[right - 1] + part * (levels[right] - levels[right - 1]);
  }

  const ask = debounce(async () => {
    if (pending) pending.abort();
    if (!mask.includes(1)) { editor.draw(); return say(null); }
    if (Store.state.offline) return say(null, fromCurve());
    pending = new AbortController();
    try {
      const answer = await Server.remove(Store.state.about, Arrays.encodeBytes(mask, Walk.kind().maskShape()), fill(), pending.signal);
      editor.show(answer);
      say(answer);
    } catch (failure) {
      if (failure.name !== "AbortError") Errors.show(failure.message);
    }
    return undefined;
  }, 30);

  function say(answer, estimate = null) {
    if (!Store.state) return;
    const removed = mask.reduce((sum, one) => sum + one, 0) / mask.length;
    const words = [make("p", { class: "quiet" }, `${percent(removed)} removed`)];
    const scores = (name, before, after, rest) => make("p", { class: "score" }, make("span", {}, `${name} ${number(before)} → `), make("b", {}, after),
      make("span", {}, rest));
    const { score, offline } = Store.state;
    if (removed === 0) words.push(make("p", { class: "score" }, make("span", {}, "score "), make("b", {}, number(score)), make("span", {}, " with everything in place")));
    else if (answer) words.push(scores("score", score, number(answer.score), ` (${number(answer.score - score, true)})`));
    else if (estimate !== null) words.push(scores(level(), levelHere(), number(estimate), " (read from the curve)"));
    else if (offline) words.push(make("p", { class: "quiet" }, "This is a saved page: a new score needs the model. Start `leastpath explore` for it."));
    else words.push(scores("score", score, "…", ""));
    const classes = answer ? answer.classes : Store.state.classes.slice(0, 5);
    if ((answer || removed === 0) && classes.length) words.push(bars(classes));
    find("answer").replaceChildren(...words);
  }

  const bars = (classes) => make("ul", { class: "classes" }, ...classes.map(({ index, label, probability }) => make("li",
    { class: index === Store.state.target ? "target" : false }, make("span", { class: "name", title: label }, label),
    make("div", { class: "meter" }, make("i", { style: `width:${100 * probability}%` })), make("span", { class: "figure" }, number(probability)))));

  // ---- curves ------------------------------------------------------------------------------------------------------------

  function curves() {
    const results = Store.results.filter((result) => result.curves?.[fill()]);
    find("curves").hidden = !Store.results.some((result) => Object.keys(result.curves || {}).length);
    for (const id of ["curves-chart", "curves-png"]) find(id).hidden = !results.length;
    if (!results.length) {
      const measured = Store.state.fills.filter(({ name }) => Store.results.some((result) => result.curves?.[name])).map(({ label }) => label);
      find("supports").replaceChildren(make("li", { class: "quiet" }, `Curves and support are measured with these fills: ${measured.join(", ")}.`));
      return;
    }
    Charts.curves(find("curves-chart"), results, fill(), share(), level(), levelHere());
    const order = results.map((result) => ({ result, support: result.curves[fill()].support ?? 0 })).sort((a, b) => b.support - a.support);
    const top = Math.max(...order.map(({ support }) => Math.abs(support)), 1e-9);
    find("supports").replaceChildren(make("li", { class: "quiet" }, "Support: the area between the two curves of a method"), ...order.map(({ result, support }) => make("li", {},
      make("i", { class: "dot", style: `background:${result.color}` }), make("span", { class: "name" }, result.name),
      make("div", { class: "meter" }, make("i", { style: `width:${100 * Math.max(0, support) / top}%;background:${result.color}` })), make("span", { class: "figure" }, number(support)))));
  }

  find("top").addEventListener("input", rank);
  find("top-method").addEventListener("change", rank);
  find("clear").addEventListener("click", clear);
  find("fill").addEventListener("change", () => { changed(); curves(); });
  Store.on("state", begin);
  Store.on("results selected", load);
  Store.on("theme", curves);
  Store.on("view", () => { if (Store.state.kind === "text" && editor) { editor.draw(); changed(); } });
  return { curves };
})();
