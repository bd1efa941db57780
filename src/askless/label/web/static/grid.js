// Many images of the current batch at once. A class key or button answers the selection; without one, the image under
// the pointer; without that, the image in focus. One such action is one step of undo.

import { post } from "./api.js";
import { $, $$, announce, make, named, setText, toast } from "./dom.js";
import { answerText, askReason, confirm, findClass, look } from "./dialogs.js";
import { shortName } from "./format.js";
import * as kept from "./kept.js";
import { DEBOUNCE } from "./keys.js";
import { colourOf, mark } from "./marks.js";
import * as outbox from "./outbox.js";
import { className, classOf, openClasses, store, update } from "./store.js";
import { called, small } from "./thumb.js";
import * as waiting from "./waiting.js";
import * as work from "./work.js";
import { words } from "./words.js";

const MANY = 50; // above this many images, ask first
const SIZES = [6, 8, 10.5, 14, 19]; // rem

/** `side` is the panel of classes, `trouble` shows the warning that the server is gone. */
export function createGrid(side, trouble) {
  const box = $("#grid");
  let active = false;
  let tiles = []; // items with .answer
  let selected = new Set();
  let focus = 0; // place of the tile in the tab order
  let anchor = 0; // where a range began
  let hovered = null; // id under the pointer, until a key moves the focus
  let taken = new Map(); // answers taken back by undo, for redo
  let turn = 0;
  let since = 0;
  let answeredAt = -Infinity;

  const element = (id) => $(`.tile[data-item="${id}"]`, box);
  const placeOf = (id) => tiles.findIndex((tile) => tile.id === id);
  const openTiles = () => tiles.filter((tile) => !tile.answer);

  function enter() {
    active = true;
    setSize(kept.read("tileSize", 2));
    load();
  }

  function leave() {
    active = false;
    turn += 1;
    tiles = [];
    box.replaceChildren();
    if (outbox.pending()) return null; // an answer is on its way; leases end by themselves too
    return post("/api/release", { tab: store.tab }).catch(() => {});
  }

  /** Ask for the batch; `onlyOpen` leaves out what is answered already. */
  async function load(onlyOpen = false) {
    const mine = ++turn;
    try {
      const reply = await post("/api/grid", { tab: store.tab, n: Number($("#grid-count").value) });
      trouble(null);
      if (mine !== turn || !active) return;
      update({ progress: reply.progress });
      tiles = reply.items.filter((one) => !onlyOpen || !one.answer);
      if (!openTiles().length || !openClasses().length) return await explain(mine);
      waiting.hide();
      selected.clear();
      focus = anchor = placeOf(openTiles()[0].id);
      hovered = null;
      since = performance.now();
      draw();
      side.setOpen(true);
      element(tiles[focus].id)?.focus({ preventScroll: true });
    } catch (error) {
      if (mine !== turn) return;
      trouble(error);
      if (error.passing) setTimeout(() => mine === turn && active && load(onlyOpen), 2000);
    }
  }

  /** No open image: the server says why. */
  async function explain(mine) {
    const reply = await post("/api/next", { tab: store.tab });
    if (mine !== turn || !active) return;
    tiles = [];
    draw();
    side.setOpen(false);
    const other = reply.item && reply.code !== "no_classes";
    waiting.show(other ? "other" : reply.code || "other", other ? words.gridEmpty : reply.why);
  }

  function draw() {
    box.replaceChildren(...tiles.map((tile, place) => make("div", {
      role: "option", class: "tile", data: { item: tile.id }, tabindex: place === focus ? "0" : "-1", title: tile.name,
    }, small(tile),
    make("span", { class: "tick", "aria-hidden": "true" }), make("span", { class: "tag" }),
    make("span", { class: "caption", text: shortName(tile.name) }))));
    tiles.forEach(drawTile);
    drawBar();
  }

  function drawTile(tile) {
    const one = element(tile.id);
    if (!one) return;
    const answer = tile.answer ? answerText(tile.answer) : "";
    const chosen = selected.has(tile.id);
    one.setAttribute("aria-selected", String(chosen));
    one.setAttribute("aria-label", words.gridTile(tile.excerpt ? called(tile) : tile.name, placeOf(tile.id) + 1, tiles.length, answer));
    one.classList.toggle("answered", Boolean(answer));
    const labelled = tile.answer && !tile.answer.unsure;
    one.dataset.mark = labelled ? String(colourOf(tile.answer.class)) : "";
    const tag = $(".tag", one);
    if (labelled) tag.replaceChildren(mark(tile.answer.class), named(className(tile.answer.class)));
    else tag.replaceChildren(...(answer ? [named(words.unsureShort)] : []));
  }

  function drawBar() {
    const answered = tiles.length - openTiles().length;
    setText($("#grid-answered"), tiles.length ? words.gridLabelled(answered, tiles.length) : "");
    setText($("#grid-selected"), selected.size ? words.gridSelected(selected.size) : words.gridNoneSelected);
    $("#grid-clear").disabled = selected.size === 0;
    const done = tiles.length > 0 && answered === tiles.length;
    $("#grid-done").hidden = !done;
    return done;
  }

  function moveTo(place, { select = false } = {}) {
    if (!tiles.length) return;
    const to = Math.min(Math.max(place, 0), tiles.length - 1);
    const before = element(tiles[focus]?.id);
    if (before) before.tabIndex = -1;
    focus = to;
    if (select) selectRange(anchor, to);
    else anchor = to;
    const now = element(tiles[to].id);
    now.tabIndex = 0;
    now.focus();
    hovered = null;
  }

  function selectRange(from, to) {
    const [low, high] = from < to ? [from, to] : [to, from];
    selected = new Set(tiles.slice(low, high + 1).map((tile) => tile.id));
    tiles.forEach(drawTile);
    drawBar();
  }

  function toggle(place) {
    const tile = tiles[place];
    if (selected.has(tile.id)) selected.delete(tile.id);
    else selected.add(tile.id);
    anchor = place;
    drawTile(tile);
    drawBar();
    announce(words.gridSelected(selected.size));
  }

  /** All open images; all of them when none is open. */
  function selectAll() {
    const open = openTiles();
    selected = new Set((open.length ? open : tiles).map((tile) => tile.id));
    tiles.forEach(drawTile);
    drawBar();
    announce(words.gridSelected(selected.size));
  }

  function clear() {
    selected.clear();
    tiles.forEach(drawTile);
    drawBar();
  }

  function columns() {
    const shown = $$(".tile", box);
    const top = shown.length ? shown[0].offsetTop : 0;
    const first = shown.findIndex((one) => one.offsetTop > top + 1);
    return first < 0 ? Math.max(1, shown.length) : first;
  }

  /** The images that an answer goes to now. */
  function targets() {
    if (selected.size) return tiles.filter((tile) => selected.has(tile.id));
    const place = hovered === null ? focus : placeOf(hovered);
    return tiles[place] ? [tiles[place]] : [];
  }

  async function give(choice, to = targets()) {
    if (!active || !to.length || performance.now() - answeredAt < DEBOUNCE) return;
    if (outbox.isFailing() || outbox.pending() > 1) return toast(words.gridWait);
    const what = choice.unsure ? words.unsureOf(words.reasons[choice.unsure]) : className(choice.class);
    const many = to.length;
    const ask = () => confirm(words.confirmTitle(many), words.confirmText(many, what), words.confirmYes(what));
    if (many > MANY && !(await ask())) return;
    answeredAt = performance.now();
    if (!choice.unsure) side.flash(choice.class);
    const each = (performance.now() - since) / 1000 / to.length; // the time since the last action, shared out
    since = performance.now();
    const fresh = to.filter((tile) => !tile.answer);
    const again = to.filter((tile) => tile.answer);
    const before = new Map(to.map((tile) => [tile.id, tile.answer]));
    const given = choice.unsure ? { class: null, unsure: choice.unsure } : { class: choice.class, unsure: null };
    for (const tile of to) Object.assign(tile, { answer: given });
    selected.clear();
    tiles.forEach(drawTile);
    advance(to);
    const options = { seconds: Math.min(each, 600), bulk: to.length > 1 };
    const parts = [[fresh, false], [again, true]].filter(([items]) => items.length);
    for (const [items, change] of parts) {
      const saved = await work.answer(items.map(plain), choice, { ...options, change });
      if (saved) continue;
      for (const tile of items) tile.answer = before.get(tile.id); // refused: as it was
      tiles.forEach(drawTile);
      drawBar();
    }
    taken.clear();
  }

  const plain = (tile) => ({ id: tile.id, name: tile.name, excerpt: tile.excerpt });

  /** After an answer, the focus goes to the next open image; at the end, to the button for more. */
  function advance(answered) {
    const done = drawBar();
    if (done) {
      $("#grid-next").focus();
      announce(words.gridDone);
      return;
    }
    const from = placeOf(answered[answered.length - 1].id);
    const order = [...tiles.keys()].map((step) => (from + 1 + step) % tiles.length);
    const pointed = hovered;
    const next = order.find((place) => !tiles[place].answer);
    if (next !== undefined) moveTo(next);
    if (pointed !== null && !tiles[placeOf(pointed)]?.answer) hovered = pointed; // the pointer stays in charge
  }

  async function step(kind) {
    const reply = await work.step(kind);
    if (!reply || !active) return;
    const touched = tiles.filter((tile) => reply.undone.items.includes(tile.id));
    if (!touched.length) return load();
    for (const tile of touched) {
      if (kind === "undo") {
        taken.set(tile.id, tile.answer);
        tile.answer = null;
      } else {
        tile.answer = taken.get(tile.id) || tile.answer;
      }
    }
    tiles.forEach(drawTile);
    drawBar();
    if (kind === "undo") moveTo(placeOf(touched[0].id));
    post("/api/grid", { tab: store.tab, n: tiles.length }).catch(() => {}); // leases them again
  }

  /** The grid's own keys; true when the key is used up. */
  function raw(event) {
    if (!active || !tiles.length) return false;
    const control = event.ctrlKey || event.metaKey;
    if (control && event.key.toLowerCase() === "a") {
      selectAll();
      return true;
    }
    const on = !(event.target instanceof Element) || event.target.closest("#grid") || event.target === document.body;
    if (control || event.altKey || !on) return false;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
    if (steps[event.key]) {
      const to = focus + steps[event.key];
      if (to >= 0 && to < tiles.length) moveTo(to, { select: event.shiftKey });
    } else if (event.key === "Home" || event.key === "End") {
      moveTo(event.key === "Home" ? 0 : tiles.length - 1, { select: event.shiftKey });
    } else if (event.key === " ") {
      if (!event.repeat) toggle(focus);
    } else if (event.key === "Enter") {
      if (!event.repeat) look(tiles[focus]);
    } else if (event.key === "Escape" && selected.size) {
      clear();
    } else {
      return false;
    }
    return true;
  }

  function setSize(size) {
    const level = Math.min(Math.max(size, 0), SIZES.length - 1);
    box.style.setProperty("--tile", `${SIZES[level]}rem`);
    kept.write("tileSize", level);
    return level;
  }

  box.addEventListener("click", (event) => {
    const tile = event.target.closest(".tile");
    if (!tile) return;
    const place = placeOf(Number(tile.dataset.item));
    if (event.shiftKey) {
      moveTo(place, { select: true });
    } else {
      toggle(place);
      moveTo(place);
    }
    hovered = tiles[place].id;
  });
  box.addEventListener("dblclick", (event) => {
    const tile = event.target.closest(".tile");
    if (tile) look(tiles[placeOf(Number(tile.dataset.item))]);
  });
  box.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const tile = event.target.closest(".tile");
    hovered = tile ? Number(tile.dataset.item) : null;
  });
  box.addEventListener("pointerleave", () => (hovered = null));
  box.addEventListener("focusin", (event) => {
    const tile = event.target.closest(".tile");
    if (tile) focus = placeOf(Number(tile.dataset.item));
  });
  $("#grid-all").addEventListener("click", selectAll);
  $("#grid-clear").addEventListener("click", clear);
  $("#grid-look").addEventListener("click", () => tiles[focus] && look(tiles[focus]));
  $("#grid-next").addEventListener("click", () => load(true));
  $("#grid-count").addEventListener("change", () => {
    kept.write("gridCount", $("#grid-count").value);
    load(true);
  });
  $("#grid-larger").addEventListener("click", () => setSize(kept.read("tileSize", 2) + 1));
  $("#grid-smaller").addEventListener("click", () => setSize(kept.read("tileSize", 2) - 1));
  $("#grid-count").value = kept.read("gridCount", "24");

  async function perform(action, event) {
    const to = targets();
    if (action.startsWith("class:")) {
      if (classOf(Number(action.slice(6)))) return give({ class: Number(action.slice(6)) }, to);
    } else if (action === "unsure" && to.length) {
      const choice = await askReason();
      if (choice) return give(choice, to);
    } else if (action === "new-class") {
      const added = await work.newClass(to.length);
      if (added && added.label) return give({ class: added.id }, to);
    } else if (action === "find" && to.length) {
      const id = await findClass(event && /^[a-z]$/i.test(event.key) ? event.key : "");
      if (id !== null) return give({ class: id }, to);
    } else if (action === "undo" || action === "redo") {
      return step(action);
    } else if (action === "skip" && to.length && event?.key !== "ArrowRight") {
      moveTo((placeOf(to[to.length - 1].id) + 1) % tiles.length); // in the grid, skipping is going on
    } else if (action === "zoom") {
      if (to.length) look(to[0]);
    } else if (action === "zoom-in" || action === "zoom-out") {
      setSize(kept.read("tileSize", 2) + (action === "zoom-in" ? 1 : -1));
    }
  }

  return {
    enter, leave, perform, raw,
    picked: () => targets().filter((tile) => tile.answer),
    next: () => load(true),
    release: () => {},
    settings: () => {},
    refresh: () => tiles.forEach(drawTile),
    idle: () => active && !tiles.length && outbox.pending() === 0,
  };
}
