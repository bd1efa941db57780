// The page of a labelling run: start, the header and status line, tabs, polling, and who hears a key.
//
// The files, one subject each: words (texts), format, dom, api, kept (browser storage), store (what is known), outbox
// (submits that must not be lost), keys, marks (colour and shape of a class), viewer (zoom and pan), reader (texts), thumb, dialogs, work
// (answers, undo, classes), classes (name, key and colour of one), side (class buttons), waiting, and the views single, grid,
// items (+ browse), review (+ doubt), progress + curve, map (+ lasso).
//
// Hooks that tests may rely on:
//   #image, #text           what is on screen; data-item=ID, data-ready="true" once it can be answered
//   #classes button[data-class="0"]   the class buttons          #skip #unsure #undo #redo #new-class #find #back #peek
//   #saved                  data-state=saved|saving|failed       #spent #batch   "37 / 200", "batch 2 (17/20)"
//   #tabs button[data-view="single|grid|sort|items|review|progress|map"]    body[data-view] is the open one
//   #items-box, #review-box: [data-filter=...] .tile[data-item] .browse-bar [data-tool] [data-class]
//   #grid .tile[data-item]  aria-selected, class "answered"      #grid-next   #last button[data-item]
//   #waiting                data-code=training|held|other_tab|finished|no_classes|...   #first-names #first-form
//   #toast #worker #trouble #notice (refusals, conflicts)        #live #alert (said aloud)
//   #advice #verdict #measure-value #curve #budget-input #train-now #suggestions   #map #map-tip
//   #sort-grid .tile[data-item] class "out"   #sort-accept #sort-classes #sort-give   #files-panel #files-state
//   #review-show button[data-show]   #doubt button[data-do]
//   #new-class-dialog #new-class-name, #unsure-dialog button[data-reason], #find-dialog #find-name, #change-dialog,
//   #classes [data-menu="0"], #menu-classes, #class-dialog #class-which #class-name #class-key #class-colours #class-merge,
//   #name-dialog #name-input, #confirm-dialog #confirm-yes, #help-dialog #shortcuts-off

import { get, post } from "./api.js";
import { $, $$, announce, fillWords, make, setText, toast } from "./dom.js";
import { askName, showKeys } from "./dialogs.js";
import { changeClass } from "./classes.js";
import { clock, isKnown } from "./format.js";
import { createGrid } from "./grid.js";
import { createItems } from "./items.js";
import * as kept from "./kept.js";
import * as keys from "./keys.js";
import { createMap } from "./map.js";
import * as outbox from "./outbox.js";
import { createProgress } from "./progress.js";
import { createReview } from "./review.js";
import { createSide } from "./side.js";
import { createSingle } from "./single.js";
import { createSort } from "./sort.js";
import { allClasses, openClasses, store, subscribe, update } from "./store.js";
import * as waiting from "./waiting.js";
import { refused } from "./work.js";
import { language, speakOf, words } from "./words.js";

const POLL = 2000; // ms between two looks at the state
const POLL_SOON = 600; // when the next images may be there any moment
const POLL_HIDDEN = 15_000;
const HEARTBEAT = 60_000;
const AWAY = 10 * 60_000; // no sign of a person for so long: leases may lapse

let view = "single";
let views = {};
let lastRound = null;
let lastInput = Date.now();

// --- Trouble: one line under the header for a gone server or run, a full disk, a lost sign-in. ---

const troubles = { server: null, save: null };

/** What only a person can fix: [the line, the text beside the dot]; null if retrying may help. */
function lasting(error) {
  if (error.status === 401) return [words.signedOut, words.failedToken];
  if (error.status === 507) return [words.diskFull, words.failedDisk];
  return error.code === "gone" ? [words.runGone, words.failedGone] : null;
}

function drawTrouble() {
  const { save, server } = troubles;
  const error = save ? save.error : server;
  const box = $("#trouble");
  box.hidden = !error;
  if (!error) return;
  let text = words.noServer;
  if (lasting(error)) [text] = lasting(error);
  else if (save) text = words.notSavedIn(Math.max(1, Math.round((save.retryAt - Date.now()) / 1000)));
  else if (error.status >= 400) text = words.failure(error.message);
  setText($("#trouble-text"), text);
  $("#trouble-retry").hidden = error.status === 401;
}

