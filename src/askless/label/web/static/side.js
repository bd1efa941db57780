// The panel beside the image or the grid: the class buttons in their fixed order, and the other answers.

import { changeClass } from "./classes.js";
import { $, $$, make, named, setText } from "./dom.js";
import { count } from "./format.js";
import * as keys from "./keys.js";
import { mark, svg } from "./marks.js";
import { openClasses, store } from "./store.js";
import { words } from "./words.js";

const dots = () => svg("svg", { viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
  ...[5, 12, 19].map((cy) => svg("circle", { cx: 12, cy, r: 1 })));

/** `perform(action)` does what a button says. */
export function createSide(perform) {
  let drawn = "";
  let marked = {};

  for (const button of $$("[data-action]")) {
    button.addEventListener("click", (event) => {
      if (event.detail > 0) button.blur();
      perform(button.dataset.action);
    });
  }

  function pressed(event, id) {
    const at = event.timeStamp;
    const before = Number(event.currentTarget.dataset.at || 0);
    event.currentTarget.dataset.at = at;
    if (event.detail > 0) event.currentTarget.blur(); // after a mouse press, Enter must not press it again
    if (event.detail > 1 && at - before < 250) return; // the second half of a double click
    perform(`class:${id}`);
  }

  /** Draw the buttons when the classes or keys changed, else only the counts. */
  function draw() {
    const classes = openClasses();
    const picture = JSON.stringify(classes.map((one) => [one.id, one.name, keys.classKey(one), one.colour]));
    if (picture !== drawn) {
      drawn = picture;
      const { class: focused, menu } = document.activeElement?.dataset || {};
      $("#classes").replaceChildren(...classes.map((one) => {
        const key = keys.shown(keys.classKey(one));
        return make("div", { class: "class-row" }, make("button", {
          type: "button", class: "class", data: { class: one.id }, title: one.name,
          "aria-label": words.classButton(one.name, key), onclick: (event) => pressed(event, one.id),
          oncontextmenu: (event) => {
            event.preventDefault();
            changeClass(one.id);
          },
        }, make("kbd", { text: keys.short(keys.classKey(one)) }), mark(one.id), named(one.name),
        make("span", { class: "hint" }), make("span", { class: "count" })), make("button", {
          type: "button", class: "class-menu icon", data: { menu: one.id }, title: words.classMenu(one.name), "aria-label": words.classMenu(one.name),
          "aria-haspopup": "dialog", onclick: () => changeClass(one.id),
        }, dots()));
      }));
      if (focused || menu) $(focused ? `#classes [data-class="${focused}"]` : `#classes [data-menu="${menu}"]`)?.focus();
      showMarks(marked);
    }
    for (const one of classes) {
      const element = $(`#classes [data-class="${one.id}"] .count`);
      setText(element, count(one.count));
      element.title = words.classCount(one.count, one.accepted);
    }
    $("#undo").disabled = Boolean(store.progress && !store.progress.can_undo);
    $("#redo").disabled = Boolean(store.progress && !store.progress.can_redo);
    $("#find").hidden = classes.length <= 10;
    $("#one-class").hidden = classes.length !== 1;
    setText($("#one-class"), words.oneClass(keys.actionKey("new-class")));
    $("#label-view").classList.toggle("many", classes.length > 8);
  }

  function drawKeys() {
    for (const button of $$("[data-action]")) {
      const key = keys.actionKey(button.dataset.action);
      const name = button.dataset.name;
      const label = words.withKey(words[name], key);
      button.setAttribute("aria-label", label);
      button.title = label;
      if ($("kbd", button)) setText($("kbd", button), words.shortKeys[key] ?? key);
    }
    setText($("#peek kbd"), keys.actionKey("peek"));
    drawn = "";
    draw();
  }

  /** Mark the answer given before (`chosen`) or the suggestion (`suggested`) on its button. */
  function showMarks({ chosen = null, suggested = null } = {}) {
    marked = { chosen, suggested };
    for (const button of $$("#classes [data-class]")) {
      const id = Number(button.dataset.class);
      button.classList.toggle("chosen", id === chosen);
      button.classList.toggle("suggested", id === suggested);
      const hint = id === suggested ? words.suggestedEnter : "";
      setText($(".hint", button), id === chosen ? words.yours : hint);
    }
  }

  /** A short flash on the pressed button: the answer was taken. */
  function flash(id) {
    const button = $(`#classes [data-class="${id}"]`);
    if (!button) return;
    button.classList.add("pressed");
    setTimeout(() => button.classList.remove("pressed"), 180);
  }

  /** Class buttons are dimmed, not disabled, while nothing can be answered: focus must not be lost. */
  function setOpen(open) {
    $("#classes").classList.toggle("closed", !open);
    for (const button of $$("#classes .class, #skip, #unsure")) button.setAttribute("aria-disabled", String(!open));
  }

  return { draw, drawKeys, showMarks, flash, setOpen };
}
