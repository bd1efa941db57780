// The images as dots on a canvas: grey without an answer, colour and shape by class, a ring around the current batch.

import { get } from "./api.js";
import { $, announce, make, setText } from "./dom.js";
import { count } from "./format.js";
import { colourOf, colourValue, mark, shapeOf } from "./marks.js";
import { className, openClasses, store } from "./store.js";
import { small } from "./thumb.js";
import * as work from "./work.js";
import { words } from "./words.js";

const REACH = 14; // px around the pointer in which a dot is found
const CELLS = 64; // the squares, along each side, in which dots are looked up
const EDGE = 0.04; // room around the map

export function createMap(trouble) {
  const canvas = $("#map");
  let active = false;
  let data = null;
  let cells = new Map();
  let special = []; // labelled and current ids, for the arrow keys
  let at = -1; // place in special
  let shownId = null;
  let view = { scale: 1, x: 0, y: 0 };
  let drawnVersion = null;

  function enter() {
    active = true;
    drawnVersion = null;
    load();
  }

  async function load() {
    const version = store.version;
    if (!store.run.map) return describe();
    try {
      const reply = await get("/api/map");
      trouble(null);
      if (!active) return;
      drawnVersion = version;
      data = reply;
      index();
      describe();
      draw();
    } catch (error) {
      if (error.status === 404) {
        data = null;
        describe();
      } else {
        trouble(error);
      }
    }
  }

  function index() {
    cells = new Map();
    data.points.forEach((point, id) => {
      if (!point) return;
      const cell = cellOf(point[0], point[1]);
      if (!cells.has(cell)) cells.set(cell, []);
      cells.get(cell).push(id);
    });
    const current = new Set(data.current);
    const marked = (id) => data.labels[id] >= 0 || current.has(id);
    special = [...data.points.keys()].filter((id) => data.points[id] && marked(id));
    at = -1;
  }

  const column = (value) => Math.min(CELLS - 1, Math.max(0, Math.floor(value * CELLS)));
  const cellOf = (x, y) => column(x) * CELLS + column(y);

  /** The legend, the table and the text for those who do not see the canvas. */
  function describe() {
    const has = data && data.points.some(Boolean);
    $("#map-box").hidden = !has;
    $("#map-none").hidden = has;
    if (!has) return;
    const known = data.points.filter(Boolean).length;
    const counts = new Map();
    for (const label of special.map((id) => data.labels[id])) {
      if (label >= 0) counts.set(label, (counts.get(label) || 0) + 1);
    }
    const labelled = [...counts.values()].reduce((sum, each) => sum + each, 0);
    canvas.setAttribute("aria-label", words.mapAlt(known, labelled, data.current.length));
    const classes = openClasses();
    $("#map-legend").replaceChildren(
      ...classes.map((one) => make("li", {}, mark(one.id), make("span", { class: "name", text: one.name }))),
      make("li", {}, make("span", { class: "key-dot" }), make("span", { text: words.mapUnlabelled })),
      make("li", {}, make("span", { class: "key-ring" }), make("span", { text: words.mapCurrent })));
    const rows = [
      ...classes.map((one) => [one.name, counts.get(one.id) || 0]),
      [words.mapUnlabelled, known - labelled], [words.mapCurrent, data.current.length],
    ];
    const head = words.mapHead.map((text) => make("th", { scope: "col", text }));
    $("#map-table thead").replaceChildren(make("tr", {}, ...head));
    $("#map-table tbody").replaceChildren(...rows.map(([what, many]) =>
      make("tr", {}, make("th", { scope: "row", text: what }), make("td", { text: count(many) }))));
  }

  // From map to canvas (CSS pixels). The map keeps its proportions; y grows upwards.
  function place([x, y]) {
    const [left, top] = [canvas.clientWidth / 2 + view.x, canvas.clientHeight / 2 + view.y];
    return [left + (x - 0.5) * stretch() * side(), top - (y - 0.5) * side()];
  }
  const side = () => Math.min(canvas.clientWidth, canvas.clientHeight) * (1 - 2 * EDGE) * view.scale;
  const stretch = () => Math.min(1.6, Math.max(1, canvas.clientWidth / Math.max(1, canvas.clientHeight)));

  function draw() {
    if (!data || $("#map-box").hidden) return;
    const ratio = window.devicePixelRatio || 1;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(canvas.clientHeight * ratio);
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const [dot, back, ring] = ["--map-dot", "--panel", "--text"].map(colourValue);
    const small = data.points.length > 5000 ? 1.3 : 2;
    pen.fillStyle = dot;
    data.points.forEach((point, id) => {
      if (!point || data.labels[id] >= 0) return;
      const [x, y] = place(point);
      pen.fillRect(x - small, y - small, 2 * small, 2 * small);
    });
    const colours = new Map();
    const shapes = new Map();
    for (const id of special) {
      const label = data.labels[id];
      if (label < 0) continue;
      if (!colours.has(label)) {
        colours.set(label, colourValue(`--mark-${colourOf(label)}`));
        shapes.set(label, new Path2D(shapeOf(label)));
      }
      const [x, y] = place(data.points[id]);
      pen.save();
      pen.translate(x - 6, y - 6);
      pen.scale(1.2, 1.2);
      pen.strokeStyle = back;
      pen.lineWidth = 2;
      pen.stroke(shapes.get(label));
      pen.fillStyle = colours.get(label);
      pen.fill(shapes.get(label));
      pen.restore();
    }
    pen.strokeStyle = ring;
    pen.lineWidth = 1.6;
    for (const id of data.current) if (data.points[id]) circle(pen, place(data.points[id]), 7);
    if (shownId !== null && data.points[shownId]) {
      pen.lineWidth = 2.5;
      circle(pen, place(data.points[shownId]), 10);
    }
  }

  function circle(pen, [x, y], radius) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** The nearest dot to a place on the canvas, or null. */
  function nearest(px, py) {
    const x = (px - canvas.clientWidth / 2 - view.x) / side() / stretch() + 0.5;
    const y = 0.5 - (py - canvas.clientHeight / 2 - view.y) / side();
    const reach = REACH / side();
    let best = null;
    let least = REACH;
    for (let i = column(x - reach); i <= column(x + reach); i++) {
      for (let j = column(y - reach); j <= column(y + reach); j++) {
        for (const id of cells.get(i * CELLS + j) || []) {
          const [qx, qy] = place(data.points[id]);
          const distance = Math.hypot(qx - px, qy - py);
          if (distance < least) [best, least] = [id, distance];
        }
      }
    }
    return best;
  }

  function pointText(id) {
    const label = data.labels[id];
    const what = label >= 0 ? className(label) : data.current.includes(id) ? words.mapCurrent : words.mapUnlabelled;
    return words.mapPoint(id, what, data.rounds[id]);
  }

  function tip(id, say = false) {
    if (id === shownId) return;
    shownId = id;
    const box = $("#map-tip");
    box.hidden = id === null;
    if (id !== null) {
      const [x, y] = place(data.points[id]);
      box.replaceChildren(small({ id }), make("span", { text: pointText(id) }));
      box.style.left = `${Math.min(Math.max(x, 90), canvas.clientWidth - 90)}px`;
      box.style.top = `${y < canvas.clientHeight / 2 ? y + 16 : y - 16}px`;
      box.classList.toggle("above", y >= canvas.clientHeight / 2);
      if (say) announce(pointText(id));
    }
    draw();
  }

  let drag = null;

  canvas.addEventListener("pointermove", (event) => {
    if (!data) return;
    if (drag) {
      view = { ...view, x: drag.x + event.clientX - drag.px, y: drag.y + event.clientY - drag.py };
      drag.moved = drag.moved || Math.hypot(event.clientX - drag.px, event.clientY - drag.py) > 5;
      if (drag.moved) {
        tip(null);
        requestAnimationFrame(draw);
      }
      return;
    }
    tip(nearest(event.offsetX, event.offsetY));
  });
  canvas.addEventListener("pointerdown", (event) => {
    drag = { px: event.clientX, py: event.clientY, x: view.x, y: view.y, moved: false };
    if (event.pointerType === "mouse") canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    const tapped = drag && !drag.moved;
    drag = null;
    if (tapped && data) tip(nearest(event.offsetX, event.offsetY), true);
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse" && !drag) tip(null);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!data) return;
    event.preventDefault();
    const [px, py] = [event.offsetX - canvas.clientWidth / 2, event.offsetY - canvas.clientHeight / 2];
    zoom(Math.exp(-event.deltaY * 0.0018), px, py);
  }, { passive: false });
  canvas.addEventListener("blur", () => tip(null));

  function zoom(by, px = 0, py = 0) {
    const scale = Math.min(40, Math.max(1, view.scale * by));
    const factor = scale / view.scale;
    view = { scale, x: px - (px - view.x) * factor, y: py - (py - view.y) * factor };
    if (scale === 1) view = { scale, x: 0, y: 0 };
    tip(null);
    draw();
  }

  $("#map-in").addEventListener("click", () => zoom(1.5));
  $("#map-out").addEventListener("click", () => zoom(1 / 1.5));
  $("#map-all").addEventListener("click", () => zoom(0));

  /** Arrow keys on the canvas step through the labelled images and the current batch. */
  function raw(event) {
    if (event.target !== canvas || !special.length || event.ctrlKey || event.metaKey || event.altKey) return false;
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return false;
    at = (at + by + special.length) % special.length;
    tip(special[at], true);
    return true;
  }

  new ResizeObserver(() => active && draw()).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => active && draw());

  async function perform(action) {
    if (action === "zoom-in" || action === "zoom-out") zoom(action === "zoom-in" ? 1.5 : 1 / 1.5);
    else if ((action === "undo" || action === "redo") && (await work.step(action))) load();
  }

  return {
    enter, perform, raw, draw,
    leave: () => {
      active = false;
      $("#map-tip").hidden = true;
      shownId = null;
    },
    release: () => {},
    settings: () => {},
    refresh: () => {
      if (active && drawnVersion !== null && drawnVersion !== store.version) {
        drawnVersion = null;
        setText($("#map-none"), words.mapNone);
        load();
      }
    },
    idle: () => false,
  };
}