/** The server cannot be reached (or can again: null), apart from saving. */
function trouble(error) {
  const changed = Boolean(error) !== Boolean(troubles.server);
  troubles.server = error;
  drawTrouble();
  if (error && changed) announce($("#trouble-text").textContent, true);
}

function drawSaved(state) {
  const element = $("#saved");
  const before = element.dataset.state;
  const [line, text] = (state.error && lasting(state.error)) || [words.notSaved, words[state.state]];
  element.dataset.state = state.state;
  setText($("#saved .text"), text);
  troubles.save = state.state === "failed" ? state : null;
  if (state.state === "saved") troubles.server = null;
  drawTrouble();
  if (state.state === "failed" && before !== "failed") announce(line, true);
}

setInterval(() => troubles.save && drawTrouble(), 1000); // counts down to the next try

// --- Header and status line. ---

function drawHeader() {
  const { run, progress } = store;
  if (!run || !progress) return;
  setText($("#run"), run.name);
  $("#run").title = run.folder;
  setText($("#spent"), words.spent(progress.spent, progress.budget));
  const bar = $("#spent-bar");
  bar.max = Math.max(progress.budget, 1);
  bar.value = progress.spent;
  bar.setAttribute("aria-label", words.spentLabel(progress.spent, progress.budget));
  const { batch, check } = progress;
  const checks = check.planned ? words.checkOnly(check.done, check.planned) : "";
  setText($("#batch"), batch ? words.batch(batch.round, batch.done, batch.size) : checks);
  setText($("#person"), (store.annotator && store.annotator.name) || words.menuNoName);
  if (!document.hidden) document.title = words.titleOf(run.name, progress.spent, progress.budget);
}

function drawWorker() {
  const { worker, model } = store;
  if (!worker) return;
  const busy = !["waiting", "finished", "stopped", "failed"].includes(worker.step);
  const parts = [model ? words.modelOf(model.labels, model.round) : words.modelNone];
  if (worker.problem) parts.push(words.workerFailed(worker.problem));
  else parts.push(worker.text || words.steps[worker.step] || "");
  if (busy && isKnown(worker.seconds_left)) parts.push(words.left(clock(worker.seconds_left)));
  setText($("#worker-text"), parts.filter(Boolean).join(" "));
  $("#worker").dataset.step = worker.step;
  $("#worker").classList.toggle("problem", Boolean(worker.problem));
  const bar = $("#worker-bar");
  bar.hidden = !(busy && worker.total > 0);
  if (!bar.hidden) Object.assign(bar, { max: worker.total, value: worker.done });
  waiting.drawWorker();
}

/** The model has chosen a new batch: say so, quietly. */
function noticeBatch() {
  const batch = store.progress && store.progress.batch;
  if (!batch || batch.ahead) return; // begun before its model was ready
  const { round } = batch;
  if (lastRound !== null && round > lastRound) {
    toast(words.batchReady(round));
    if (document.hidden) document.title = words.titleReady(store.run.name);
  }
  lastRound = round;
}

// --- Views. ---

