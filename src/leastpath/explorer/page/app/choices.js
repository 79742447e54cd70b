"use strict";
// The switches: what is explained and how.
const Choices = (() => {
  const methodNamed = (name) => Store.state.methods.find((method) => method.name === name);
  const stiffness = () => 10 ** Number(find("stiffness").value);
  const labels = { softmax: "probability", log_softmax: "log probability", logit_margin: "margin over the others", sigmoid: "probability", raw: "raw output" };

  function fillAll() {
    const { samples, sample, classes, target, outputs, output, methods } = Store.state;
    fillSelect(find("sample"), samples.map(({ name }, i) => [i, name]), sample);
    find("sample-field").hidden = samples.length < 2;
    fillSelect(find("target"), classes.map(({ index, label, probability }) => [index, `${label} (${number(probability)})`]), target);
    find("target-field").hidden = classes.length === 0;
    fillSelect(find("output"), outputs.map((name) => [name, labels[name] || name]), output);
    find("output-field").hidden = outputs.length < 2;
    const chosen = find("method").value;
    fillSelect(find("method"), methods.map(({ name, label }) => [name, label]), methodNamed(chosen) ? chosen : methods[0]?.name);
    fillBaselines();
    describeMethod();
    if (Store.state.offline) disable();
  }

  function fillBaselines() {
    const { baselines, baseline } = Store.state;
    find("baseline-names").textContent = Evidence.startName();
    find("baseline-list").replaceChildren(...baselines.map(({ name, label }) => make("label", {},
      make("input", { type: "checkbox", value: name, checked: baseline.includes(name), change: chooseBaselines }), ` ${label}`)));
  }

  function chooseBaselines() {
    const names = Array.from(find("baseline-list").querySelectorAll("input:checked"), ({ value }) => value);
    if (names.length) choose({ baseline: names });
    else Errors.show("A path needs a start: choose at least one baseline.");
  }

  function describeMethod() {
    const method = methodNamed(find("method").value);
    if (!method) return;
    find("method-sentence").textContent = method.sentence || "";
    find("stiffness-field").hidden = !method.stiffness;
    find("stiffness-value").textContent = number(stiffness());
  }

  /** Without the model nothing can be chosen but the examples of a saved result. */
  function disable() {
    const others = ["target-field", "output-field", "baseline-field", "method-field", "stiffness-field", "explain", "method-sentence", "upload", "export-result"];
    for (const id of others) find(id).hidden = true;
    find("choices").hidden = Boolean(Server.bundle()) || Store.state.samples.length < 2;
    find("export-html").hidden = Boolean(Server.bundle());
    const what = Server.bundle() ? "A saved page: the walk, the maps and the curves work" : "A saved result: what it holds is shown";
    find("offline-note").textContent = ` · ${what} without the model. To change class, score, start or method, run \`leastpath explore\` with it.`;
  }

  // ---- choosing --------------------------------------------------------------------------------------------------------

  /** Takes over a state, with what is finished for it; if nothing is, explains it by the method shown before, or by what a page begins with. */
  async function adopt(state, method = null) {
    const mine = Tasks.begin();
    Store.setState(state);
    for (const key of state.results) {
      const result = await Server.result(key);
      if (!Tasks.isCurrent(mine)) return;
      Store.addResult(result, result.method === state.methods[0]?.name); // what is offered first is shown first
    }
    if (state.results.length || state.offline) return;
    for (const name of method ? [method] : state.opening) if (Tasks.isCurrent(mine)) await explain(name);
  }

  async function attempt(work) {
    const method = Store.selected?.method;
    Errors.clear();
    document.body.classList.add("waiting");
    try {
      await adopt(await work(), method);
    } catch (failure) {
      Errors.show(failure.message);
      fillAll(); // the switches say again what holds
    } finally {
      document.body.classList.remove("waiting");
    }
  }

  const choose = (choice) => attempt(() => Server.choose(Store.state.about, choice));
  const open = (file) => { if (file) attempt(() => Server.upload(file, Store.state.about)); };

  // ---- explaining ------------------------------------------------------------------------------------------------------

  async function explain(name) {
    const method = methodNamed(name);
    if (!method) return;
    const more = { method: name, stiffness: method.stiffness ? stiffness() : null };
    await Tasks.run(method.label, () => Server.explain(Store.state.about, more), Store.addResult);
  }

  // ---- hands -----------------------------------------------------------------------------------------------------------

  find("sample").addEventListener("change", (event) => choose({ sample: Number(event.target.value) }));
  find("target").addEventListener("change", (event) => choose({ target: Number(event.target.value) }));
  find("output").addEventListener("change", (event) => choose({ output: event.target.value }));
  find("method").addEventListener("change", describeMethod);
  find("stiffness").addEventListener("input", describeMethod);
  find("explain").addEventListener("click", () => { Errors.clear(); explain(find("method").value); });
  find("upload").addEventListener("click", () => find("file").click());
  find("file").addEventListener("change", (event) => { open(event.target.files[0]); event.target.value = ""; });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => { event.preventDefault(); if (!Store.state?.offline) open(event.dataTransfer.files[0]); });
  document.addEventListener("pointerdown", (event) => { if (!find("baselines").contains(event.target)) find("baselines").open = false; });
  Store.on("state", fillAll);
  return { adopt };
})();
