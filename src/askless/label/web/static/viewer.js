// The image on screen: preloading, fitting, zoom, pan, rotation, swipes. It knows nothing of labels.

import { imageAddress } from "./api.js";
import { $, make, painted } from "./dom.js";

const KEEP = 8; // preloaded images kept in memory
const MOST = 40; // screen pixels per image pixel
const SWIPE = 60; // px

/** `stage` holds `#image`. `events` = {swipe(direction), zoom(percent)}. */
export function createViewer(stage, events) {
  const ready = new Map(); // id -> {image, decoded}
  let shownId = null;
  let latest = 0;
  let fit = 1;
  let view = { scale: 1, x: 0, y: 0, turn: 0 };

  const picture = () => $("#image");

  function load(id) {
    const image = make("img", { decoding: "async", draggable: "false", src: imageAddress(id, "full") });
    const entry = { image, decoded: image.decode() };
    entry.decoded.catch(() => ready.delete(id));
    ready.set(id, entry);
    while (ready.size > KEEP) ready.delete(ready.keys().next().value);
    return entry;
  }

  function preload(ids) {
    for (const id of ids) if (!ready.has(id) && id !== shownId) load(id);
  }

  /** Show an item; true once it is painted, false when another came in between. Throws if it cannot be decoded. */
  async function show(id, alt) {
    const mine = ++latest;
    unready();
    if (shownId === id && picture().complete && picture().naturalWidth) {
      picture().alt = alt;
    } else {
      const entry = ready.get(id) || load(id);
      stage.setAttribute("aria-busy", "true");
      try {
        await entry.decoded;
      } catch (error) {
        if (mine !== latest) return false;
        blank(id, alt);
        throw error;
      }
      if (mine !== latest) return false;
      ready.delete(id);
      const image = entry.image;
      Object.assign(image, { id: "image", alt });
      image.dataset.item = id;
      image.dataset.ready = "false";
      picture().replaceWith(image);
      shownId = id;
    }
    reset();
    stage.removeAttribute("aria-busy");
    await painted();
    return mine === latest;
  }

  /** An empty picture: nothing to see, or a file that cannot be shown. */
  function blank(id = "", alt = "") {
    latest += 1;
    shownId = null;
    const image = make("img", { id: "image", alt, data: { item: String(id), ready: "false" } });
    image.hidden = true;
    picture().replaceWith(image);
    stage.removeAttribute("aria-busy");
  }

  const unready = () => (picture().dataset.ready = "false");
  const markReady = () => (picture().dataset.ready = "true");

  function layout() {
    const image = picture();
    if (!image.naturalWidth) return;
    const sideways = view.turn % 2 === 1;
    const [w, h] = sideways ? [image.naturalHeight, image.naturalWidth] : [image.naturalWidth, image.naturalHeight];
    fit = Math.min(stage.clientWidth / w, stage.clientHeight / h, 24);
    image.style.width = `${image.naturalWidth * fit}px`;
    image.style.height = `${image.naturalHeight * fit}px`;
    // It cannot be dragged out of sight.
    const roomX = Math.max(0, (w * fit * view.scale - stage.clientWidth) / 2);
    const roomY = Math.max(0, (h * fit * view.scale - stage.clientHeight) / 2);
    view.x = Math.min(roomX, Math.max(-roomX, view.x));
    view.y = Math.min(roomY, Math.max(-roomY, view.y));
    image.style.transform =
      `translate(-50%, -50%) translate(${view.x}px, ${view.y}px) rotate(${view.turn * 90}deg) scale(${view.scale})`;
    stage.classList.toggle("zoomed", view.scale > 1.001);
    events.zoom(view.scale === 1 ? null : Math.round(100 * fit * view.scale));
  }

  function reset() {
    view = { scale: 1, x: 0, y: 0, turn: 0 };
    layout();
  }

  /** Zoom to `scale` so that the point (from the middle of the stage) stays where it is. */
  function zoomTo(scale, px = 0, py = 0) {
    const next = Math.min(Math.max(scale, Math.min(1, 1 / fit)), Math.max(8, MOST / fit));
    const factor = next / view.scale;
    view = { ...view, scale: next, x: px - (px - view.x) * factor, y: py - (py - view.y) * factor };
    layout();
  }

  /** 1:1 or back to fitted; an image that is smaller than the screen is doubled instead. */
  function toggle(px = 0, py = 0) {
    if (view.scale !== 1) zoomTo(1);
    else zoomTo(fit < 0.95 ? 1 / fit : 2, px, py);
  }

  const rotate = () => {
    view = { ...view, x: 0, y: 0, turn: (view.turn + 1) % 4 };
    layout();
  };

  function fromMiddle(event) {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2];
  }

  stage.addEventListener("wheel", (event) => {
    if (!picture().naturalWidth) return;
    event.preventDefault();
    zoomTo(view.scale * Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), ...fromMiddle(event));
  }, { passive: false });

  // One pointer pans or swipes, two pinch, a mouse click or a double tap zooms.
  const pointers = new Map();
  let start = null;
  let tapAt = 0;

  stage.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || event.target.closest("button, #text")) return;
    stage.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, event);
    const [a, b] = [...pointers.values()];
    start = { x: event.clientX, y: event.clientY, view: { ...view }, moved: false, pinched: pointers.size > 1 };
    if (b) start.distance = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  });

  stage.addEventListener("pointermove", (event) => {
    if (!start || !pointers.has(event.pointerId)) return;
    pointers.set(event.pointerId, event);
    const [a, b] = [...pointers.values()];
    if (b && start.distance) {
      const distance = Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
      zoomTo((start.view.scale * distance) / start.distance);
      return;
    }
    const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
    if (Math.hypot(dx, dy) > 6) start.moved = true;
    if (view.scale > 1.001 && start.moved && !start.pinched) {
      view = { ...view, x: start.view.x + dx, y: start.view.y + dy };
      layout();
    }
  });

  stage.addEventListener("pointerup", (event) => {
    if (!start || !pointers.delete(event.pointerId)) return;
    const { moved, pinched, x, y } = start;
    if (pointers.size === 0) start = null;
    if (pinched) return;
    const [dx, dy] = [event.clientX - x, event.clientY - y];
    if (!moved) {
      const twice = event.timeStamp - tapAt < 320;
      tapAt = event.timeStamp;
      if (event.pointerType === "mouse" || twice) toggle(...fromMiddle(event));
    } else if (event.pointerType !== "mouse" && view.scale <= 1.001) {
      if (dx < -SWIPE && Math.abs(dx) > 1.5 * Math.abs(dy)) events.swipe("left");
      else if (dy < -SWIPE && Math.abs(dy) > 1.5 * Math.abs(dx)) events.swipe("up");
    }
  });

  stage.addEventListener("pointercancel", (event) => {
    pointers.delete(event.pointerId);
    start = null;
  });

  new ResizeObserver(layout).observe(stage);

  return {
    show, blank, preload, unready, markReady, toggle, rotate, reset,
    zoomBy: (factor) => zoomTo(view.scale * factor),
    shownId: () => (picture().dataset.item === "" ? null : Number(picture().dataset.item)),
    isReady: () => picture().dataset.ready === "true",
  };
}
