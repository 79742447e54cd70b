"use strict";
// How images are walked, mapped and edited. Tables and texts have files of their own with the same five functions:
// walk, strengths, map, editor, ranked.
const Images = (() => {
  const size = () => Store.state.shape.slice(-2);
  const grid = () => Store.state.units?.shape || [16, 16].map((cells, axis) => Math.min(cells, size()[axis]));

  /** The map of a result in the chosen view: {data, columns, side}. Kept, so that a change of strength costs nothing. */
  function field(result, { mode, channel }) {
    const kept = `${mode} ${channel}`;
    if (result.cache[kept]) return result.cache[kept];
    const [height, width] = size();
    let data = Pictures.plane(result.values, channel);
    let [columns, side] = [width, 1];
    if (mode === "smoothed") data = Pictures.blur(data, height, width, Math.max(height, width) / 56);
    if (mode === "patch") {
      [columns, side] = [grid()[1], Pictures.patchSide(height, width, grid())];
      data = Pictures.patchSums(data, height, width, grid());
    }
    return (result.cache[kept] = { data, columns, side });
  }

  const strengths = (result) => {
    const { data, side } = field(result, Store.view);
    return Arrays.largest(data, side > 1 ? 1 : 0.995);
  };

  function labelled(canvas, caption, extra) {
    const save = make("button", { type: "button", class: "ghost", title: "Save as PNG", "aria-label": `Save as PNG: ${caption}`,
      click: () => Pictures.save(canvas, `${Store.state.title}-${caption}`) }, "PNG");
    return make("figure", { class: "picture" }, canvas, make("figcaption", {}, make("span", {}, caption), extra || null, save));
  }

  // ---- the walk ----------------------------------------------------------------------------------------------------

  function walk(host) {
    const canvases = ["start", "input", "frame", "so-far"].map((id) => make("canvas", { id: `picture-${id}`, role: "img" }));
    const captions = [`Start: ${Evidence.startName()}`, "Input", "On the path", "Attributed so far"];
    host.replaceChildren(make("div", { class: "pictures" }, ...canvases.map((canvas, i) => labelled(canvas, captions[i]))));
    canvases.forEach((canvas, i) => canvas.setAttribute("aria-label", captions[i]));
    const [start, input, frame, soFar] = canvases;
    const [height, width] = size();
    Pictures.drawRGB(input, Store.state.input.data, height, width);

    function step(result, k) {
      const { frames, cumulative } = result.walk;
      const [, frameHeight, frameWidth] = frames.shape;
      Pictures.drawRGB(frame, Arrays.row(frames, k), frameHeight, frameWidth);
      if (!cumulative) return;
      const cells = { data: Arrays.row(cumulative, k), columns: cumulative.shape[2], side: Pictures.patchSide(height, width, cumulative.shape.slice(1)) };
      Pictures.drawMap(soFar, Store.state.input, cells, result.cache.reached, { signed: true, strength: 0.75 });
    }

    function load(result) {
      const { frames, cumulative } = result.walk;
      Pictures.drawRGB(start, Arrays.row(frames, 0), frames.shape[1], frames.shape[2]);
      soFar.parentElement.hidden = !cumulative;
      if (cumulative) result.cache.reached ||= Arrays.largest(Arrays.row(cumulative, cumulative.shape[0] - 1));
    }

    return { load, step };
  }

  // ---- a map in the comparison ----------------------------------------------------------------------------------------

  function map(result) {
    const canvas = make("canvas", { role: "img" });
    const mark = make("div", { class: "mark", hidden: true });
    const element = make("div", { class: "canvas-box" }, canvas, mark);
    const [height, width] = size();
    canvas.addEventListener("pointermove", (event) => Compare.point(pixelUnder(canvas, event)));
    canvas.addEventListener("pointerleave", () => Compare.point(null));

    function draw(scale) {
      Pictures.drawMap(canvas, Store.state.input, field(result, Store.view), scale, Store.view);
      const total = result.values.data.reduce((sum, value) => sum + value, 0);
      canvas.setAttribute("aria-label", `Map of ${result.name}: its values sum to ${number(total, true)}`);
    }

    function point(place) {
      mark.hidden = !place;
      if (!place) return "";
      const { data, columns, side } = field(result, Store.view);
      const [row, column] = [Math.floor(place.y / side), Math.floor(place.x / side)];
      Object.assign(mark.style, {
        left: `${(100 * column * side) / width}%`, top: `${(100 * row * side) / height}%`,
        width: `${(100 * Math.min(side, width - column * side)) / width}%`, height: `${(100 * Math.min(side, height - row * side)) / height}%`,
      });
      return `${number(data[row * columns + column], true)} at row ${place.y}, column ${place.x}`;
    }

    return { element, draw, point, save: () => Pictures.save(canvas, `${Store.state.title}-${result.name}`) };
  }

  function pixelUnder(canvas, event) {
    const box = canvas.getBoundingClientRect();
    const [height, width] = size();
    const x = Math.floor(((event.clientX - box.left) / box.width) * width);
    const y = Math.floor(((event.clientY - box.top) / box.height) * height);
    return { x: Math.max(0, Math.min(width - 1, x)), y: Math.max(0, Math.min(height - 1, y)) };
  }

  // ---- removal ---------------------------------------------------------------------------------------------------------

  /** The patches in the order of removal, each as the list of its pixels. */
  function ranked(result) {
    const [height, width] = size();
    const side = Pictures.patchSide(height, width, grid());
    const members = Array.from({ length: grid()[0] * grid()[1] }, () => []);
    for (let i = 0; i < height * width; i++) members[Math.floor(Math.floor(i / width) / side) * grid()[1] + Math.floor((i % width) / side)].push(i);
    return result.order.map((place) => members[place]);
  }

  function editor(host, mask, changed) {
    const canvas = make("canvas", { id: "editor-canvas", role: "img", "aria-label": "The input: paint on it to remove pixels" });
    host.replaceChildren(labelled(canvas, "What the model sees"));
    const [height, width] = size();

    // Until the server answers, removed pixels are hatched.
    function draw() {
      const bytes = Store.state.input.data.slice();
      for (let i = 0; i < mask.length; i++) {
        if (!mask[i]) continue;
        const shade = (Math.floor(i / width) + (i % width)) % 6 < 2 ? 150 : 110;
        bytes.fill(shade, 3 * i, 3 * i + 3);
      }
      Pictures.drawRGB(canvas, bytes, height, width);
    }

    function paint(event) {
      const place = pixelUnder(canvas, event);
      const radius = (Number(find("brush").value) / 224) * Math.max(height, width);
      const value = find("restore").checked ? 0 : 1;
      for (let y = Math.max(0, Math.floor(place.y - radius)); y <= Math.min(height - 1, place.y + radius); y++) {
        for (let x = Math.max(0, Math.floor(place.x - radius)); x <= Math.min(width - 1, place.x + radius); x++) {
          if ((x - place.x) ** 2 + (y - place.y) ** 2 <= radius * radius) mask[y * width + x] = value;
        }
      }
      draw();
      changed();
    }

    canvas.addEventListener("pointerdown", (event) => { canvas.setPointerCapture(event.pointerId); paint(event); });
    canvas.addEventListener("pointermove", (event) => { if (event.buttons & 1) paint(event); });
    return { draw, show: (answer) => { if (answer.picture) Pictures.drawRGB(canvas, Arrays.decode(answer.picture).data, ...answer.picture.shape.slice(0, 2)); } };
  }

  return { walk, strengths, map, editor, ranked, size: () => size()[0] * size()[1], maskShape: size,
    hint: "Paint on the picture, or remove what a method ranks first." };
})();
