// All answers and unsure ones as a grid to search and relabel; doubtful labels and disagreements one at a time.

import { get } from "./api.js";
import { $, $$, setText } from "./dom.js";
import { createDoubt, tell } from "./doubt.js";
import { createFinder } from "./items.js";
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
    setText($("#review-total"), total ? (show === "conflicts" ? words.differTotal : words.reviewTotal)(total) : "");
    if (FOUND[show]) doubt.hide();
    else doubt.draw(judged.by);
    const left = total - answers.length;
    $("#review-more").hidden = left <= 0;
    setText($("#review-more"), words.reviewMore(Math.min(left, PAGE)));
  }

  function settled(answer) {
    answers = answers.filter((one) => one !== answer);
    total -= 1;
    draw();
    if (!answers.length) load(true);
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
    doubt.show(reply.undone.items);
  }

  return {
    enter, perform,
    leave: () => {
      active = false;
      finder?.leave();
    },
    picked: () => (FOUND[show] ? finder.picked() : []),
    release: () => {},
    raw: (event) => (FOUND[show] ? finder.raw(event) : doubt.raw(event)),
    settings: () => {},
    refresh: () => FOUND[show] && finder?.refresh(),
    idle: () => false,
  };
}
