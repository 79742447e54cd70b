"use strict";
// Small helpers over the document. Text from files, columns and tokens only ever becomes a text node.
const find = (id) => document.getElementById(id);

/** make("li", {class: "job"}, "text", child, …): an element; functions become listeners, null children are left out. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "style") element.style.cssText = value; // the attribute itself is refused under a strict policy
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Options of a select, and the chosen one. */
function fillSelect(select, options, chosen) {
  select.replaceChildren(...options.map(([value, label]) => make("option", { value }, label)));
  select.value = String(chosen);
}

/** Three significant digits with a true minus sign; signed numbers get their plus. */
function number(value, signed = false) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  let text = size !== 0 && (size < 1e-3 || size >= 1e5) ? size.toExponential(1) : String(Number(size.toPrecision(3)));
  text = text.replace("e-", "e−").replace("e+", "e");
  if (value < 0 && Number(text.replace("−", "-")) !== 0) return `−${text}`;
  return signed && value > 0 ? `+${text}` : text;
}

const percent = (share) => `${Math.round(share * 100)} %`;

/** Calls `work` once, `wait` milliseconds after the last call. */
function debounce(work, wait) {
  let timer = null;
  return () => { window.clearTimeout(timer); timer = window.setTimeout(work, wait); };
}

/** Errors stand at the top until they are dismissed, each as a sentence. */
const Errors = (() => {
  function show(sentence) {
    const entry = make("div", { class: "error" }, make("span", {}, sentence),
      make("button", { type: "button", "aria-label": "Dismiss", click: () => entry.remove() }, "×"));
    find("errors").replaceChildren(entry);
  }
  return { show, clear: () => find("errors").replaceChildren() };
})();

const speak = (sentence) => { find("spoken").textContent = sentence; };
