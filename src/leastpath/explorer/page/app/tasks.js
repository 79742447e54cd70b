"use strict";
// Running computations: their progress, a stop button, and the server told when nobody waits any more.
const Tasks = (() => {
  const followed = new Set(); // tasks that this page waits for
  let generation = 0; // answers to earlier questions are dropped

  /** Another question is asked: what runs for the earlier one may end. */
  function begin() {
    followed.forEach(Server.leave);
    followed.clear();
    find("tasks").replaceChildren();
    return ++generation;
  }

  const isCurrent = (mine) => mine === generation;

  function entryOf(label) {
    const entry = { label, meter: make("progress", { max: 1, value: 0, "aria-label": label }), words: make("span", { class: "quiet" }, "starting"),
      stop: make("button", { type: "button" }, "Stop") };
    entry.element = make("li", {}, make("b", {}, label), entry.meter, entry.words, entry.stop);
    find("tasks").append(entry.element);
    return entry;
  }

  /** Follows a task that `start` begins; `show(result, isFirst)` gets what is found, early ones too. */
  async function run(label, start, show) {
    const mine = generation;
    const entry = entryOf(label);
    const begun = start();
    entry.stop.addEventListener("click", () => {
      entry.stop.disabled = true;
      begun.then(({ task }) => Server.stop(task)).catch((failure) => Errors.show(failure.message));
    });
    try {
      const { task } = await begun;
      if (isCurrent(mine)) await follow(task, entry, mine, show);
      else Server.leave(task);
    } catch (failure) {
      if (isCurrent(mine)) Errors.show(failure.message);
    } finally {
      entry.element.remove();
    }
  }

  async function follow(task, entry, mine, show) {
    let shown = null;
    followed.add(task);
    try {
      while (isCurrent(mine)) {
        const { state, done, sentence, result } = await Server.task(task, shown);
        if (!isCurrent(mine)) return;
        entry.meter.value = done;
        entry.words.textContent = sentence;
        if (state === "failed") throw new Error(sentence);
        const over = state !== "running";
        if (result && (over || shown !== result)) {
          const full = await Server.result(result);
          if (!isCurrent(mine)) return;
          show(full, shown !== result);
          shown = result;
          if (over) speak(`${full.label}: ${full.headline}`);
        }
        if (over && !result) Errors.show(`${entry.label}: ${sentence}.`);
        if (over) return;
        await new Promise((resume) => { window.setTimeout(resume, 50); });
      }
    } finally {
      followed.delete(task);
    }
  }

  window.addEventListener("pagehide", () => followed.forEach(Server.leave));
  return { begin, isCurrent, run };
})();
