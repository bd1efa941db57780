// All answers and unsure ones as a grid to search and relabel; doubtful labels and conflicts as cards, pressing one changes it.

import { get } from "./api.js";
import { $, $$, make, named, setText } from "./dom.js";
import { answerText, askChange } from "./dialogs.js";
import { createDoubt, tell } from "./doubt.js";
import { shortName, when } from "./format.js";
import { createFinder } from "./items.js";
import { mark } from "./marks.js";
import { called, small } from "./thumb.js";
import * as work from "./work.js";
import { words } from "./words.js";

const PAGE = 60;
const FOUND = { all: { show: "answered", order: "newest" }, unsure: { show: "unsure", order: "newest" } }; // shown as a grid

export function createReview(trouble, press) {
  let finder = null;
  let show = "all";
  let answers = [];
  let total = 0;
  let turn = 0;
  let active = false;
  let judged = { by: null, labels: 0 };
  const doubt = createDoubt(() => answers, settled);
  const isDoubtful = () => show === "doubtful";

  function enter() {
    active = true;
    load(true);
  }

  /** The grid in the place of the cards, where it shows them. */
  function browse() {
    finder = finder || createFinder($("#review-box"), { trouble, perform: press, memory: "reviewModel" });
    $("#review-box").hidden = !FOUND[show];
    if (FOUND[show]) finder.enter(FOUND[show]);
    else finder.leave();
    return Boolean(FOUND[show]);
  }

  async function load(fresh) {
    const mine = ++turn;
    if (fresh && browse()) [answers, total] = [[], 0];
    if (FOUND[show]) return draw();
    if (fresh) answers = [];
    try {
      const reply = await get(`/api/review?show=${show}&offset=${answers.length}&limit=${PAGE}`);
      trouble(null);
      if (mine !== turn || !active) return;
      answers = [...answers, ...reply.answers];
      total = reply.total;
      judged = { by: reply.by, labels: reply.labels };
      draw();
    } catch (error) {
      if (mine === turn) trouble(error);
    }
  }

  function draw() {
    for (const button of $$("#review-show button")) {
      button.setAttribute("aria-pressed", String(button.dataset.show === show));
    }
    const text = total || FOUND[show] ? words.reviewTexts[show] : words.reviewEmpty[show];
    setText($("#review-text"), isDoubtful() ? tell({ ...judged, total }) : text);
    setText($("#review-total"), total ? words.reviewTotal(total) : "");
    if (isDoubtful()) doubt.draw(judged.by);
    else doubt.hide();
    $("#review-list").replaceChildren(...(isDoubtful() ? [] : answers).map((answer) => make("li", {}, card(answer))));
    const left = total - answers.length;
    $("#review-more").hidden = left <= 0;
    setText($("#review-more"), words.reviewMore(Math.min(left, PAGE)));
  }

  function card(answer) {
    const text = answerText(answer);
    const lines = [];
    if (words.reviewKinds[answer.item.kind]) lines.push(words.reviewKinds[answer.item.kind]);
    for (const other of answer.others || []) {
      lines.push(words.reviewOther(other.annotator || words.someone, answerText(other)));
    }
    const when_ = [answer.annotator, answer.at ? when(answer.at) : ""].filter(Boolean).join(" · ");
    return make("button", {
      type: "button", class: "card", data: { item: answer.item.id }, title: answer.item.name,
      "aria-label": [words.reviewCard(called(answer.item), text), ...lines].join(" "),
      onclick: () => change(answer),
    }, small(answer.item, { loading: "lazy" }),
    make("span", { class: "answer" }, answer.unsure ? null : mark(answer.class), named(text)),
    ...lines.map((line) => make("span", { class: "line", text: line })),
    make("span", { class: "faint", text: shortName(answer.item.name) }),
    when_ ? make("span", { class: "faint", text: when_ }) : null);
  }

  function settled(answer) {
    answers = answers.filter((one) => one !== answer);
    total -= 1;
    draw();
    if (!answers.length) load(true);
  }

  async function change(answer) {
    const choice = await askChange(answer);
    if (!choice || (choice.class === answer.class && !choice.unsure && !answer.unsure)) return;
    if (!(await work.answer([answer.item], choice, { change: true }))) return;
    Object.assign(answer, { class: choice.unsure ? null : choice.class, unsure: choice.unsure || null });
    draw();
    $(`#review-list [data-item="${answer.item.id}"]`)?.focus();
  }

  for (const button of $$("#review-show button")) {
    button.addEventListener("click", () => {
      show = button.dataset.show;
      doubt.first();
      load(true);
    });
  }
  $("#review-more").addEventListener("click", () => load(false));

  async function perform(action, event) {
    if (FOUND[show]) return finder.perform(action, event);
    if (action !== "undo" && action !== "redo") return;
    const reply = await work.step(action);
    if (!reply) return;
    await load(true);
    if (isDoubtful()) doubt.show(reply.undone.items);
  }

  return {
    enter, perform,
    leave: () => {
      active = false;
      finder?.leave();
    },
    picked: () => (FOUND[show] ? finder.picked() : []),
    release: () => {},
    raw: (event) => (FOUND[show] ? finder.raw(event) : isDoubtful() && doubt.raw(event)),
    settings: () => {},
    refresh: () => FOUND[show] && finder?.refresh(),
    idle: () => false,
  };
}
