// The text on screen: fetched ahead, shown as text and never as HTML, in larger or smaller letters. It has the functions of
// viewer.js, which does the same for images, and knows nothing of labels.

import { get } from "./api.js";
import { $, painted } from "./dom.js";

const KEEP = 16; // texts kept in memory
const SHORT = 160; // characters of a text that is shown large, in the middle
const LINES = 4; // and its lines at most
const LEAST = 0.7;
const MOST = 3;
const LARGE = 1.5;

/** `stage` holds `#text`. `events` = {zoom(percent)}. */
export function createReader(stage, events) {
  const ready = new Map(); // id -> promise of the text
  const box = $("#text");
  let latest = 0;
  let scale = 1; // stays from text to text: who needs large letters needs them always

  function load(id) {
    const text = get(`/api/text/${id}`).then((reply) => reply.text);
    text.catch(() => ready.delete(id));
    ready.set(id, text);
    while (ready.size > KEEP) ready.delete(ready.keys().next().value);
    return text;
  }

  /** Show an item; true once it is painted, false when another came in between. Throws if it cannot be had. */
  async function show(id, label) {
    const mine = ++latest;
    unready();
    let text;
    stage.setAttribute("aria-busy", "true");
    try {
      text = await (ready.get(id) || load(id));
    } catch (error) {
      if (mine !== latest) return false;
      blank(id);
      throw error;
    }
    if (mine !== latest) return false;
    box.textContent = text;
    box.classList.toggle("short", text.length <= SHORT && text.trim().split("\n").length <= LINES);
    box.dataset.item = id;
    box.setAttribute("aria-label", label);
    box.hidden = false;
    box.scrollTop = 0;
    if (document.activeElement === document.body) box.focus({ preventScroll: true }); // so that its keys scroll
    stage.removeAttribute("aria-busy");
    await painted();
    return mine === latest;
  }

  function blank(id = "") {
    latest += 1;
    box.textContent = "";
    box.dataset.item = String(id);
    box.hidden = true;
    unready();
    stage.removeAttribute("aria-busy");
  }

  function zoomTo(next) {
    scale = Math.min(Math.max(next, LEAST), MOST);
    box.style.setProperty("--letters", scale);
    events.zoom(Math.abs(scale - 1) < 0.01 ? null : Math.round(100 * scale));
  }

  const unready = () => (box.dataset.ready = "false");

  return {
    show, blank, unready,
    preload: (ids) => ids.forEach((id) => ready.has(id) || load(id)),
    markReady: () => (box.dataset.ready = "true"),
    toggle: () => zoomTo(scale === 1 ? LARGE : 1),
    rotate: () => {},
    zoomBy: (factor) => zoomTo(scale * factor),
    shownId: () => (box.dataset.item === "" ? null : Number(box.dataset.item)),
    isReady: () => box.dataset.ready === "true",
  };
}
