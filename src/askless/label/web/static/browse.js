// A grid of items to look through: as many as match, loaded as one scrolls. A class key or button answers the selection,
// else the item in focus, in one request and one step of undo. The "Items" and "Review" views and what the map selects use it.

import { get } from "./api.js";
import { $, announce, make, named, setText, toast } from "./dom.js";
import { answerText, askChange, askReason, confirm, findClass, look } from "./dialogs.js";
import { percent, shortName } from "./format.js";
import * as kept from "./kept.js";
import * as keys from "./keys.js";
import { colourOf, mark } from "./marks.js";
import * as outbox from "./outbox.js";
import { className, classOf, openClasses, store } from "./store.js";
import { called, small } from "./thumb.js";
import * as work from "./work.js";
import { words } from "./words.js";

const PAGE = 120; // items that are loaded at once
const MANY = 50; // above this many, ask before labelling
const MOST = 2000; // items of one request
const SIZES = [6, 8, 10.5, 14, 19]; // rem

/** The query string of what is wanted; empty parts are left out. */
export function queryOf(wanted) {
  const parts = Object.entries(wanted).filter(([, value]) => value !== "" && value !== null && value !== undefined && value !== false);
  return new URLSearchParams(parts.map(([name, value]) => [name, String(value)])).toString();
}

