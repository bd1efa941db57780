// A colour and a shape for every class, the same on buttons, tiles and the map: never colour alone.

import { classOf } from "./store.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
export const COLOURS = 8; // --mark-0 to --mark-7 in style.css
const SHAPES = [
  "M5 1a4 4 0 1 0 0.001 0z", // circle
  "M1.5 1.5h7v7h-7z", // square
  "M5 .8 9.4 8.8H.6z", // triangle
  "M5 .4 9.6 5 5 9.6.4 5z", // diamond
  "M3.5 1h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5v-3h2.5z", // cross
  "M5 9.2.6 1.2h8.8z", // triangle, point down
  "M5 .6 9.3 3.8 7.7 8.9H2.3L.7 3.8z", // pentagon
];

/** The colour that somebody chose, or by number; the parts are coprime, so that 56 classes differ. */
export const colourOf = (id) => classOf(id)?.colour ?? id % COLOURS;
export const shapeOf = (id) => SHAPES[id % SHAPES.length];

/** A colour of style.css as the canvas takes it: "--mark-0". */
export const colourValue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** The mark of a class as a small picture; it says nothing aloud, the name stands next to it. */
export function mark(id, colour = colourOf(id)) {
  const look = { viewBox: "0 0 10 10", class: `mark mark-${colour}`, "aria-hidden": "true", focusable: "false" };
  return svg("svg", look, svg("path", { d: shapeOf(id) }));
}
