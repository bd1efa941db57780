// An item elsewhere than on the stage: its picture, or the beginning of its text. Texts go in through textContent only.

import { get, imageAddress } from "./api.js";
import { make } from "./dom.js";
import { shortName } from "./format.js";
import { store } from "./store.js";

const BEGINNING = 280; // characters, where only the whole text can be had
const NAME = 60;

/** Texts, and rows of numbers, which are shown as texts. */
export const isText = () => Boolean(store.run && store.run.noun !== "image");

/** What an item is called where people read or hear it: the file's name, or how the text begins. */
export function called(item) {
  if (!isText() || !item.excerpt) return shortName(item.name);
  return item.excerpt.length <= NAME ? item.excerpt : `${item.excerpt.slice(0, NAME).trimEnd()} …`;
}

/** A small picture, or the beginning of a text. */
export function small(item, props = {}) {
  if (!isText()) return make("img", { src: imageAddress(item.id, "thumb"), alt: "", draggable: "false", ...props });
  const box = make("span", { class: "excerpt", dir: "auto", text: item.excerpt || "" });
  if (!item.excerpt) fill(box, item.id, BEGINNING);
  return box;
}

/** A large picture, or the whole text. */
export function large(item, id, alt) {
  if (!isText()) return make("img", { id, alt, src: imageAddress(item.id, "full") });
  const box = make("div", { id, class: "whole-text", dir: "auto", tabindex: "0", "aria-label": alt });
  fill(box, item.id, Infinity);
  return box;
}

function fill(box, id, most) {
  get(`/api/text/${id}`).then(
    ({ text }) => (box.textContent = text.length <= most ? text : `${text.slice(0, most)} …`),
    (error) => (box.textContent = error.message),
  );
}
