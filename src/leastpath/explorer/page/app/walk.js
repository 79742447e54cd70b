"use strict";
// The scrubber. All frames are in memory: a step draws, and asks nobody.
const Walk = (() => {
  const KINDS = { image: Images, table: Tables, text: Texts };
  const SECONDS = 4; // from the baseline to the input
  let stage = null;
  let playing = null;

  const walkOf = () => Store.selected?.walk;

  function begin() {
    pause();
    find("frames").replaceChildren();
    stage = null;
  }

  function load() {
    pause();
    const walk = walkOf();
    const here = Boolean(walk);
    for (const id of ["walk-body", "walk-hint", "walk-png"]) find(id).hidden = !here;
    find("walk-words").textContent = Store.selected?.sentence_walk || (here ? "" : "This method has no path to walk along.");
    if (!here) return;
    stage ||= KINDS[Store.state.kind].walk(find("frames"));
    stage.load(Store.selected);
    find("scrubber").max = walk.positions.length - 1;
    for (const id of ["walk-chart", "cursor", "walk-png"]) find(id).hidden = !walk.scores; // a saved result knows its path alone
    if (walk.scores) Charts.walk(find("walk-chart"), walk);
    step();
  }

  function step() {
    const walk = walkOf();
    if (!walk || !stage) return;
    const k = Store.frame;
    stage.step(Store.selected, k);
    find("scrubber").value = k;
    const { l, r } = Charts.MARGIN;
    find("cursor").style.left = `calc(${l}px + (100% - ${l + r}px) * ${walk.positions[k]})`;
    const parts = [["way", percent(walk.positions[k])]];
    if (walk.scores) {
      parts.push(["score", number(walk.scores[k])], ["‖∇f‖", number(walk.gradient_norms[k])],
        ["attributed so far", `${number(walk.attributed[k])} of a change of ${number(walk.scores[walk.scores.length - 1] - walk.scores[0])}`]);
    }
    const readout = find("readout");
    if (readout.childElementCount !== parts.length) {
      readout.replaceChildren(...parts.map(([name]) => make("div", {}, make("dt", {}, name), make("dd"))));
    }
    parts.forEach(([, text], i) => { readout.children[i].lastChild.textContent = text; });
    const said = walk.scores ? `, score ${number(walk.scores[k])}, attributed so far ${number(walk.attributed[k])}` : "";
    find("scrubber").setAttribute("aria-valuetext", `step ${k + 1} of ${walk.positions.length}${said}`);
  }

  // ---- playing -------------------------------------------------------------------------------------------------------

  function pause() {
    if (playing) window.cancelAnimationFrame(playing);
    playing = null;
    find("play").textContent = "▶";
    find("play").setAttribute("aria-label", "Play the walk");
  }

  function play() {
    if (playing) return pause();
    if (!walkOf()) return undefined;
    const last = walkOf().positions.length - 1;
    const from = Store.frame >= last ? 0 : Store.frame;
    const began = performance.now();
    const tick = (now) => {
      const frame = Math.floor(from + (Math.max(0, now - began) / 1000 / SECONDS) * last);
      if (frame !== Store.frame) Store.setFrame(frame);
      if (frame >= last) return pause();
      playing = window.requestAnimationFrame(tick);
      return undefined;
    };
    find("play").textContent = "❚❚";
    find("play").setAttribute("aria-label", "Pause the walk");
    playing = window.requestAnimationFrame(tick);
    return undefined;
  }

  // ---- hands -----------------------------------------------------------------------------------------------------------

  function scrubTo(frame) {
    pause();
    Store.setFrame(frame);
  }

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || find("code-dialog").open) return;
    const { tagName, type } = event.target;
    if (["SELECT", "TEXTAREA"].includes(tagName) || (tagName === "INPUT" && type !== "checkbox")) {
      if (!(event.target.id === "scrubber" && event.key === " ")) return;
    }
    const jump = event.shiftKey ? 5 : 1;
    if (event.key === "ArrowRight") scrubTo(Store.frame + jump);
    else if (event.key === "ArrowLeft") scrubTo(Store.frame - jump);
    else if (event.key === " " && !["BUTTON", "SUMMARY", "INPUT"].includes(event.target.id === "scrubber" ? "" : tagName)) play();
    else return;
    event.preventDefault();
  }

  /** The step whose position is nearest to a place on the chart. */
  function scrubToPlace(event) {
    if (event.type === "pointermove" && !(event.buttons & 1)) return;
    const box = find("walk-chart").getBoundingClientRect();
    const { l, r } = Charts.MARGIN;
    const place = (event.clientX - box.left - l) / (box.width - l - r);
    const distances = walkOf().positions.map((position) => Math.abs(position - place));
    scrubTo(distances.indexOf(Math.min(...distances)));
  }

  find("scrubber").addEventListener("input", (event) => scrubTo(Number(event.target.value)));
  find("play").addEventListener("click", play);
  find("walk-chart").addEventListener("pointerdown", scrubToPlace);
  find("walk-chart").addEventListener("pointermove", scrubToPlace);
  document.addEventListener("keydown", onKey);
  Store.on("state", begin);
  Store.on("selected theme", load);
  Store.on("view", () => { if (Store.state.kind === "text") load(); });
  Store.on("frame", step);
  return { kind: () => KINDS[Store.state.kind], load, step };
})();
