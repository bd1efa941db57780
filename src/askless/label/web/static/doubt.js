// Doubtful labels and disagreements, one at a time: the item large, beside its nearest labelled neighbours of both classes;
// keep, or change. Where the answer is not one's own, that is a decision: what people answered stays as it is.

import { $, announce, make, named, toast } from "./dom.js";
import { answerText, askChange, look } from "./dialogs.js";
import * as keys from "./keys.js";
import { mark } from "./marks.js";
import { className, openClasses, store } from "./store.js";
import { called, large, small } from "./thumb.js";
import * as work from "./work.js";
import { words } from "./words.js";

const KEEP = "k";
const CHANGE = "c";

/** `list()` are the answers, `remove(answer)` takes one that is settled out of them and draws again. */
export function createDoubt(list, remove) {
  let at = 0;
  let by = "labels";
  let busy = false;

  const current = () => list()[at];
  const keptClass = (answer) => (answer.given ? answer.keep : answer.against.label);
  const isOwn = (answer) => Boolean(store.annotator) && answer.annotator === store.annotator.name;
  const classOf = (key) => openClasses().find((one) => keys.classKey(one) === key);
  const free = (key) => (keys.shortcutsOff() || classOf(key) ? "" : key); // a key that a class has is the class's

  function draw(judgedBy) {
    by = judgedBy || by;
    at = Math.min(at, Math.max(list().length - 1, 0));
    const box = $("#doubt");
    const answer = current();
    const focused = box.contains(document.activeElement) && document.activeElement.dataset.do;
    box.hidden = !answer;
    box.replaceChildren(...(answer ? parts(answer) : []));
    const item = answer ? String(answer.item.id) : "";
    if (item && item !== box.dataset.item) announce($(".doubt-says", box).textContent);
    box.dataset.item = item;
    if (focused) (box.querySelector(`[data-do="${focused}"]:enabled`) || box.querySelector("button:enabled"))?.focus();
  }

  function parts(answer) {
    const says = answer.given ? saysOf(answer.given) : words.doubtSays(...classesOf(answer).map(className), by);
    const sides = answer.sides.map((one) => side(className(one.class), one.class, one.items));
    return [
      make("h2", { class: "doubt-says", text: says }),
      make("div", { class: "doubt-body" },
        make("figure", {}, large(answer.item, "doubt-image", words.altBack(answer.item.name)),
          make("figcaption", { class: "faint", text: answer.item.name })),
        make("div", { class: "doubt-sides" }, ...sides.filter(Boolean))),
      make("div", { class: "buttons" },
        ...(answer.given ? choices(answer) : [
          button("keep", words.doubtKeep(className(answer.against.label)), free(KEEP), true, keep),
          button("change", words.doubtChange(className(answer.against.class)), free(CHANGE), true, () => change({ class: answer.against.class })),
        ]),
        button("other", words.doubtOther, "", true, choose),
        button("before", words.doubtBefore, "ArrowLeft", at > 0, () => move(-1)),
        button("after", words.doubtAfter, "ArrowRight", at < list().length - 1, () => move(1))),
      answer.given || isOwn(answer) ? null : make("p", { class: "faint", text: words.doubtNotYours(answer.annotator) }),
    ].filter(Boolean);
  }

  const classesOf = (answer) => [answer.against.label, answer.against.class];

  /** Everybody's answer, in a sentence. */
  const saysOf = (given) => words.differSays(given.map((one) => [one.annotator || words.someone, answerText(one)]));

  /** A button for what most people gave, if anything, and one for every class that somebody gave. */
  function choices(answer) {
    const classes = [...new Set(answer.given.map((one) => one.class))].filter((id) => id !== null && id !== answer.keep);
    return [
      answer.keep === null ? null : button("keep", words.differKeep(className(answer.keep)), free(KEEP), true, keep),
      ...classes.map((id) => button(`class-${id}`, words.differTake(className(id)), keyOf(id), true, () => change({ class: id }))),
    ].filter(Boolean);
  }

  function keyOf(id) {
    const one = openClasses().find((each) => each.id === id);
    return one && !keys.shortcutsOff() ? keys.classKey(one) : "";
  }

  function button(action, text, key, enabled, onclick) {
    return make("button", {
      type: "button", data: { do: action }, disabled: !enabled, onclick, "aria-label": words.withKey(text, keys.shown(key)),
    }, key ? make("kbd", { text: keys.short(key) }) : null, named(text));
  }

  function side(name, id, items) {
    if (!items.length) return null;
    return make("section", { class: "doubt-side" },
      make("h3", {}, mark(id), named(words.doubtSide(name))),
      make("ul", {}, ...items.map((item) => make("li", {}, make("button", {
        type: "button", class: "card", data: { neighbour: item.id }, "aria-label": words.doubtLook(called(item)),
        onclick: () => look(item),
      }, small(item))))));
  }

  function move(by_) {
    at = Math.min(Math.max(at + by_, 0), list().length - 1);
    draw();
  }

  const keep = () => change({ class: keptClass(current()), note: current().note }, words.doubtKept);

  async function choose() {
    const { given } = current();
    const choice = await askChange(given ? { ...current(), says: saysOf(given) } : current());
    if (choice) await change(choice);
  }

  async function change(choice, said) {
    const answer = current();
    if (busy || !answer) return;
    busy = true;
    const isMine = !answer.given && isOwn(answer);
    const saved = await (isMine ? work.answer([answer.item], choice, { change: true }) : work.decide(answer.item, choice));
    busy = false;
    if (!saved) return;
    if (said && isMine) toast(said(className(choice.class)));
    remove(answer);
  }

  /** Whether a key was meant for here. */
  function raw(event) {
    if (!current() || event.ctrlKey || event.metaKey || event.altKey || event.repeat) return false;
    const key = keys.keyName(event);
    if (key === "ArrowLeft" || key === "ArrowRight") {
      move(key === "ArrowLeft" ? -1 : 1);
      return true;
    }
    if (keys.shortcutsOff()) return false;
    const one = classOf(key);
    if (one) change({ class: one.id, note: current().note }, one.id === keptClass(current()) ? words.doubtKept : null);
    else if (key === KEEP && keptClass(current()) !== null) keep();
    else if (key === CHANGE && current().against) change({ class: current().against.class });
    else return false;
    return true;
  }

  /** After an undo: the item again, where it is in the list. */
  function show(items) {
    const place = list().findIndex((answer) => items.includes(answer.item.id));
    if (place >= 0) at = place;
    draw();
  }

  return { draw, raw, show, hide: () => ($("#doubt").hidden = true), first: () => (at = 0) };
}

/** What is said above the list. */
export function tell({ by, labels, total }) {
  if (total) return by === "model" ? words.doubtByModel : words.doubtByLabels;
  return by ? words.doubtNone(labels) : words.doubtTooFew;
}
