// The images as dots on a canvas: grey without an answer, colour and shape by class or by what the model says, a ring around
// the current batch. What a drawn line encloses, or lies nearest to a dot, can be shown as a grid and labelled there.

import { get } from "./api.js";
import { $, $$, announce, make, setText, toast } from "./dom.js";
import { count, shortName } from "./format.js";
import * as lasso from "./lasso.js";
import { colourOf, colourValue, mark, shapeOf } from "./marks.js";
import { className, openClasses, store } from "./store.js";
import { small } from "./thumb.js";
import * as work from "./work.js";
import { words } from "./words.js";

const REACH = 14; // px around the pointer in which a dot is found
const CELLS = 64; // the squares, along each side, in which dots are looked up
const EDGE = 0.04; // room around the map
const NEAREST = 24; // images that Space selects; pressed again, twice as many
const MOST = 2000; // images that are shown as a grid

/** `show(query)` opens the view of items. */
export function createMap(trouble, show) {
  const canvas = $("#map");
  let active = false;
  let data = null;
  let cells = new Map();
  let special = []; // labelled and current ids, for the arrow keys
  let at = -1; // place in special
  let shownId = null;
  let view = { scale: 1, x: 0, y: 0 };
  let drawnVersion = null;
  let byModel = false;
  let chosen = new Set();
  let around = null; // [id, how many] that Space selected last
  let drawing = false; // a line, instead of moving the map
  const names = new Map(); // of the dots that were looked at

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
    if (!special.length) special = [...data.points.keys()].filter((id) => data.points[id]);
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
      make("li", {}, make("span", { class: "key-dot" }), make("span", { text: byModel ? words.mapUnsaid : words.mapUnlabelled })),
      ...(byModel ? [make("li", {}, make("span", { text: words.mapSmall }))] : []),
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
    if (byModel) drawSaid(pen);
    pen.fillStyle = dot;
    data.points.forEach((point, id) => {
      if (!point || data.labels[id] >= 0 || (byModel && data.predicted[id] >= 0)) return;
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
    drawChosen(pen);
    pen.strokeStyle = ring;
    pen.lineWidth = 1.6;
    for (const id of data.current) if (data.points[id]) circle(pen, place(data.points[id]), 7);
    if (shownId !== null && data.points[shownId]) {
      pen.lineWidth = 2.5;
      circle(pen, place(data.points[shownId]), 10);
    }
  }

  /** What the model says of images without an answer, smaller than what people said. */
  function drawSaid(pen) {
    const shapes = new Map();
    data.points.forEach((point, id) => {
      const said = data.predicted[id];
      if (!point || said < 0 || data.labels[id] >= 0) return;
      if (!shapes.has(said)) shapes.set(said, [colourValue(`--mark-${colourOf(said)}`), new Path2D(shapeOf(said))]);
      const [colour, shape] = shapes.get(said);
      const [x, y] = place(point);
      pen.save();
      pen.translate(x - 3, y - 3);
      pen.scale(0.6, 0.6);
      pen.fillStyle = colour;
      pen.fill(shape);
      pen.restore();
    });
  }

  /** A square around each selected image, and the line that is being drawn. */
  function drawChosen(pen) {
    pen.strokeStyle = colourValue("--accent");
    pen.lineWidth = 2;
    for (const id of chosen) {
      const [x, y] = place(data.points[id]);
      pen.strokeRect(x - 7, y - 7, 14, 14);
    }
    if (!drag || !drag.line) return;
    pen.beginPath();
    for (const point of drag.line) pen.lineTo(...place(point));
    pen.closePath();
    pen.setLineDash([6, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }

  function circle(pen, [x, y], radius) {
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    pen.stroke();
  }

  /** A place on the canvas as one on the map. */
  const onMap = (px, py) => [
    (px - canvas.clientWidth / 2 - view.x) / side() / stretch() + 0.5, 0.5 - (py - canvas.clientHeight / 2 - view.y) / side(),
  ];

  /** The nearest dot to a place on the canvas, or null. */
  function nearest(px, py) {
    const [x, y] = onMap(px, py);
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
    const said = byModel && data.predicted[id] >= 0 ? words.mapSaid(className(data.predicted[id])) : "";
    return words.mapPoint(names.get(id) || `${id}`, [what, said].filter(Boolean).join(", "), data.rounds[id]);
  }

  /** The file's name, which comes when a dot is looked at. */
  async function nameOf(id) {
    if (names.has(id)) return;
    const reply = await get(`/api/items?items=${id}&limit=1`).catch(() => null);
    if (reply && reply.items.length) names.set(id, shortName(reply.items[0].name));
  }

  // --- Selecting. ---

  function choose(ids, say = true) {
    chosen = new Set(ids.slice(0, MOST));
    $("#map-chosen").hidden = !chosen.size;
    setText($("#map-chosen-text"), words.mapChosen(chosen.size));
    setText($("#map-show"), words.mapShow(chosen.size));
    if (say && chosen.size) announce(words.mapChosen(chosen.size));
    draw();
  }

  /** The images nearest to the one that is pointed at; again, twice as many. */
  function chooseNearest() {
    if (!data || shownId === null) return toast(words.mapPick);
    around = around && around[0] === shownId ? [shownId, 2 * around[1]] : [shownId, NEAREST];
    choose(lasso.nearestTo(data.points, ...around));
  }

  function showChosen() {
    if (chosen.size) show({ items: [...chosen].join(",") });
  }

  function setDrawing(on) {
    drawing = on;
    $("#map-lasso").setAttribute("aria-pressed", String(on));
    canvas.classList.toggle("drawing", on);
  }

  function tip(id, say = false) {
    if (id === shownId) return;
    shownId = id;
    const box = $("#map-tip");
    box.hidden = id === null;
    if (id !== null) {
      const [x, y] = place(data.points[id]);
      const text = make("span", { text: names.has(id) ? pointText(id) : "" });
      box.replaceChildren(small({ id }), text);
      box.style.left = `${Math.min(Math.max(x, 90), canvas.clientWidth - 90)}px`;
      box.style.top = `${y < canvas.clientHeight / 2 ? y + 16 : y - 16}px`;
      box.classList.toggle("above", y >= canvas.clientHeight / 2);
      nameOf(id).then(() => {
        if (shownId !== id) return;
        setText(text, pointText(id));
        if (say) announce(pointText(id));
      });
    }
    draw();
  }

  let drag = null;

  canvas.addEventListener("pointermove", (event) => {
    if (!data) return;
    if (drag && drag.line) {
      drag.line.push(onMap(event.offsetX, event.offsetY));
      return void requestAnimationFrame(draw);
    }
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
    if (drawing || event.shiftKey) drag.line = [onMap(event.offsetX, event.offsetY)];
    if (event.pointerType === "mouse" || drag.line) canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", (event) => {
    const line = drag && drag.line;
    const tapped = drag && (line ? line.length < 4 : !drag.moved);
    drag = null;
    if (line && !tapped && data) {
      tip(null);
      choose(lasso.within(line, data.points));
    }
    if (tapped && data) tip(nearest(event.offsetX, event.offsetY), true);
  });
  canvas.addEventListener("pointercancel", () => {
    drag = null;
    draw();
  });
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse" && !drag) tip(null);
  });
  canvas.addEventListener("wheel", (event) => {
    if (!data) return;
    event.preventDefault();
    const [px, py] = [event.offsetX - canvas.clientWidth / 2, event.offsetY - canvas.clientHeight / 2];
    zoom(Math.exp(-event.deltaY * 0.0018), px, py);
  }, { passive: false });
  canvas.addEventListener("blur", (event) => event.relatedTarget !== $("#map-nearest") && tip(null));

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

  $("#map-nearest").addEventListener("click", chooseNearest);
  $("#map-lasso").addEventListener("click", () => setDrawing(!drawing));
  $("#map-show").addEventListener("click", showChosen);
  $("#map-clear").addEventListener("click", () => choose([]));
  for (const input of $$("#map-colours input")) {
    input.addEventListener("change", () => {
      byModel = input.value === "predicted";
      describe();
      draw();
    });
  }

  /** On the canvas, arrow keys step through the labelled images and the current batch, Space selects what lies nearest. */
  function raw(event) {
    if (event.target !== canvas || !special.length || event.ctrlKey || event.metaKey || event.altKey) return false;
    const acts = { " ": chooseNearest, Enter: showChosen, Escape: () => choose([]) };
    if (acts[event.key] && !event.repeat) {
      acts[event.key]();
      return true;
    }
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
    // A search begins with what is labelled or predicted: with a check image that waits for its answer it must not.
    picked: () => (shownId === null ? [...chosen] : [shownId])
      .filter((id) => data.labels[id] >= 0 || data.predicted[id] >= 0)
      .map((id) => ({ id, name: names.get(id) || `${id}` })),
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
