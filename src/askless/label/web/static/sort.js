// The rest of the images, class by class: a screen of those the model is surest of. A click takes one out, a class key puts
// it right, and one press accepts the others; all of that is one step of undo.

import { get } from "./api.js";
import { $, $$, announce, make, named, setText, toast } from "./dom.js";
import { look } from "./dialogs.js";
import { count, oneDigit, percent } from "./format.js";
import * as kept from "./kept.js";
import * as keys from "./keys.js";
import { colourOf, mark } from "./marks.js";
import * as outbox from "./outbox.js";
import { className, openClasses, store, update } from "./store.js";
import { called, isText, small } from "./thumb.js";
import * as work from "./work.js";
import { words } from "./words.js";

const MOST = 96;
const SIZES = { small: 72, medium: 112, large: 176 }; // px of a tile
const WIDTHS = { small: 160, medium: 240, large: 360 }; // of a text, which is less high than wide
const WIDE = 2.5;
const LOW = 84; // px that a text takes at least
const LEFT_OVER = -1;

export function createSort(trouble) {
  const box = $("#sort-grid");
  let active = false;
  let turn = 0;
  let reply = null; // what the server said last
  let tiles = []; // items with .given: undefined (accepted), null (out) or a class
  let wanted = null; // the class that was asked for; null: the surest
  let focus = 0;
  let hovered = null;
  let model = null;

  const chunk = () => reply && reply.chunk;
  const element = (id) => $(`.tile[data-item="${id}"]`, box);
  const isAccepted = (tile) => tile.given === undefined && chunk().class !== null;

  const tileWidth = () => (isText() ? WIDTHS : SIZES)[$("#sort-size").value];

  /** How many tiles fit, a whole number of rows of them. */
  function fits() {
    $("#sort-work").hidden = false; // what is hidden has no size
    const wide = tileWidth();
    const high = isText() ? Math.max(LOW, wide / WIDE) : wide;
    const columns = Math.max(2, Math.floor((box.clientWidth - 12) / (wide + 8)));
    const rows = Math.max(2, Math.floor((window.innerHeight - box.getBoundingClientRect().top - 90) / (high + 8)));
    return Math.min(MOST, columns * rows);
  }

  function enter() {
    active = true;
    $("#sort-size").value = kept.read("sortSize", "small");
    setSize();
    load();
  }

  async function load() {
    const mine = ++turn;
    try {
      const asked = wanted === null ? "" : `&class=${wanted}`;
      const found = await get(`/api/sort?n=${fits()}${asked}`);
      trouble(null);
      if (mine !== turn || !active) return;
      reply = found;
      model = found.model;
      tiles = found.chunk ? found.chunk.items : [];
      if (found.chunk && wanted !== null && wanted !== (found.chunk.class ?? LEFT_OVER)) wanted = null; // that one is empty
      focus = 0;
      hovered = null;
      update({ progress: found.progress });
      draw();
      element(tiles[0]?.id)?.focus({ preventScroll: true });
      if (found.chunk) announce($("#sort-what").textContent);
    } catch (error) {
      if (mine === turn) trouble(error);
    }
  }

  function draw() {
    drawClasses();
    const nothing = !tiles.length;
    $("#sort-none").hidden = !nothing;
    $("#sort-work").hidden = !tiles.length;
    if (nothing) setText($("#sort-none"), reply.model === null ? words.sortNoModel : words.sortDone);
    box.replaceChildren(...tiles.map((tile, place) => make("div", {
      role: "option", class: "tile", data: { item: tile.id }, tabindex: place === focus ? "0" : "-1", title: tile.name,
    }, small(tile), make("span", { class: "tag" }))));
    tiles.forEach(drawTile);
    setText($("#sort-left"), reply.waiting ? words.sortLeft(reply.waiting, Math.round(reply.expected_wrong), percent(reply.expected_wrong / reply.items)) : "");
    drawBar();
    drawPrecision();
  }

  /** One button per class with how many wait there; pressing it sorts that class. */
  function drawClasses() {
    const waiting = new Map(reply.classes.map((one) => [one.class, one.waiting]));
    const now = chunk() ? chunk().class ?? LEFT_OVER : null;
    const button = (id, name, number, picture) => make("button", {
      type: "button", data: { class: id }, "aria-pressed": String(id === now), disabled: number === 0,
      "aria-label": words.sortClass(name, number), onclick: () => choose(id),
    }, picture, named(name), make("span", { class: "faint", text: count(number) }));
    const focused = document.activeElement?.closest("#sort-classes") ? document.activeElement.dataset.class : null;
    $("#sort-classes").replaceChildren(
      ...openClasses().map((one) => button(one.id, one.name, waiting.get(one.id) || 0, mark(one.id))),
      ...(reply.left_over ? [button(LEFT_OVER, words.sortLeftOver, reply.left_over, null)] : []));
    if (focused !== null) $(`#sort-classes [data-class="${focused}"]`)?.focus();
    $("#sort-give").replaceChildren(...openClasses().map((one) => make("button", {
      type: "button", class: "small", data: { give: one.id }, onclick: () => give(one.id),
    }, make("kbd", { text: keys.short(keys.classKey(one)) }), mark(one.id), named(one.name))));
  }

  function choose(id) {
    wanted = id;
    load();
  }

  function drawTile(tile) {
    const one = element(tile.id);
    if (!one) return;
    const what = tile.given === null ? words.sortOut : tile.given === undefined ? "" : className(tile.given);
    one.classList.toggle("out", tile.given === null);
    one.classList.toggle("answered", tile.given !== undefined && tile.given !== null);
    one.dataset.mark = tile.given === undefined || tile.given === null ? "" : String(colourOf(tile.given));
    one.setAttribute("aria-selected", String(isAccepted(tile)));
    one.setAttribute("aria-label", words.gridTile(called(tile), tiles.indexOf(tile) + 1, tiles.length, what));
    const named_ = tile.given === undefined || tile.given === null ? [] : [mark(tile.given)];
    $(".tag", one).replaceChildren(...(what ? [...named_, named(what)] : []));
  }

  function drawBar() {
    if (!chunk()) return;
    const left = chunk().class === null;
    const name = left ? words.sortLeftOver : className(chunk().class);
    const waiting = left ? reply.left_over : reply.classes.find((one) => one.class === chunk().class).waiting;
    const accepted = tiles.filter(isAccepted).length;
    const right = tiles.filter((tile) => tile.given !== undefined && tile.given !== null).length;
    setText($("#sort-what"), left ? words.sortLeftOverWhat(tiles.length, waiting) : words.sortWhat(name, tiles.length, waiting));
    setText($("#sort-accept"), accepted ? words.sortAccept(accepted, name) : words.sortSave(right));
    $("#sort-accept").disabled = left && right === 0;
    $("#sort-undo").disabled = !store.progress.can_undo;
    $("#sort-redo").disabled = !store.progress.can_redo;
    setText($("#sort-changed"), words.sortChanged(tiles.filter((tile) => tile.given === null).length, right));
  }

  /** How right what was accepted is, in words. */
  function drawPrecision() {
    const told = reply.precision;
    $("#sort-precision").hidden = told.length === 0;
    const name = (one) => (one.class === null ? words.sortAll : className(one.class));
    $("#sort-precision tbody").replaceChildren(...told.map((one) => make("tr", { class: one.class === null ? "all" : null },
      make("th", { scope: "row" }, one.class === null ? null : mark(one.class), named(name(one))),
      make("td", { text: count(one.accepted) }),
      make("td", { text: one.removed ? words.sortRemoved(one.removed.correct, one.removed.n, percent(one.removed.accuracy)) : "–" }),
      make("td", { text: one.check ? words.sortCheck(one.check.correct, one.check.n, percent(one.check.low), percent(one.check.high), one.pooled) : words.progressNot }),
      make("td", { text: one.wrong ? words.sortWrong(oneDigit(one.wrong.expected), count(one.wrong.most)) : words.progressNot }))));
    $("#sort-precision thead tr").replaceChildren(...words.sortHead.map((text) => make("th", { scope: "col", text })));
    const all = told[told.length - 1];
    setText($("#sort-summary"), all ? words.sortSummary(all.accepted, all.wrong && oneDigit(all.wrong.expected), all.wrong && count(all.wrong.most)) : "");
  }

  const target = () => tiles[hovered === null ? focus : tiles.findIndex((tile) => tile.id === hovered)];

  function set(tile, given) {
    tile.given = given === chunk().class ? undefined : given;
    drawTile(tile);
    drawBar();
    announce(element(tile.id).getAttribute("aria-label"));
  }

  const toggle = (tile) => set(tile, tile.given === undefined && chunk().class !== null ? null : undefined);

  function give(id) {
    const tile = target();
    if (tile) set(tile, id);
  }

  async function accept() {
    if (!active || !tiles.length || $("#sort-accept").disabled) return;
    if (outbox.isFailing() || outbox.pending()) return toast(words.gridWait);
    const of = (test) => tiles.filter(test).map((tile) => tile.id);
    const right = tiles.filter((tile) => tile.given !== undefined && tile.given !== null);
    const body = {
      tab: store.tab, class: chunk().class, accepted: of(isAccepted), out: of((tile) => tile.given === null),
      right: right.map((tile) => ({ item: tile.id, class: tile.given })),
    };
    $("#sort-accept").disabled = true;
    try {
      const saved = await outbox.submit("/api/sort", body, store.tab);
      update({ progress: saved.progress, changes: store.changes + 1 });
      toast(words.sortAccepted(body.accepted.length, body.class === null ? "" : className(body.class), right.length));
      if (saved.passed.length) toast(words.sortPassed(saved.passed.length));
    } catch (error) {
      work.refused(error, null, null);
    }
    load();
  }

  function moveTo(place) {
    focus = Math.min(Math.max(place, 0), tiles.length - 1);
    for (const [at, tile] of tiles.entries()) element(tile.id).tabIndex = at === focus ? 0 : -1;
    element(tiles[focus].id).focus();
    hovered = null;
  }

  function columns() {
    const shown = $$(".tile", box);
    const first = shown.findIndex((one) => one.offsetTop > shown[0].offsetTop + 1);
    return first < 0 ? Math.max(1, shown.length) : first;
  }

  function raw(event) {
    const on = !(event.target instanceof Element) || event.target.closest("#sort-grid") || event.target === document.body;
    if (!active || !tiles.length || event.ctrlKey || event.metaKey || event.altKey || !on) return false;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
    if (steps[event.key]) {
      const to = focus + steps[event.key];
      if (to >= 0 && to < tiles.length) moveTo(to);
    } else if (event.key === "Home" || event.key === "End") {
      moveTo(event.key === "Home" ? 0 : tiles.length - 1);
    } else if (event.key === " ") {
      if (!event.repeat) toggle(tiles[focus]);
    } else if (event.key === "Enter") {
      if (!event.repeat) accept();
    } else {
      return false;
    }
    return true;
  }

  function setSize() {
    box.style.setProperty("--tile", `${tileWidth()}px`);
    kept.write("sortSize", $("#sort-size").value);
  }

  box.addEventListener("click", (event) => {
    const one = event.target.closest(".tile");
    if (!one) return;
    const place = tiles.findIndex((tile) => tile.id === Number(one.dataset.item));
    moveTo(place);
    toggle(tiles[place]);
    hovered = tiles[place].id;
  });
  box.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "mouse") return;
    const one = event.target.closest(".tile");
    hovered = one ? Number(one.dataset.item) : null;
  });
  box.addEventListener("pointerleave", () => (hovered = null));
  box.addEventListener("focusin", (event) => {
    const one = event.target.closest(".tile");
    if (one) focus = tiles.findIndex((tile) => tile.id === Number(one.dataset.item));
  });
  $("#sort-accept").addEventListener("click", accept);
  $("#sort-look").addEventListener("click", () => tiles[focus] && look(tiles[focus]));
  $("#sort-size").addEventListener("change", () => {
    setSize();
    load();
  });

  async function perform(action) {
    if (action.startsWith("class:")) give(Number(action.slice(6)));
    else if (action === "undo" || action === "redo") {
      if (await work.step(action)) load();
    } else if (action === "zoom" && target()) look(target());
  }

  return {
    enter, perform, raw,
    leave: () => {
      active = false;
      turn += 1;
    },
    release: () => {},
    settings: () => {},
    /** A new model puts the rest elsewhere; a chunk that a person has begun to look at stays. */
    refresh: () => {
      const now = store.model ? store.model.round : null;
      if (active && reply && !tiles.length && now !== model) load();
    },
    idle: () => false,
  };
}

