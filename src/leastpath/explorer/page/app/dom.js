"use strict";
// Small helpers over the document. Text from files, columns and tokens only ever becomes a text node.
const find = (id) => document.getElementById(id);

/** make("li", {class: "task"}, "text", child, …): an element; functions become listeners, null children are left out. */
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
  select.title = select.selectedOptions[0]?.textContent || ""; // it may be cut
}

const THREE_DIGITS = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

/** Three significant digits as the server writes them: 18,000 and 0.0021, a true minus sign; signed numbers get their plus. */
function number(value, signed = false) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  const sign = value < 0 ? "−" : signed && value > 0 ? "+" : "";
  if (size !== 0 && (size < 1e-4 || size >= 1e15)) {
    const [mantissa, exponent] = size.toExponential(2).split("e");
    const raised = Array.from(String(Number(exponent)), (letter) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(letter)]).join("");
    return `${sign}${Number(mantissa)} × 10${raised}`;
  }
  return sign + THREE_DIGITS.format(size);
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