function open(name) {
  if (name === view && document.body.dataset.view) return;
  const before = views[view];
  const labels = (each) => each === "single" || each === "grid";
  const left = document.body.dataset.view ? before.leave() : null; // the grid gives its images back first
  view = name;
  document.body.dataset.view = name;
  waiting.hide();
  for (const button of $$("#tabs button")) {
    if (button.dataset.view === name) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  $("#label-view").hidden = !labels(name);
  $("#single-view").hidden = name !== "single";
  $("#grid-view").hidden = name !== "grid";
  for (const other of ["sort", "items", "review", "progress", "map"]) $(`#${other}-view`).hidden = name !== other;
  window.scrollTo(0, 0);
  const patience = new Promise((resolve) => setTimeout(resolve, 1500));
  Promise.race([Promise.resolve(left), patience]).then(() => view === name && views[name].enter());
}

function full() {
  if (document.fullscreenElement) document.exitFullscreen();
  else document.documentElement.requestFullscreen?.().catch(() => {});
}

function perform(action, event) {
  if (action === "help") return showKeys(sideKeys);
  if (action === "full") return full();
  if (action === "grid") return open(view === "grid" ? "single" : "grid");
  if (action === "like" || (action === "peek" && view !== "single")) return moreLike(views[view].picked?.() || []);
  const done = views[view].perform(action, event);
  if (action === "undo" || action === "redo") Promise.resolve(done).then(poll); // brings the last answers
  return done;
}

/** The items without an answer that most resemble these. */
function moreLike(items) {
  const from = items.filter((item) => item.kind !== "check" || item.answer !== null).slice(0, 200);
  if (!from.length) return toast(words.itemsLikeNone);
  show({ show: "unanswered", like: from.map((item) => item.id).join(",") }, from.map((item) => item.name));
}

/** The view of items, with what is wanted. */
function show(query, names = []) {
  views.items.find(query, names);
  open("items");
}

let sideKeys = () => {};

// --- Polling. ---

let pollTimer = 0;

async function poll() {
  clearTimeout(pollTimer);
  const changes = store.changes;
  try {
    const state = await get(`/api/state?tab=${encodeURIComponent(store.tab)}`);
    trouble(null);
    take(state, changes);
    const idle = views[view].idle && views[view].idle();
    if (idle && !document.hidden) views[view].next(); // asks again, and leases, only for a person who sees it
  } catch (error) {
    trouble(error);
  }
  const soon = ["training", "held", "other_tab"].includes(document.body.dataset.waiting);
  pollTimer = setTimeout(poll, document.hidden ? POLL_HIDDEN : soon ? POLL_SOON : POLL);
}

/** Believe a state, unless this page changed something while it was on its way. */
function take(state, changes) {
  const stale = changes !== store.changes || outbox.pending() > 0;
  const { progress, last, ...rest } = state;
  update(stale ? rest : { ...rest, progress, last: last || [] });
}

// --- Menu: name, colours. ---

async function changeName() {
  if (outbox.pending()) return toast(words.gridWait); // it must be saved under the name that gave it
  const name = await askName();
  if (!name) return;
  try {
    await post("/api/release", { tab: store.tab }); // what is on screen was given to the name before
    await post("/api/annotator", { name });
    update({ annotator: { ...store.annotator, name, asked: true } });
    toast(words.nameSaved(name));
  } catch (error) {
    refused(error, null, null);
  }
  views[view].next?.();
}

function setTheme(theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  kept.write("theme", theme);
  if (view === "map") views.map.draw();
}

function setUpMenu() {
  const menu = $("#menu");
  $("#menu-name").addEventListener("click", () => {
    menu.open = false;
    changeName();
  });
  $("#menu-keys").addEventListener("click", () => {
    menu.open = false;
    perform("help");
  });
  $("#menu-classes").addEventListener("click", () => {
    menu.open = false;
    changeClass(openClasses()[0].id);
  });
  for (const input of $$("#themes input")) {
    input.checked = input.value === kept.read("theme", "system");
    input.addEventListener("change", () => setTheme(input.value));
  }
  document.addEventListener("pointerdown", (event) => {
    if (menu.open && !event.target.closest("#menu")) menu.open = false;
  });
  menu.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    $("summary", menu).focus();
  });
  menu.addEventListener("focusout", (event) => {
    if (menu.open && event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false;
  });
}

// --- Start. ---

function fillReasons() {
  const reasons = Object.keys(words.reasons);
  $("#unsure-reasons").replaceChildren(...reasons.map((reason, place) => make("button", {
    type: "button", class: "class", data: { reason },
    "aria-label": words.withKey(words.reasons[reason], String(place + 1)),
  }, make("kbd", { text: String(place + 1) }), make("span", { class: "name", text: words.reasons[reason] }),
  make("span", { class: "faint", text: words.reasonHelp[reason] }))));
}

function fillSuggestions() {
  const kinds = Object.entries(words.suggestionKinds);
  $("#suggestions").append(...kinds.map(([kind, text]) => make("label", { class: "radio" },
    make("input", { type: "radio", name: "suggestions", value: kind }), make("span", { text }))));
}

