// All answers, doubtful labels, unsure ones and conflicts; pressing one changes it.

import { get } from "./api.js";
import { $, $$, make, named, setText } from "./dom.js";
import { answerText, askChange } from "./dialogs.js";
import { shortName, when } from "./format.js";
import { mark } from "./marks.js";
import { className } from "./store.js";
import { called, small } from "./thumb.js";
import * as work from "./work.js";
import { words } from "./words.js";

const PAGE = 60;

export function createReview(trouble) {
  let show = "all";
  let answers = [];
  let total = 0;
  let turn = 0;
  let active = false;

  function enter() {
    active = true;
    load(true);
  }

  async function load(fresh) {
    const mine = ++turn;
    if (fresh) answers = [];
    try {
      const reply = await get(`/api/review?show=${show}&offset=${answers.length}&limit=${PAGE}`);
      trouble(null);
      if (mine !== turn || !active) return;
      answers = [...answers, ...reply.answers];
      total = reply.total;
      draw();
    } catch (error) {
      if (mine === turn) trouble(error);
    }
  }

  function draw() {
    for (const button of $$("#review-show button")) {
      button.setAttribute("aria-pressed", String(button.dataset.show === show));
    }
    setText($("#review-text"), total ? words.reviewTexts[show] : words.reviewEmpty[show]);
    setText($("#review-total"), total ? words.reviewTotal(total) : "");
    $("#review-list").replaceChildren(...answers.map((answer) => make("li", {}, card(answer))));
    const left = total - answers.length;
    $("#review-more").hidden = left <= 0;
    setText($("#review-more"), words.reviewMore(Math.min(left, PAGE)));
  }

  function card(answer) {
    const text = answerText(answer);
    const lines = [];
    // What the model thinks is shown only where it is the question.
    if (show === "doubtful" && answer.model) lines.push(words.reviewModel(className(answer.model.class)));
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
      load(true);
    });
  }
  $("#review-more").addEventListener("click", () => load(false));

  async function perform(action) {
    if ((action === "undo" || action === "redo") && (await work.step(action))) load(true);
  }

  return {
    enter, perform,
    leave: () => (active = false),
    release: () => {},
    raw: () => false,
    settings: () => {},
    refresh: () => {},
    idle: () => false,
  };
}
