// How far it is and whether to stop: budget, honest accuracy, advice, classes, data problems, and the actions.

import { get } from "./api.js";
import { $, $$, make, named, setText } from "./dom.js";
import { changeClass } from "./classes.js";
import { createClaims } from "./claims.js";
import { confirm } from "./dialogs.js";
import { drawCurve } from "./curve.js";
import { createFiles } from "./files.js";
import { clock, count, isKnown, oneDigit, percent, twoDigits } from "./format.js";
import * as keys from "./keys.js";
import { colourOf, mark } from "./marks.js";
import { openClasses, store, update } from "./store.js";
import * as work from "./work.js";
import { drawWorth } from "./worth.js";
import { words } from "./words.js";

export function createProgress(trouble) {
  let active = false;
  let turn = 0;
  let drawnVersion = null;
  const files = createFiles();
  const drawClaims = createClaims(() => load());

  function enter() {
    active = true;
    drawnVersion = null;
    fillBudget("");
    load();
    files.enter();
  }

  /** The number in the box, unless somebody is typing there. */
  function fillBudget(value) {
    const input = $("#budget-input");
    if (document.activeElement !== input) input.value = value;
  }

  async function load() {
    const mine = ++turn;
    const version = `${store.version}/${store.changes}`;
    try {
      const reply = await get("/api/progress");
      trouble(null);
      if (mine !== turn || !active) return;
      drawnVersion = version;
      update({ progress: reply.progress });
      draw(reply);
    } catch (error) {
      if (mine === turn) trouble(error);
    }
  }

  function draw(reply) {
    drawAdvice(reply.advice);
    drawMeasure(reply.measure);
    drawBudget(reply);
    drawWorth(reply.outlook);
    drawClaims(reply.claims || []);
    drawRounds(reply.curve || [], reply.outlook.ahead, reply.training);
    drawClasses(reply.mix || []);
    drawData(reply.skipped || {});
    drawPeople(reply.annotators || []);
    for (const input of $$("#suggestions input")) input.checked = input.value === store.run.suggestions;
  }

  const lines = (list) => list.filter(Boolean).map((text) => make("li", { text }));

  function drawAdvice(advice) {
    $("#advice").dataset.verdict = advice ? advice.verdict : "";
    const verdict = advice ? words.verdicts[advice.verdict] || advice.verdict : "";
    const text = advice ? advice.text : "";
    const begins = advice && text.toLowerCase().startsWith(`${advice.verdict}: `); // said in large letters already
    setText($("#verdict"), verdict);
    const rest = begins ? text.slice(advice.verdict.length + 2) : text;
    setText($("#advice-text"), rest.charAt(0).toUpperCase() + rest.slice(1));
    const isNew = (reason) => !text.toLowerCase().includes(reason.toLowerCase()); // not in the sentence already
    $("#advice-reasons").replaceChildren(...lines(((advice && advice.reasons) || []).filter(isNew)));
  }

  function drawMeasure(measure) {
    $("#measure").classList.toggle("none", !measure);
    setText($("#measure-value"), measure ? percent(measure.accuracy) : words.progressNot);
    const not = store.run.check_share === 0 ? words.progressNever : words.progressNotText;
    const { accuracy, low, high, n, correct, worth } = measure || {};
    const inHundred = [accuracy, low, high].map((share) => count(Math.round(100 * share)));
    setText($("#measure-interval"), measure ? words.progressInterval(...inHundred) : "");
    $("#measure-how").hidden = !measure;
    setText($("#measure-how p"), measure ? words.measureHowText(n, Math.round(worth)) : "");
    setText($("#measure-text"), measure ? words.progressCorrect(correct, n) : not);
    drawRange(measure);
  }

  /** The interval as a bar from 0 to 100 %. */
  function drawRange(measure) {
    $("#measure-range").hidden = !measure;
    if (!measure) return;
    $("#measure-range .span").style.left = `${100 * measure.low}%`;
    $("#measure-range .span").style.width = `${100 * (measure.high - measure.low)}%`;
    $("#measure-range .at").style.left = `clamp(2px, ${100 * measure.accuracy}%, 100% - 2px)`;
  }

  function drawBudget({ progress, rate }) {
    const { spent, budget, train, check, second, found } = progress;
    setText($("#budget-used"), words.progressUsed(spent, budget));
    $("#budget-bar").max = Math.max(budget, 1);
    $("#budget-bar").value = spent;
    const minutes = rate ? rate.minutes_left_in_batch : null;
    $("#budget-lines").replaceChildren(...lines([
      words.progressTrain(train.done, train.planned),
      check.planned ? words.progressCheck(check.done, check.planned) : "",
      second.planned ? words.progressSecond(second.done, second.planned) : "",
      found ? words.progressFound(found) : "",
      rate ? words.progressRate(oneDigit(rate.per_minute)) : words.progressNoRate,
      isKnown(minutes) ? words.progressBatchLeft(minutes, oneDigit(minutes)) : "",
    ]));
    if (!$("#budget-input").value) fillBudget(budget);
  }

  function drawRounds(curve, ahead, training) {
    const measured = curve.filter((point) => isKnown(point.accuracy) && point.n > 0);
    $("#curve-empty").hidden = measured.length > 0;
    const picture = measured.length ? drawCurve(measured, ahead, $("#curve-empty").parentElement.clientWidth - 40) : make("div", { id: "curve" });
    $("#curve").replaceWith(picture);
    setText($("#curve-note"), measured.length ? curveNote(measured, ahead) : "");
    $("#rounds").hidden = curve.length === 0;
    fillHead($("#rounds thead"), words.roundsHead, words.roundsTerms);
    const or = (value, format) => (isKnown(value) ? format(value) : "–");
    $("#rounds tbody").replaceChildren(...curve.map((point) => make("tr", {}, ...[
      count(point.round), count(point.labels), or(point.accuracy, percent),
      or(point.low, (low) => `${percent(low)} – ${percent(point.high)}`), or(point.n, count),
      or(point.change, percent), or(point.margin, twoDigits), or(point.seconds, clock),
    ].map((text) => make("td", { text })))));
    const last = curve[curve.length - 1];
    $("#pool-lines").replaceChildren(...lines([
      last && isKnown(last.change) ? words.progressChanged(percent(last.change)) : words.progressNoChange,
      last && isKnown(last.margin) ? words.progressMargin(twoDigits(last.margin)) : "",
      training,
    ]));
    if ($("#pool-lines li:nth-child(2)")) $("#pool-lines li:nth-child(2)").title = words.progressMarginTerm;
  }

  const curveNote = (measured, ahead) =>
    [words.curveNote(measured[measured.length - 1].n), ahead.length ? words.curveAhead : ""].join(" ");

  function fillHead(head, texts, terms = []) {
    const cells = texts.map((text, place) => (text ? make("th", { scope: "col", text, title: terms[place] || null }) : make("td")));
    head.replaceChildren(make("tr", {}, ...cells));
  }

  function drawClasses(mix) {
    fillHead($("#class-table thead"), words.classesHead);
    const open = openClasses();
    const most = Math.max(1, ...open.map((one) => one.count));
    const focused = document.activeElement?.dataset.do;
    $("#class-table tbody").replaceChildren(...open.map((one) => {
      const share = mix.find((each) => each.class === one.id);
      const bar = make("span", { class: `bar mark-${colourOf(one.id)}` });
      const number = make("span", { class: "number", text: words.classLabels(one.count, one.accepted) });
      bar.style.width = `${(100 * one.count) / most}%`;
      return make("tr", {},
        make("th", { scope: "row" }, mark(one.id), named(one.name)),
        make("td", {}, make("kbd", { text: keys.shown(keys.classKey(one)) })),
        make("td", { class: "counted" }, number, make("span", { class: "track" }, bar)),
        make("td", { text: share ? percent(share.share) : "–" }),
        make("td", { class: "buttons" },
          make("button", {
            type: "button", class: "small", text: words.classChange, "aria-label": words.classMenu(one.name), data: { do: `class-${one.id}` },
            onclick: () => changeClass(one.id).then(load),
          })));
    }));
    if (focused) $(`[data-do="${focused}"]`)?.focus();
  }

  function drawData(skipped) {
    const found = Object.entries(words.dataProblems).filter(([name]) => skipped[name] > 0);
    const said = found.map(([name, text]) => text(skipped[name]));
    $("#data-lines").replaceChildren(...lines(said.length ? said : [words.dataNone]));
    $("#data-see").hidden = found.length === 0;
  }

  function drawPeople(people) {
    const who = (one) => words.peopleOf(one.name || one.annotator || "", one.count ?? one.answers ?? one.labels ?? 0);
    $("#people").hidden = people.length < 2;
    $("#people-lines").replaceChildren(...lines(people.map((one) => (typeof one === "string" ? one : who(one)))));
  }

  $("#budget-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const input = $("#budget-input");
    const budget = Number(input.value);
    const bad = !Number.isInteger(budget) || budget <= store.progress.spent;
    setText($("#budget-problem"), bad ? words.budgetBad(store.progress.spent) : "");
    if (bad) return input.focus();
    if (await work.change("/api/budget", { budget }, words.budgetSaved(budget))) load();
  });
  $("#train-now").addEventListener("click", async () => {
    if (!(await confirm(words.trainConfirm, words.trainText, words.trainNow))) return;
    if (await work.change("/api/train", {}, words.trainAsked)) load();
  });
  for (const input of $$("#suggestions input")) {
    input.addEventListener("change", async () => {
      const suggestions = input.value;
      const saved = await work.change("/api/settings", { suggestions }, words.suggestionsSaved);
      if (saved) update({ run: { ...store.run, suggestions } });
      else load();
    });
  }

  async function perform(action) {
    if ((action === "undo" || action === "redo") && (await work.step(action))) load();
  }

  return {
    enter, perform,
    leave: () => (active = false),
    release: () => {},
    raw: () => false,
    settings: () => {},
    /** Loaded again when something changed, and while the worker is busy. */
    refresh: () => {
      if (active && drawnVersion !== null && drawnVersion !== `${store.version}/${store.changes}`) {
        drawnVersion = null;
        load();
      }
    },
    idle: () => false,
  };
}