/** `perform(action)` does what a button says; `found(reply)` hears what came. */
export function createBrowse(root, { trouble, perform, found }) {
  const text = make("p", { class: "faint browse-total", role: "status" });
  const grid = make("div", { class: "browse-grid", role: "listbox", "aria-multiselectable": "true", "aria-label": words.itemsLabel });
  const more = make("button", { type: "button", class: "browse-more", hidden: true, onclick: () => load() });
  const classes = make("div", { class: "browse-classes", role: "group", "aria-label": words.classesLabel });
  const selectedText = make("span", { class: "browse-selected" });
  const tool = (name, action, key = "") => make("button", {
    type: "button", data: { tool: name }, "aria-label": words.withKey(words[name], key), onclick: action,
  }, key ? make("kbd", { text: key }) : null, make("span", { text: words[name] }));
  const tools = make("div", { class: "toolbar" },
    tool("gridAll", selectAll), tool("gridClear", clear), tool("gridLook", () => openLarge()),
    tool("itemsLike", () => perform("like"), "m"), tool("itemsUnsure", () => perform("unsure"), "u"),
    tool("undo", () => perform("undo")), tool("redo", () => perform("redo")));
  const bar = make("div", { class: "browse-bar", hidden: true }, selectedText, classes, tools);
  root.append(text, grid, more, bar);

  let wanted = {};
  let items = []; // what the server said of each, the newest answer put in
  let placeOf = new Map(); // item -> place
  let total = 0;
  let offset = 0; // of the next page
  let loading = false;
  let selected = new Set();
  let focus = 0;
  let anchor = 0;
  let turn = 0;
  let active = false;
  let since = 0;
  let drawnClasses = "";

  const drawnAs = new Map(); // item -> its tile
  const element = (id) => drawnAs.get(id);

  /** Show what matches, from the beginning. */
  function open(query, { take = false } = {}) {
    active = true;
    wanted = query;
    turn += 1;
    items = [];
    placeOf = new Map();
    selected.clear();
    [offset, focus, anchor, total, loading] = [0, 0, 0, 0, false];
    grid.setAttribute("aria-busy", "true"); // what is still seen is of the search before, and does nothing
    return load(take);
  }

  async function load(take = false) {
    if (loading) return;
    loading = true;
    const mine = turn;
    try {
      const reply = await get(`/api/items?${queryOf({ ...wanted, offset, limit: PAGE })}`);
      if (mine !== turn || !active) return;
      trouble(null);
      if (!offset) {
        grid.removeAttribute("aria-busy");
        grid.replaceChildren();
        drawnAs.clear();
      }
      offset += reply.items.length;
      total = reply.total;
      const fresh = reply.items.filter((item) => !placeOf.has(item.id)); // labels may have moved some to another page
      for (const item of fresh) placeOf.set(item.id, items.push(item) - 1);
      grid.append(...fresh.map(tileOf));
      for (const item of fresh) drawTile(item);
      found(reply);
      draw();
      since = performance.now();
      if (take && items.length) moveTo(0);
      loading = false;
      if (reply.items.length && !fresh.length && offset < total) await load();
    } catch (error) {
      if (mine !== turn || !active) return;
      if (error.status === 400) {
        grid.removeAttribute("aria-busy");
        grid.replaceChildren();
        bar.hidden = more.hidden = true;
        setText(text, words.failure(error.message));
      } else {
        trouble(error);
      }
    } finally {
      if (mine === turn) loading = false;
    }
  }

  function close() {
    active = false;
    turn += 1;
  }

  // --- What is seen. ---

  function tileOf(item) {
    const place = placeOf.get(item.id);
    const one = make("div", { role: "option", class: "tile", data: { item: item.id }, tabindex: place === focus ? "0" : "-1", title: item.name },
      small(item, { loading: "lazy" }), make("span", { class: "tick", "aria-hidden": "true" }),
      make("span", { class: "below" }, make("span", { class: "given" }), make("span", { class: "said" })),
      make("span", { class: "caption", text: shortName(item.name) }));
    drawnAs.set(item.id, one);
    return one;
  }

  /** Why an item cannot be labelled here, in a word. */
  const reason = (item) => (["label", "change"].includes(item.can) ? "" : words.itemsCannot[item.can] || "");

  function drawTile(item) {
    const one = element(item.id);
    if (!one) return;
    const { answer, model } = item;
    const given = answer ? answerText(answer) : "";
    const said = model ? words.itemsSaid(className(model.class), percent(model.prob)) : "";
    const cannot = item.can === "theirs" ? words.itemsBy(answer ? answer.annotator : words.someone) : reason(item);
    one.setAttribute("aria-selected", String(selected.has(item.id)));
    const heard = [given, said, cannot].filter(Boolean).join(", ");
    one.setAttribute("aria-label", words.gridTile(called(item), placeOf.get(item.id) + 1, total, heard));
    const labelled = answer && !answer.unsure;
    one.classList.toggle("answered", Boolean(answer));
    one.dataset.mark = labelled ? String(colourOf(answer.class)) : "";
    const short = answer && answer.unsure ? words.unsureShort : given || cannot;
    $(".given", one).replaceChildren(...(labelled ? [mark(answer.class)] : []), ...(short ? [named(short)] : []));
    $(".given", one).classList.toggle("faint", !given);
    $(".said", one).replaceChildren(...(model ? [mark(model.class), named(said)] : []));
  }

  function draw() {
    setText(text, total ? words.itemsTotal(total, items.length) : words.itemsNone);
    more.hidden = offset >= total;
    setText(more, words.reviewMore(Math.min(PAGE, total - offset)));
    bar.hidden = !items.length;
    drawBar();
  }

  function drawBar() {
    const cannot = [...selected].filter((id) => reason(items[placeOf.get(id)])).length;
    const parts = [selected.size ? words.gridSelected(selected.size) : words.itemsFocused, cannot ? words.itemsOfThem(cannot) : ""];
    setText(selectedText, parts.filter(Boolean).join(" · "));
    $("[data-tool=gridClear]", tools).disabled = !selected.size;
    for (const kind of ["undo", "redo"]) $(`[data-tool=${kind}]`, tools).disabled = !(store.progress && store.progress[`can_${kind}`]);
    const picture = JSON.stringify(openClasses().map((one) => [one.id, one.name, keys.classKey(one)]));
    if (picture === drawnClasses) return;
    drawnClasses = picture;
    items.forEach(drawTile); // a class may have another name
    classes.replaceChildren(...openClasses().map((one) => make("button", {
      type: "button", class: "class", data: { class: one.id }, title: one.name,
      "aria-label": words.classButton(one.name, keys.shown(keys.classKey(one))), onclick: () => perform(`class:${one.id}`),
    }, make("kbd", { text: keys.short(keys.classKey(one)) }), mark(one.id), named(one.name))));
  }

  function drawAll() {
    items.forEach(drawTile);
    drawBar();
  }

  // --- Focus and selection. ---

  function moveTo(place, { select = false } = {}) {
    if (!items.length) return;
    const to = Math.min(Math.max(place, 0), items.length - 1);
    const before = element(items[focus]?.id);
    if (before) before.tabIndex = -1;
    focus = to;
    if (select) selectRange(anchor, to);
    else anchor = to;
    const now = element(items[to].id);
    now.tabIndex = 0;
    now.focus();
    if (to >= items.length - columns() && offset < total) load();
  }

  function selectRange(from, to) {
    const [low, high] = from < to ? [from, to] : [to, from];
    const before = selected;
    selected = new Set(items.slice(low, high + 1).map((item) => item.id));
    for (const id of new Set([...before, ...selected])) drawTile(items[placeOf.get(id)]);
    drawBar();
  }

  function toggle(place) {
    const { id } = items[place];
    if (!selected.delete(id)) selected.add(id);
    anchor = place;
    drawTile(items[place]);
    drawBar();
    announce(words.gridSelected(selected.size));
  }

  function selectAll() {
    selected = new Set(items.map((item) => item.id));
    drawAll();
    announce(words.gridSelected(selected.size));
  }

  function clear() {
    selected.clear();
    drawAll();
  }

  const columns = () => getComputedStyle(grid).gridTemplateColumns.split(" ").length;

  /** What an answer goes to, or a search begins with. */
  function picked() {
    if (selected.size) return items.filter((item) => selected.has(item.id));
    return items[focus] ? [items[focus]] : [];
  }

  // --- Answers. ---

  async function give(choice, to = picked()) {
    if (!active || !to.length) return;
    if (outbox.isFailing() || outbox.pending() > 1) return toast(words.gridWait);
    const able = to.filter((item) => !reason(item));
    const left = to.length - able.length;
    if (!able.length) return toast(words.itemsNoneAble);
    if (able.length > MOST) return toast(words.itemsTooMany(MOST));
    const what = choice.unsure ? words.unsureOf(words.reasons[choice.unsure]) : className(choice.class);
    const sure = () => confirm(words.confirmTitle(able.length), words.confirmText(able.length, what), words.confirmYes(what));
    if (able.length > MANY && !(await sure())) return;
    const seconds = Math.min((performance.now() - since) / 1000 / able.length, 600);
    since = performance.now();
    const fresh = able.filter((item) => !item.answer).length;
    const last = placeOf.get(to[to.length - 1].id);
    const mine = turn;
    if (!(await work.label(able, choice, { seconds, seen: Boolean(wanted.model) })) || mine !== turn) return;
    const given = { class: choice.unsure ? null : choice.class, unsure: choice.unsure || null, annotator: store.annotator.name };
    for (const item of able) Object.assign(item, { answer: given, can: "change" });
    if (wanted.show === "unanswered") offset -= fresh; // they will not be among the next pages' items
    selected.clear();
    drawAll();
    if (left) toast(words.itemsLeft(left));
    if (active && grid.contains(document.activeElement)) moveTo(nextOpen(last));
  }

  /** The next item without an answer, else the next one. */
  function nextOpen(from) {
    for (let place = from + 1; place < items.length; place++) {
      if (!items[place].answer && !reason(items[place])) return place;
    }
    return Math.min(from + 1, items.length - 1);
  }

  async function step(kind) {
    const reply = await work.step(kind);
    const touched = reply ? reply.undone.items.filter((id) => placeOf.has(id)) : [];
    if (!touched.length || !active) return drawBar();
    const mine = turn;
    for (let i = 0; i < touched.length; i += 500) {
      const part = { model: wanted.model, items: touched.slice(i, i + 500).join(","), limit: 500 };
      const now = await get(`/api/items?${queryOf(part)}`).catch(() => null);
      if (!now || mine !== turn) return;
      for (const item of now.items) Object.assign(items[placeOf.get(item.id)], { answer: item.answer, can: item.can });
    }
    offset = Math.min(items.length, offset + (wanted.show === "unanswered" && kind === "undo" ? touched.length : 0));
    drawAll();
    moveTo(placeOf.get(touched[0]));
  }

  async function openLarge() {
    const item = items[focus];
    if (!item) return;
    if (item.can !== "change" || !item.answer || item.answer.annotator !== store.annotator.name) return look(item);
    const choice = await askChange({ item, class: item.answer.class, unsure: item.answer.unsure });
    if (choice) await give(choice, [item]);
  }

  /** The grid's own keys; true when the key is used up. */
  function raw(event) {
    if (!active || !items.length) return false;
    const control = event.ctrlKey || event.metaKey;
    const on = !(event.target instanceof Element) || grid.contains(event.target) || event.target === document.body;
    if (!on || event.altKey) return false;
    if (control && event.key.toLowerCase() === "a") {
      selectAll();
      return true;
    }
    if (control) return false;
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns(), ArrowDown: columns() };
    if (steps[event.key]) {
      const to = focus + steps[event.key];
      if (to >= 0 && to < items.length) moveTo(to, { select: event.shiftKey });
    } else if (event.key === "Home" || event.key === "End") {
      moveTo(event.key === "Home" ? 0 : items.length - 1, { select: event.shiftKey });
    } else if (event.key === " ") {
      if (!event.repeat) toggle(focus);
    } else if (event.key === "Enter") {
      if (!event.repeat) openLarge();
    } else if (event.key === "Escape" && selected.size) {
      clear();
    } else {
      return false;
    }
    return true;
  }

  async function act(action, event) {
    const to = picked();
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
    } else if (action === "zoom") {
      return openLarge();
    } else if (action === "zoom-in" || action === "zoom-out") {
      setSize(kept.read("tileSize", 2) + (action === "zoom-in" ? 1 : -1));
    }
  }

  function setSize(size) {
    const level = Math.min(Math.max(size, 0), SIZES.length - 1);
    grid.style.setProperty("--tile", `${SIZES[level]}rem`);
    kept.write("tileSize", level);
  }

  grid.addEventListener("click", (event) => {
    const tile = event.target.closest(".tile");
    const place = tile ? placeOf.get(Number(tile.dataset.item)) : undefined;
    if (place === undefined) return;
    if (event.shiftKey) return moveTo(place, { select: true });
    toggle(place);
    moveTo(place);
  });
  grid.addEventListener("dblclick", (event) => event.target.closest(".tile") && openLarge());
  grid.addEventListener("focusin", (event) => {
    const tile = event.target.closest(".tile");
    focus = (tile && placeOf.get(Number(tile.dataset.item))) ?? focus;
  });
  new IntersectionObserver((seen) => {
    if (seen.some((one) => one.isIntersecting) && active && offset > 0 && offset < total) load();
  }, { rootMargin: "600px" }).observe(more);
  setSize(kept.read("tileSize", 2));

  return { open, close, raw, act, picked, refresh: () => active && items.length && drawBar(), first: () => moveTo(focus) };
}
