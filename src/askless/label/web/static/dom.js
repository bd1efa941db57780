// Small helpers to find, build and fill elements. Texts go in through textContent only.

import { words } from "./words.js";

export const $ = (selector, root = document) => root.querySelector(selector);
export const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];

/** One new element: `make("button", {class: "x", text: name, onclick: f, data: {item: 5}}, child, ...)`. */
export function make(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "text") element.textContent = value;
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** The name of a class or an answer, as text. */
export const named = (text) => make("span", { class: "name", text });

/** Set a text only when it changed, so that a screen reader and the layout are left in peace. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Fill the texts of index.html: data-word is the text, data-word-label the accessible name, and so on. */
export function fillWords(root = document) {
  const each = (name, fill) => {
    for (const element of $$(`[data-${name}]`, root)) fill(element, words[element.getAttribute(`data-${name}`)]);
  };
  each("word", (element, text) => (element.textContent = text));
  each("word-label", (element, text) => element.setAttribute("aria-label", text));
  each("word-title", (element, text) => (element.title = text));
  each("word-placeholder", (element, text) => (element.placeholder = text));
}

let said = { text: "", at: -Infinity };

/** Say something to screen readers, politely or (errors) at once. What comes in quick succession is said as one. */
export function announce(text, assertive = false) {
  const region = $(assertive ? "#alert" : "#live");
  if (!assertive) {
    const now = performance.now();
    said = { text: now - said.at < 400 && said.text !== text ? `${said.text}. ${text}` : text, at: now };
  }
  const whole = assertive ? text : said.text;
  region.textContent = region.textContent === whole ? `${whole}\u00a0` : whole; // a repeat is said again
}

let toastTimer = 0;

/** A quiet note on the status line that goes away by itself. */
export function toast(text, { say = true } = {}) {
  const element = $("#toast");
  element.textContent = text;
  element.classList.add("shown");
  if (say) announce(text);
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => element.classList.remove("shown"), 4000);
}

/** A note that stays until it is closed (a conflict, an answer that was refused). */
export function notice(text) {
  $("#notice-text").textContent = text;
  $("#notice").hidden = false;
  announce(text, true);
}

/** Resolves once what is now in the document has been painted. */
export function painted() {
  return new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 0)));
}
