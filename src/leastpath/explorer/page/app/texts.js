"use strict";
// How tokens are walked, mapped and edited; the same functions as images.js.
const Texts = (() => {
  const tokens = () => Store.state.features;
  const clean = (name) => name.replace(/^(##|Ġ|▁)/, "") || name;

  /** What is shown as one: single tokens, or all sub-words of a word: [{name, members, special}]. */
  function groups() {
    const all = [];
    tokens().forEach(({ name, word, special }, i) => {
      const last = all[all.length - 1];
      const joined = Store.view.merge && !special && last && !last.special && word !== null && word !== undefined && last.word === word;
      if (joined) { last.members.push(i); last.name += clean(name); }
      else all.push({ name: special || !Store.view.merge ? name : clean(name), word, special, members: [i] });
    });
    return all;
  }

  const total = (values, members) => members.reduce((sum, i) => sum + values[i], 0);
  const strengths = (result) => Arrays.largest(groups().map(({ members }) => total(result.values.data, members)));

  function paint(element, share) {
    Object.assign(element.style, { background: Colors.css(share), color: Colors.ink(share) });
  }

  const span = ({ name, special }) => make("span", { class: special ? "token special" : "token" }, name);

  // ---- the walk ----------------------------------------------------------------------------------------------------

  function walk(host) {
    let shown = [];

    function load(result) {
      shown = groups().map((group) => ({ ...group, element: span(group) }));
      const { cumulative } = result.walk;
      const last = cumulative ? Arrays.row(cumulative, cumulative.shape[0] - 1) : [];
      result.cache.reached = !cumulative ? 0 : Arrays.largest(shown.map(({ members }) => total(last, members)));
      host.replaceChildren(make("p", { class: "tokens large" }, ...shown.map(({ element }) => element)),
        make("p", { class: "quiet" }, "Colour: attributed so far. The line under a token: how far it has moved from its baseline."));
    }

    function step(result, k) {
      const { frames, cumulative } = result.walk;
      const [moved, reached] = [Arrays.row(frames, k), cumulative ? Arrays.row(cumulative, k) : []];
      for (const { members, element } of shown) {
        paint(element, result.cache.reached > 0 ? total(reached, members) / result.cache.reached : 0);
        element.style.setProperty("--moved", `${100 * Math.max(0, Math.min(1, total(moved, members) / members.length))}%`);
      }
    }

    return { load, step };
  }

  // ---- a map in the comparison ----------------------------------------------------------------------------------------

  function map(result) {
    const element = make("p", { class: "tokens" });
    let shown = [];

    function draw(scale) {
      shown = groups().map((group, place) => {
        const token = span(group);
        const value = total(result.values.data, group.members);
        token.addEventListener("pointerenter", () => Compare.point({ group: place }));
        token.addEventListener("pointerleave", () => Compare.point(null));
        token.title = number(value, true);
        paint(token, scale > 0 ? value / scale : 0);
        return { ...group, token, value };
      });
      element.replaceChildren(...shown.map(({ token }) => token));
    }

    function point(place) {
      shown.forEach(({ token }, i) => token.classList.toggle("pointed", place?.group === i));
      return place ? `${shown[place.group].name}: ${number(shown[place.group].value, true)}` : "";
    }

    return { element, draw, point, save: () => Pictures.save(drawn(result), `${Store.state.title}-${result.name}`) };
  }

  /** The coloured tokens as a picture, for the PNG. */
  function drawn(result) {
    const [width, line, font] = [720, 30, "16px sans-serif"];
    const context = make("canvas").getContext("2d");
    context.font = font;
    let [x, y] = [12, 44];
    const placed = groups().map(({ name, members }) => {
      const size = context.measureText(name).width + 10;
      if (x + size > width - 12) [x, y] = [12, y + line];
      const box = { name, members, x, y, size };
      x += size + 4;
      return box;
    });
    const canvas = make("canvas", { width, height: y + line + 12 });
    const target = canvas.getContext("2d");
    const scale = strengths(result) || 1;
    target.fillStyle = Colors.variable("--panel");
    target.fillRect(0, 0, width, canvas.height);
    target.font = font;
    target.fillStyle = Colors.variable("--ink");
    target.fillText(result.name, 12, 26);
    for (const { name, members, x: left, y: top, size } of placed) {
      const share = total(result.values.data, members) / scale;
      target.fillStyle = Colors.css(share);
      target.fillRect(left, top, size, line - 6);
      target.fillStyle = Colors.ink(share);
      target.fillText(name, left + 5, top + 17);
    }
    return canvas;
  }

  // ---- removal ---------------------------------------------------------------------------------------------------------

  const ranked = (result) => result.order.map((i) => [i]);

  function editor(host, mask, changed) {
    const seen = make("p", { class: "quiet seen" });
    const words = make("div", { class: "chips words", role: "group", "aria-label": "Words: press to remove" });
    host.replaceChildren(words, seen);

    function toggle(members) {
      const value = mask[members[0]] ? 0 : 1;
      members.forEach((i) => { mask[i] = value; });
      draw();
      changed();
    }

    // The buttons are only made anew when words are merged or split: the one that was pressed keeps the focus.
    let shown = [];
    let merged = null;
    function draw() {
      if (merged !== Store.view.merge) {
        merged = Store.view.merge;
        shown = groups().map(({ name, members, special }) => ({ members,
          chip: make("button", { type: "button", class: "chip", disabled: special, click: () => toggle(members) }, name) }));
        words.replaceChildren(...shown.map(({ chip }) => chip));
      }
      shown.forEach(({ members, chip }) => chip.setAttribute("aria-pressed", String(members.every((i) => mask[i]))));
      seen.textContent = "";
    }

    return { draw, show: (answer) => { seen.textContent = answer.text ? `The model reads: ${answer.text}` : ""; } };
  }

  return { walk, strengths, map, editor, ranked, size: () => tokens().length, maskShape: () => [tokens().length],
    hint: "Press a word to remove it, or remove what a method ranks first." };
})();
