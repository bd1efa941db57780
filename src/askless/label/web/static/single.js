// One image or text at a time: show, answer, next. An answer names the item on screen, and the next item is asked for only when
// the answer is saved, so the page is never ahead of what the server has.

import { post } from "./api.js";
import { $, announce, make, named, setText, toast } from "./dom.js";
import { answerText, askReason, findClass } from "./dialogs.js";
import { DEBOUNCE } from "./keys.js";
import { mark } from "./marks.js";
import * as outbox from "./outbox.js";
import { createReader } from "./reader.js";
import { className, classOf, openClasses, store, update } from "./store.js";
import { called, isText, small } from "./thumb.js";
import { createViewer } from "./viewer.js";
import * as waiting from "./waiting.js";
import * as work from "./work.js";
import { words } from "./words.js";

/** `side`: the panel of classes; `trouble` shows or hides the warning that the server is gone; `act` does an action. */
export function createSingle(side, trouble, act) {
  let active = false; // this view is open
  let current = null; // the item leased to this tab
  let looking = null; // the earlier answer that is looked at
  let broken = false; // the image cannot be shown
  let saving = false; // an answer is on its way
  let turn = 0; // grows with every change of what is on screen; what comes late is dropped
  let answeredAt = -Infinity;
  let seen = { since: 0, sum: 0 }; // the time the item was in sight

  const zoom = (percent) => setText($("#zoom-level"), percent === null ? "" : words.zoomOf(percent));
  const images = createViewer($("#stage"), { swipe: (way) => act(way === "left" ? "undo" : "skip"), zoom });
  const texts = createReader($("#stage"), { zoom });
  const viewer = () => (isText() ? texts : images);

  const item = () => (looking ? looking.item : current);
  const onScreen = () => item() !== null && viewer().shownId() === item().id && (viewer().isReady() || broken);
  const open = () => active && !saving && onScreen();
  const placeOf = (answer) => store.last.findIndex((one) => one.item.id === answer.item.id);

  // The time in sight, without the time that the page was hidden.
  const startClock = () => (seen = { since: performance.now(), sum: 0 });
  const seconds = () => (seen.sum + (seen.since ? performance.now() - seen.since : 0)) / 1000;
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && seen.since) seen = { since: 0, sum: seen.sum + performance.now() - seen.since };
    else if (!document.hidden && !seen.since) seen.since = performance.now();
  });

  function enter() {
    active = true;
    if (current && !saving) display();
    else if (!saving) next();
  }

  function leave() {
    active = false;
    turn += 1;
    looking = null;
    current = null; // leases may go to the grid or to others; asked for again on return
    viewer().unready();
    hidePeek();
  }

  /** Ask for the next item until there is one or a reason why not. */
  async function next() {
    const mine = ++turn;
    current = null;
    looking = null;
    viewer().unready();
    for (let pause = 500; ; pause = Math.min(2 * pause, 8000)) {
      if (mine !== turn || !active) return;
      try {
        const reply = await post("/api/next", { tab: store.tab });
        trouble(null);
        if (mine !== turn || !active) return;
        update({ progress: reply.progress });
        await take(reply, mine);
        return;
      } catch (error) {
        trouble(error);
        if (!error.passing) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
    }
  }

  async function take(reply, mine) {
    if (!reply.item || reply.code === "no_classes") {
      viewer().blank();
      drawInfo();
      side.showMarks();
      side.setOpen(false);
      waiting.show(reply.code || "other", reply.why);
      return;
    }
    current = reply.item;
    const shown = display();
    viewer().preload((reply.next || []).filter((id) => id !== current.id).slice(0, 3));
    await shown;
    if (mine !== turn) return;
  }

  /** Show the current item, or the earlier answer that is looked at; it can be answered once it has been painted. */
  async function display() {
    const mine = ++turn;
    const shown = item();
    broken = false;
    waiting.hide();
    hidePeek();
    $("#broken").hidden = true;
    const { spent, budget } = store.progress;
    const alt = looking ? words.altBack(shown.name) : words.alt(shown.name, spent + 1, budget);
    drawMarks();
    try {
      if (!(await viewer().show(shown.id, alt)) || mine !== turn) return;
    } catch {
      if (mine !== turn) return;
      broken = true;
      $("#broken").hidden = false;
      announce(words.imageBroken, true);
    }
    drawInfo();
    startClock();
    const early = answeredAt + DEBOUNCE - performance.now();
    if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
    if (mine !== turn) return;
    if (!broken) viewer().markReady();
    side.setOpen(true);
  }

  /** The suggestion that may be shown for the current item: only prefill, never on a check image. */
  function suggestion() {
    if (looking || !current || current.kind === "check" || !store.run) return null;
    return store.run.suggestions === "prefill" && current.suggestion ? current.suggestion.class : null;
  }

  function drawMarks() {
    const before = looking;
    const suggested = suggestion();
    side.showMarks({ chosen: before && !before.unsure ? before.class : null, suggested });
    if (suggested !== null) announce(words.suggestionSaid(className(suggested)));
    $("#looking").hidden = !before;
    const said = before ? words.looking(placeOf(before) + 1, answerText(before)) : "";
    setText($("#looking-text"), `${said}. ${words.lookingHelp}`);
    const peeks = store.run && store.run.suggestions === "peek" && !looking && current && current.kind !== "check";
    $("#peek").hidden = !peeks;
  }

  function drawInfo() {
    const shown = item();
    $("#info").hidden = !shown;
    if (!shown) return;
    setText($("#name"), shown.name);
    $("#name").title = shown.name;
    setText($("#size"), shown.width ? words.size(shown.width, shown.height) : "");
    const reason = shown.kind === "check" ? words.drawn : words.chosen;
    setText($("#reason"), shown.reason ? reason(shown.reason) : "");
    $("#reason").title = shown.reason || "";
  }

  /** Give an answer to the item on screen. */
  async function give(choice, forItem) {
    if (!open() || item().id !== forItem.id) return;
    if (broken && !choice.unsure) return;
    const change = looking !== null;
    const took = seconds();
    saving = true;
    answeredAt = performance.now();
    viewer().unready();
    if (!choice.unsure) side.flash(choice.class);
    await work.answer([forItem], choice, { seconds: took, change });
    saving = false;
    if (!active) return;
    if (change) goBack();
    else await next();
  }

  async function skip() {
    if (!open()) return;
    if (looking) return goBack();
    saving = true;
    answeredAt = performance.now();
    viewer().unready();
    await work.skip(current);
    saving = false;
    if (active) await next();
  }

  async function step(kind) {
    const reply = await work.step(kind);
    if (!reply || !active || saving) return;
    if (!reply.item) return next();
    looking = null;
    current = reply.item;
    await display();
  }

  // Looking back at earlier answers.
  function lookAt(place) {
    if (saving || place < 0 || place >= store.last.length) {
      if (!saving) toast(words.noPrevious);
      return;
    }
    looking = store.last[place];
    display();
    announce(`${store.last[place].item.name}. ${words.looking(place + 1, answerText(store.last[place]))}`);
  }

  function goBack() {
    looking = null;
    $("#looking").hidden = true;
    if (current) display();
    else next();
  }

  const forward = () => (placeOf(looking) > 0 ? lookAt(placeOf(looking) - 1) : goBack());

  // Peeking at the suggestion, while the key or the button is held.
  let peeking = 0;

  async function peek() {
    if (!store.run || store.run.suggestions !== "peek" || looking || !current || !viewer().isReady()) return;
    const mine = ++peeking;
    if (current.kind === "check") return showPeek(words.peekRefused);
    try {
      const reply = await post("/api/peek", { tab: store.tab, item: current.id });
      if (mine !== peeking) return; // let go in the meantime
      showPeek(reply.suggestion ? words.peekShown(className(reply.suggestion.class)) : words.peekNone);
    } catch (error) {
      if (mine === peeking) showPeek(error.message);
    }
  }

  function showPeek(text) {
    setText($("#peeked"), text);
    $("#peeked").hidden = false;
    announce(text);
  }

  function hidePeek() {
    peeking += 1;
    $("#peeked").hidden = true;
  }

  $("#peek").addEventListener("pointerdown", peek);
  for (const type of ["pointerup", "pointercancel", "pointerleave", "blur", "keyup"]) {
    $("#peek").addEventListener(type, hidePeek);
  }
  $("#peek").addEventListener("keydown", (event) => {
    if (!event.repeat && (event.key === "Enter" || event.key === " ")) peek();
  });
  $("#peek").addEventListener("contextmenu", (event) => event.preventDefault());

  // The strip of the last answers.
  let stripDrawn = "";

  function drawStrip() {
    const answers = store.last.map((one) => [one.item.id, one.class, one.unsure]);
    const picture = JSON.stringify([answers, openClasses().map((one) => [one.name, one.colour])]);
    if (picture === stripDrawn) return;
    stripDrawn = picture;
    $("#strip-empty").hidden = store.last.length > 0;
    $("#last").replaceChildren(...store.last.map((one, place) => make("li", {}, make("button", {
      type: "button", class: "last", data: { item: one.item.id }, title: one.item.name,
      "aria-label": words.stripItem(called(one.item), answerText(one)), onclick: () => lookAt(place),
    }, small(one.item, { loading: "lazy" }),
    one.unsure ? null : mark(one.class), named(one.unsure ? words.unsureShort : className(one.class))))));
  }


  async function perform(action, event) {
    const now = item();
    if (action.startsWith("class:")) {
      const id = Number(action.slice(6));
      if (now && classOf(id)) return give({ class: id }, now);
    } else if (action === "accept") {
      const suggested = suggestion();
      if (suggested !== null && now) return give({ class: suggested }, now);
    } else if (action === "skip") {
      return event && event.key === "ArrowRight" && looking ? forward() : skip();
    } else if (action === "unsure" && open()) {
      const choice = await askReason();
      if (choice) return give(choice, now);
    } else if (action === "new-class") {
      const added = await work.newClass(open() && !broken ? 1 : 0);
      if (added && added.label && now) return give({ class: added.id }, now);
      if (added && !now) return next();
    } else if (action === "find" && open()) {
      const id = await findClass(event && /^[a-z]$/i.test(event.key) ? event.key : "");
      if (id !== null) return give({ class: id }, now);
    } else if (action === "undo" || action === "redo") {
      return step(action);
    } else if (action === "back") {
      return lookAt(looking ? placeOf(looking) + 1 : 0);
    } else if (action === "peek") {
      return peek();
    } else if (action === "zoom") {
      viewer().toggle();
    } else if (action === "zoom-in" || action === "zoom-out") {
      viewer().zoomBy(action === "zoom-in" ? 1.25 : 0.8);
    } else if (action === "rotate") {
      viewer().rotate();
    }
  }

  $("#looking-return").addEventListener("click", goBack);
  $("#broken-again").addEventListener("click", () => display());
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && active && looking && !document.querySelector("dialog[open]")) goBack();
  });

  return {
    enter, leave, perform, next,
    // A search begins with what was labelled, never with what is to be: what it finds would tell of the answer.
    picked: () => [looking || store.last[0]].filter(Boolean).map((one) => one.item),
    refresh: drawStrip, // the store changed
    release: hidePeek,
    raw: () => false,
    settings: () => current && !looking && drawMarks(), // the suggestion setting changed
    /** Is there nothing to answer, so that a poll should ask again? */
    idle: () => active && !current && !saving && outbox.pending() === 0,
  };
}