/** Ask for the state until it comes. */
async function firstState() {
  for (let pause = 500; ; pause = Math.min(2 * pause, 5000)) {
    try {
      const state = await get(`/api/state?tab=${encodeURIComponent(store.tab)}`);
      trouble(null);
      return state;
    } catch (error) {
      trouble(error);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}

async function start() {
  document.documentElement.lang = language;
  fillWords();
  fillReasons();
  fillSuggestions();
  setUpMenu();
  const side = createSide(perform);
  sideKeys = () => side.drawKeys();
  views = {
    single: createSingle(side, trouble, perform), grid: createGrid(side, trouble), sort: createSort(trouble),
    items: createItems(trouble, perform), review: createReview(trouble, perform), progress: createProgress(trouble),
    map: createMap(trouble, show),
  };
  waiting.setUp(() => views[view].next?.(), open);
  waiting.show("starting", "");
  let first = "single"; // the view to begin with: a tab may be pressed before the answers of last time are sent
  for (const button of $$("#tabs button")) {
    button.addEventListener("click", (event) => {
      if (event.detail > 0) button.blur(); // after a mouse press, Enter means the image again
      if (first) first = button.dataset.view;
      else open(button.dataset.view);
    });
  }
  outbox.onState(drawSaved);
  drawSaved({ state: "saved", error: null, retryAt: 0 });

  let keyPicture = "";
  let suggestions = "";
  subscribe((part) => {
    if (part.progress || part.run) {
      const classes = allClasses().map((one) => [one.id, one.name, one.key, one.hidden]);
      const picture = JSON.stringify([store.run && store.run.keys, classes]);
      if (picture !== keyPicture) {
        keyPicture = picture;
        keys.rebuild();
        side.drawKeys();
      }
      side.draw();
      $("#menu-classes").hidden = !openClasses().length;
      drawHeader();
      noticeBatch();
    }
    if (part.run && part.run.suggestions !== suggestions) {
      suggestions = part.run.suggestions;
      views[view].settings();
    }
    if (part.annotator) drawHeader();
    if (part.worker) drawWorker();
    views[view].refresh();
  });

  store.tab = await kept.tabId();
  const state = await firstState();
  if (state.run.noun !== "image") {
    document.body.dataset.noun = state.run.noun;
    speakOf(state.run.noun);
    fillWords();
    fillReasons();
    sideKeys();
  }
  update(state);
  if (state.run.annotators > 1 && !(state.annotator && state.annotator.asked)) {
    await changeName(); // may be cancelled; asked again at the next visit
  }
  const unsent = outbox.takeUp(state.run.folder, store.tab);
  if (unsent.length) {
    waiting.show("sending", "");
    await Promise.all(unsent.map((one) => one.catch((error) => refused(error, null, null))));
    await get(`/api/state?tab=${encodeURIComponent(store.tab)}`).then(update, () => {});
  }
  // Images that closed tabs of this browser still hold are given back. Not when a page is left: it may be a reload, and
  // that must show the same image.
  for (const tab of await kept.closedTabs(store.tab)) await post("/api/release", { tab }).catch(() => {});

  keys.listen({
    perform,
    raw: (event) => views[view].raw(event),
    release: (action) => views[view].release(action),
  });
  $("#help").addEventListener("click", () => perform("help"));
  $("#trouble-retry").addEventListener("click", () => {
    outbox.retryNow();
    poll();
  });
  $("#notice-close").addEventListener("click", () => ($("#notice").hidden = true));
  window.addEventListener("online", outbox.retryNow);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) poll();
  });
  document.addEventListener("fullscreenchange", () => {
    document.body.classList.toggle("full", Boolean(document.fullscreenElement));
  });
  for (const type of ["pointerdown", "keydown", "wheel"]) {
    document.addEventListener(type, () => (lastInput = Date.now()), { passive: true, capture: true });
  }
  setInterval(() => {
    if (Date.now() - lastInput < AWAY) post("/api/heartbeat", { tab: store.tab }).catch(() => {});
  }, HEARTBEAT);
  window.addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload(); // back from another page: leases may have ended
  });
  open(first);
  first = null;
  pollTimer = setTimeout(poll, POLL);
}

start();
