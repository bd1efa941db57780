// Finding items: filters, a search by name, an order, and the grid of what matches. The view of all items, and Review's
// answers, are two of these with other beginnings.

import { $, make, setText } from "./dom.js";
import { createBrowse } from "./browse.js";
import { shortName } from "./format.js";
import * as kept from "./kept.js";
import { openClasses, store } from "./store.js";
import { words } from "./words.js";

const TYPING = 250; // ms of silence after which a search begins
const ALL = { show: "all", text: "", label: "", predicted: "", kind: "", person: "", order: "id", by: "best", like: "", items: "", doubtful: false };

/** `memory` names where the browser keeps whether predictions are shown; `model` is that at first. */
export function createFinder(root, { trouble, perform, memory, model = false }) {
  let wanted = { ...ALL };
  let names = []; // of the items that a search began with
  let people = "";
  let drawn = "";
  let timer = 0;

  const box = (name, options) => {
    const select = make("select", { data: { filter: name }, onchange: () => change({ [name]: select.value }) }, ...options.map(option));
    return make("label", {}, make("span", { text: words.itemsFilter[name] }), select);
  };
  const option = ([value, text]) => make("option", { value, text });
  const pick = (name) => $(`[data-filter="${name}"]`, root);

  const search = make("input", {
    type: "search", maxlength: "200", autocomplete: "off", data: { filter: "text" }, "aria-label": words.itemsSearch,
    placeholder: words.itemsSearch,
  });
  const shown = make("input", { type: "checkbox", data: { filter: "model" } });
  const begun = make("p", { class: "found-by", hidden: true });
  const browse = createBrowse(root, { trouble, perform, found: took });
  // On a small screen the items come first, and the filters when they are asked for.
  const isWide = matchMedia("(min-width: 761px)").matches;
  root.prepend(make("div", { class: "filters" }, search, make("details", { open: isWide }, make("summary", { text: words.itemsFilters }),
    make("div", { class: "filters" }, box("show", Object.entries(words.itemsShow)), box("label", []), box("predicted", []),
    box("kind", [["", words.itemsAny], ...Object.entries(words.itemsKinds)]), box("person", []), box("order", Object.entries(words.itemsOrders)),
    make("label", { class: "switch" }, shown, make("span", { text: words.itemsModel }))))), begun);
  shown.checked = kept.read(memory, model);

  function change(part) {
    if (part.show !== undefined) Object.assign(part, { doubtful: part.show === "doubtful", show: part.show === "doubtful" ? "labelled" : part.show });
    wanted = { ...wanted, ...part };
    return start();
  }

  function start(take = false) {
    draw();
    return browse.open({ ...wanted, model: shown.checked || wanted.predicted !== "" || ["sure", "unsure"].includes(wanted.order) }, { take });
  }

  /** Begin with `query`, and the names of the items that a search began with. */
  function enter(query = {}, called = []) {
    wanted = { ...ALL, ...query };
    names = called;
    return start(true);
  }

  function draw() {
    const classes = openClasses().map((one) => [String(one.id), one.name]);
    const picture = JSON.stringify(classes);
    if (picture !== drawn) {
      drawn = picture;
      for (const name of ["label", "predicted"]) pick(name).replaceChildren(...[["", words.itemsAny], ...classes].map(option));
    }
    for (const name of ["label", "predicted", "kind", "person", "order"]) pick(name).value = wanted[name];
    pick("show").value = wanted.doubtful ? "doubtful" : wanted.show;
    if (document.activeElement !== search) search.value = wanted.text;
    const by = wanted.like || wanted.items;
    begun.hidden = !by;
    pick("order").closest("label").hidden = Boolean(wanted.like) || wanted.doubtful; // those have an order of their own
    if (!by) return;
    const n = by.split(",").length;
    const text = wanted.like ? words.itemsLikeThese(names.slice(0, 3).map(shortName), n) : words.itemsFromMap(n);
    const means = make("select", { "aria-label": words.itemsCompare, data: { filter: "by" }, onchange: (event) => change({ by: event.target.value }) },
      ...Object.entries(words.itemsNearest).map(option));
    means.value = wanted.by;
    begun.replaceChildren(make("span", { text }), wanted.like && n > 1 ? means : "",
      make("button", { type: "button", class: "small", text: words.itemsEnd, onclick: () => enter() }));
  }

  /** Who has answered comes with every page. */
  function took(reply) {
    const picture = JSON.stringify(reply.people);
    if (picture === people) return;
    people = picture;
    pick("person").replaceChildren(...[["", words.itemsAny], ...reply.people.map((name) => [name, name])].map(option));
    pick("person").value = wanted.person;
    pick("person").closest("label").hidden = reply.people.length < 2;
  }

  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => change({ text: search.value.trim() }), TYPING);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    clearTimeout(timer);
    change({ text: search.value.trim() }).then(browse.first);
  });
  shown.addEventListener("change", () => {
    kept.write(memory, shown.checked);
    start();
  });

  return {
    enter, resume: () => start(true), raw: browse.raw, perform: browse.act, picked: browse.picked, refresh: browse.refresh,
    leave: () => {
      clearTimeout(timer);
      browse.close();
    },
  };
}

/** The view of all items. */
export function createItems(trouble, perform) {
  let finder = null;
  let next = null; // what is wanted, where that is not what was there before

  /** What the view shows when it is entered: a query, and the names of the items it began with. */
  function find(query, names = []) {
    next = [query, names];
    if (document.body.dataset.view === "items") enter();
  }

  function enter() {
    const again = finder !== null && next === null;
    finder = finder || createFinder($("#items-box"), { trouble, perform, memory: "itemsModel", model: true });
    setText($("#items-text"), words.itemsText);
    if (again) finder.resume();
    else finder.enter(...(next || []));
    next = null;
  }

  return {
    enter, find,
    leave: () => finder.leave(),
    perform: (action, event) => finder.perform(action, event),
    raw: (event) => finder.raw(event),
    picked: () => finder.picked(),
    refresh: () => finder && finder.refresh(),
    release: () => {},
    settings: () => {},
    idle: () => false,
  };
}
