"use strict";
// What is shown, in one place. Panels listen to: state, results, selected, frame, view, theme.
const Store = (() => {
  const listeners = {};
  const store = {
    state: null,
    results: [], // in the order in which they were asked for
    selected: null,
    frame: 0,
    view: { mode: "patch", signed: true, scale: "auto", strength: 0.75, channel: "all", merge: false },
    on(events, listener) {
      for (const event of events.split(" ")) (listeners[event] ||= []).push(listener);
    },
    tell(event) {
      (listeners[event] || []).forEach((listener) => listener());
    },
  };

  store.setState = (state) => {
    state.input = Arrays.decode(state.input);
    Object.assign(store, { state, results: [], selected: null, frame: 0 });
    if (state.kind !== "image") store.view.mode = "pixel";
    store.view.channel = "all";
    store.tell("state");
    store.tell("results");
    store.tell("selected");
  };

  function decoded(result) {
    const walk = result.walk && {
      ...result.walk, frames: Arrays.decode(result.walk.frames), cumulative: Arrays.decode(result.walk.cumulative),
    };
    return { ...result, values: Arrays.decode(result.values), units: Arrays.decode(result.units), walk, cache: {} };
  }

  /** Adds a result, or puts it in the place of an earlier one with its key, and shows it. */
  store.addResult = (raw, show = true) => {
    const result = decoded(raw);
    const place = store.results.findIndex((other) => other.key === result.key);
    result.color = Colors.series(place >= 0 ? place : store.results.length);
    result.name = result.stiffness === null || result.stiffness === undefined ? result.label : `${result.label}, stiffness ${number(result.stiffness)}`;
    if (place >= 0) store.results[place] = result; else store.results.push(result);
    if (store.selected?.key === result.key) store.selected = result;
    for (const other of store.results) Object.assign(other, raw.verdicts?.[other.key]); // one more was tried: it counts for all
    store.tell("results");
    if (show || !store.selected) store.select(result.key);
    else store.tell("selected");
  };

  store.select = (key) => {
    const before = store.selected?.walk ? store.frame / (store.selected.walk.positions.length - 1) : 1;
    store.selected = store.results.find((result) => result.key === key) || null;
    const steps = store.selected?.walk ? store.selected.walk.positions.length - 1 : 0;
    store.frame = Math.round(before * steps);
    store.tell("selected");
  };

  store.setFrame = (frame) => {
    const last = (store.selected?.walk?.positions.length || 1) - 1;
    store.frame = Math.max(0, Math.min(last, frame));
    store.tell("frame");
  };

  store.setView = (change) => {
    Object.assign(store.view, change);
    store.tell("view");
  };

  Theme.watch(() => store.tell("theme"));
  return store;
})();
