"use strict";
// Replace a word and see: the prompt with other words, and the probabilities of what comes next, before and now.
const Replace = (() => {
  let result = null;
  let words = []; // what stands for each feature now
  let after = null; // what the model says of the edited prompt
  let pending = null;

  const spell = () => result.segments.map(({ text, feature }) => (feature === null ? text : words[feature])).join("");
  const original = () => result.segments.filter(({ feature }) => feature !== null).map(({ text }) => text);
  const isEdited = () => original().some((text, k) => text !== words[k]);

  function load(found) {
    result = found;
    words = original();
    after = null;
    draw();
    if (Prompt.isOffline()) find("replace-hint").textContent = "This is a saved page: other words need the model. Start `leastpath explore` for it.";
  }

  function draw() {
    find("editor").replaceChildren(...words.map(chip));
    find("edited").textContent = isEdited() ? `The model reads: ${spell()}` : "";
    for (const id of ["clear", "explain-edited"]) find(id).disabled = !isEdited();
    probabilities();
  }

  function chip(word, k) {
    const label = word ? Prompt.seen(word) : "∅";
    return make("button", { type: "button", class: word === original()[k] ? "chip" : "chip replaced", disabled: Prompt.isOffline(), title: `Replace “${Prompt.seen(original()[k])}”`, click: (event) => edit(event.currentTarget, k) }, label);
  }

  /** A word becomes a field. Enter or leaving it asks the model, Escape gives the word back. */
  function edit(button, k) {
    const field = make("input", { type: "text", value: words[k], class: "word", "aria-label": `In place of ${original()[k]}`, size: Math.max(4, words[k].length) });
    let over = false;
    const end = (take) => {
      if (over) return;
      over = true;
      const changed = take && field.value !== words[k];
      if (changed) words[k] = field.value;
      draw();
      find("editor").children[k]?.focus();
      if (changed) ask();
    };
    field.addEventListener("keydown", (event) => {
      if (event.key === "Enter") { event.preventDefault(); end(true); }
      if (event.key === "Escape") end(false);
    });
    field.addEventListener("blur", () => end(true));
    button.replaceWith(field);
    field.focus();
    field.select();
  }

  async function ask() {
    if (pending) pending.abort();
    after = null;
    draw();
    if (!isEdited()) return;
    pending = new AbortController();
    const about = { ...result.about, prompt: spell() };
    try {
      const known = result.next.tokens.map(({ id }) => id);
      const answer = await Server.post("api/next", { about, answers: result.ids, tokens: known }, pending.signal);
      const added = answer.tokens.map(({ id }) => id).filter((id) => !known.includes(id));
      if (added.length) { // how probable they were before
        const before = await Server.post("api/next", { about: result.about, tokens: added }, pending.signal);
        result.next.tokens.push(...before.tokens.filter(({ id }) => added.includes(id)));
      }
      after = answer;
      Errors.clear();
      probabilities();
      speak(`Most probable now: ${Prompt.seen(after.tokens[0].text)}, ${number(after.tokens[0].probability)}`);
    } catch (failure) {
      if (failure.name !== "AbortError") Errors.show(failure.message);
    }
  }

  const bar = (kind, share) => make("div", { class: "meter" }, make("i", { class: kind, style: `width:${100 * share}%` }));

  function probabilities() {
    const before = new Map(result.next.tokens.map((token) => [token.id, token]));
    const now = new Map((after?.tokens || []).map((token) => [token.id, token]));
    const all = [...new Set([...now.keys(), ...before.keys()])].map((id) => ({ id, text: (now.get(id) || before.get(id)).text, was: before.get(id)?.probability, is: now.get(id)?.probability }));
    all.sort((a, b) => Math.max(b.is ?? 0, b.was ?? 0) - Math.max(a.is ?? 0, a.was ?? 0));
    find("next").replaceChildren(...all.slice(0, 12).map(({ text, was, is }) => make("li", {}, make("span", { class: "name", title: text }, Prompt.seen(text)),
      make("div", {}, bar("before", was ?? 0), ...(after ? [bar("after", is ?? 0)] : [])),
      make("span", { class: "figure" }, after ? `${number(was)} → ${number(is)}` : number(was)))));
    const names = [result.continuation, result.contrast].map((tokens) => Prompt.seen(tokens.map(({ text }) => text).join("")));
    const logs = result.next.log_probabilities;
    const lines = logs.map((log, k) => [`log p of “${names[k]}”`, log, after?.log_probabilities[k]]);
    if (logs.length > 1) lines.push([`“${names[0]}” over “${names[1]}”`, logs[0] - logs[1], after && after.log_probabilities[0] - after.log_probabilities[1]]);
    find("answers").replaceChildren(...lines.map(([name, was, is]) => make("p", { class: "score" }, make("span", {}, `${name} `),
      ...(is === undefined || is === null ? [make("b", {}, number(was))] : [make("span", {}, `${number(was)} → `), make("b", {}, number(is)), make("span", {}, ` (${number(is - was, true)})`)]))));
  }

  find("clear").addEventListener("click", () => load(result));
  find("explain-edited").addEventListener("click", () => Prompt.explain({ ...Prompt.about(), prompt: spell() }));
  return { load };
})();
