"use strict";
// How rows of a table are walked, mapped and edited; the same functions as images.js.
const Tables = (() => {
  const SHOWN = 14; // rows of a list before "show all"
  const features = () => Store.state.features;
  const byStrength = (values) => Array.from(values.keys()).sort((a, b) => Math.abs(values[b]) - Math.abs(values[a]));
  const strengths = (result) => Arrays.largest(result.values.data);

  /** A bar from the middle: orange to the right, blue to the left. */
  function setBar(bar, share) {
    const width = 50 * Math.min(1, Math.abs(share));
    Object.assign(bar.style, { left: `${share < 0 ? 50 - width : 50}%`, width: `${width}%`, background: Colors.css(0.67 * Math.sign(share)) });
  }

  function withMore(body, rows) {
    rows.forEach((row, i) => { row.hidden = i >= SHOWN; });
    body.append(...rows);
    if (rows.length <= SHOWN) return null;
    const more = make("button", { type: "button", class: "ghost more", click: () => { rows.forEach((row) => { row.hidden = false; }); more.remove(); } },
      `Show all ${rows.length}`);
    return more;
  }

  // ---- the walk ----------------------------------------------------------------------------------------------------

  function walk(host) {
    const body = make("tbody");
    const heads = ["Column", "Start", "Now", "Input", "Attributed so far"];
    const table = make("table", { class: "columns" }, make("thead", {}, make("tr", {}, ...heads.map((head) => make("th", { scope: "col" }, head)))), body);
    let cells = [];

    function load(result) {
      const { frames, cumulative } = result.walk;
      const first = Arrays.row(frames, 0);
      result.cache.reached ||= cumulative ? Arrays.largest(cumulative.data) : 0;
      body.replaceChildren();
      cells = byStrength(result.values.data).map((i) => {
        const { name, text, category } = features()[i];
        const cell = { i, category, now: make("td", { class: "figure" }), dot: make("i"), bar: make("i") };
        cell.row = make("tr", {}, make("th", { scope: "row" }, name), make("td", { class: "figure" }, category ? "–" : number(first[i])),
          cell.now, make("td", { class: "figure" }, text), make("td", {}, make("div", { class: "bar" }, cell.bar)));
        cell.now.append(make("span"), make("div", { class: "track" }, cell.dot));
        return cell;
      });
      const more = withMore(body, cells.map((cell) => cell.row));
      host.replaceChildren(make("div", { class: "scroll" }, table), ...(more ? [more] : []));
    }

    function step(result, k) {
      const { frames, cumulative } = result.walk;
      const [first, last] = [Arrays.row(frames, 0), Arrays.row(frames, frames.shape[0] - 1)];
      const [now, reached] = [Arrays.row(frames, k), cumulative ? Arrays.row(cumulative, k) : []];
      for (const { i, category, now: cell, dot, bar } of cells) {
        const way = last[i] - first[i];
        const share = way === 0 ? 0 : (now[i] - first[i]) / way;
        cell.firstChild.textContent = category ? percent(share) : number(now[i]);
        dot.style.left = `${100 * Math.max(0, Math.min(1, share))}%`;
        dot.parentElement.classList.toggle("still", way === 0);
        setBar(bar, result.cache.reached > 0 ? reached[i] / result.cache.reached : 0);
      }
    }

    return { load, step };
  }

  // ---- a map in the comparison ----------------------------------------------------------------------------------------

  function map(result) {
    const values = result.values.data;
    const list = make("ol", { class: "bars" });
    const bars = byStrength(values).map((i) => {
      const { name, text } = features()[i];
      const bar = make("i");
      const row = make("li", { pointerenter: () => Compare.point({ feature: i }), pointerleave: () => Compare.point(null) },
        make("span", { class: "name", title: `${name} = ${text}` }, make("b", {}, name), ` ${text}`),
        make("div", { class: "bar" }, bar), make("span", { class: "figure" }, number(values[i], true)));
      return { i, bar, row };
    });
    const more = withMore(list, bars.map(({ row }) => row));
    const element = make("div", {}, list, more);

    const draw = (scale) => bars.forEach(({ i, bar }) => setBar(bar, scale > 0 ? values[i] / scale : 0));

    function point(place) {
      bars.forEach(({ i, row }) => row.classList.toggle("pointed", place?.feature === i));
      return place ? `${features()[place.feature].name}: ${number(values[place.feature], true)}` : "";
    }

    return { element, draw, point, save: () => Pictures.save(drawn(result), `${Store.state.title}-${result.name}`) };
  }

  /** The bars as a picture, for the PNG. */
  function drawn(result) {
    const values = result.values.data;
    const order = byStrength(values).slice(0, 30);
    const canvas = make("canvas", { width: 640, height: 24 * order.length + 40 });
    const context = canvas.getContext("2d");
    const scale = strengths(result) || 1;
    context.fillStyle = Colors.variable("--panel");
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.font = "13px sans-serif";
    const write = (text, x, y) => { context.fillStyle = Colors.variable("--ink"); context.fillText(text, x, y, 220); };
    write(result.name, 10, 22);
    order.forEach((i, row) => {
      const [y, length] = [32 + 24 * row, (150 * values[i]) / scale];
      write(`${features()[i].name}  ${features()[i].text}`, 10, y + 16);
      context.fillStyle = Colors.css(0.67 * Math.sign(length));
      context.fillRect(Math.min(400, 400 + length), y + 3, Math.abs(length), 16);
      write(number(values[i], true), 565, y + 16);
    });
    return canvas;
  }

  // ---- removal ---------------------------------------------------------------------------------------------------------

  const ranked = (result) => result.order.map((i) => [i]);

  function editor(host, mask, changed) {
    const chips = features().map(({ name, text }, i) => make("button", { type: "button", class: "chip",
      click: () => { mask[i] = mask[i] ? 0 : 1; draw(); changed(); } }, make("b", {}, name), make("span", {}, ` ${text}`)));
    host.replaceChildren(make("div", { class: "chips", role: "group", "aria-label": "Columns: press to remove" }, ...chips));
    const draw = () => chips.forEach((chip, i) => chip.setAttribute("aria-pressed", String(Boolean(mask[i]))));
    return { draw, show: () => {} };
  }

  return { walk, strengths, map, editor, ranked, size: () => features().length, maskShape: () => [features().length],
    hint: "Press a column to remove it, or remove what a method ranks first." };
})();
