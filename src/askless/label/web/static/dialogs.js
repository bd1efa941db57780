// The dialogs. Each opens a <dialog> of index.html and gives back a promise of what was chosen, null when cancelled.

import { $, $$, announce, make, named, setText } from "./dom.js";
import * as keys from "./keys.js";
import { mark } from "./marks.js";
import { className, openClasses, store } from "./store.js";
import { large } from "./thumb.js";
import { words } from "./words.js";

const REASONS = ["ambiguous", "quality", "other"];

/** Open a dialog; `ready(finish)` fills it, `finish(value)` closes it. Esc and a click beside it cancel. */
export function ask(dialog, ready) {
  return new Promise((resolve) => {
    const stop = new AbortController();
    const on = (element, type, handler) => element.addEventListener(type, handler, { signal: stop.signal });
    let value = null;
    const finish = (chosen) => {
      value = chosen;
      dialog.close();
    };
    on(dialog, "close", () => {
      stop.abort();
      resolve(value);
    });
    on(dialog, "click", (event) => {
      if (event.target === dialog || event.target.closest("[data-close]")) finish(null);
    });
    ready(finish, on);
    dialog.showModal();
  });
}

/** Why is it unsure? -> {unsure, note} */
export function askReason() {
  const dialog = $("#unsure-dialog");
  const note = $("#unsure-note");
  note.value = "";
  return ask(dialog, (finish, on) => {
    const choose = (reason) => finish({ unsure: reason, note: note.value.trim() });
    for (const button of $$("button[data-reason]", dialog)) on(button, "click", () => choose(button.dataset.reason));
    on(dialog, "keydown", (event) => {
      const place = ["1", "2", "3"].indexOf(keys.keyName(event));
      if (place < 0 || event.target === note || event.repeat) return;
      event.preventDefault();
      choose(REASONS[place]);
    });
  });
}

/** The name of a new class -> {name, label}; `many` is how many images would be labelled with it. */
export function askNewClass(many) {
  const dialog = $("#new-class-dialog");
  const input = $("#new-class-name");
  const problem = $("#new-class-problem");
  input.value = "";
  problem.textContent = "";
  const label = $("#new-class-label");
  label.hidden = many === 0;
  label.textContent = many > 1 ? words.newClassAndLabelMany(many) : words.newClassAndLabel;
  $("#new-class-only").classList.toggle("primary", many === 0);
  return ask(dialog, (finish, on) => {
    const add = (andLabel) => {
      const name = input.value.trim();
      const same = openClasses().find((one) => one.name.toLowerCase() === name.toLowerCase());
      if (!name) problem.textContent = words.newClassBlank;
      else if (same) problem.textContent = words.newClassExists(same.name);
      else finish({ name, label: andLabel });
      if (dialog.open) input.focus();
    };
    on($("form", dialog), "submit", (event) => {
      event.preventDefault();
      add(many > 0);
    });
    on($("#new-class-only"), "click", () => add(false));
    on(input, "input", () => (problem.textContent = ""));
  });
}

/** Type a part of a class's name -> its id. `seed` is a letter that was already typed. */
export function findClass(seed = "") {
  const dialog = $("#find-dialog");
  const input = $("#find-name");
  const list = $("#find-list");
  let found = [];
  let place = 0;
  input.value = seed;
  return ask(dialog, (finish, on) => {
    const draw = () => {
      const wanted = input.value.trim().toLowerCase();
      const open = openClasses();
      const starts = open.filter((one) => one.name.toLowerCase().startsWith(wanted));
      found = [...starts, ...open.filter((one) => !starts.includes(one) && one.name.toLowerCase().includes(wanted))];
      place = Math.min(place, Math.max(0, found.length - 1));
      list.replaceChildren(...found.map((one, at) => make("li", {
        id: `find-${one.id}`, role: "option", "aria-selected": String(at === place), onclick: () => finish(one.id),
      }, mark(one.id), named(one.name), make("kbd", { text: keys.shown(keys.classKey(one)) }))));
      setText($("#find-count"), found.length ? words.findCount(found.length) : words.findNone);
      input.setAttribute("aria-activedescendant", found[place] ? `find-${found[place].id}` : "");
      const chosen = $("[aria-selected=true]", list);
      if (chosen && dialog.open) chosen.scrollIntoView({ block: "nearest" });
    };
    on(input, "input", () => {
      place = 0;
      draw();
    });
    on(input, "keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step || !found.length) return;
      event.preventDefault();
      place = (place + step + found.length) % found.length;
      draw();
    });
    on($("form", dialog), "submit", (event) => {
      event.preventDefault();
      if (found[place]) finish(found[place].id);
    });
    draw();
  });
}

/** Yes or no -> true or null. */
export function confirm(title, text, yes) {
  const dialog = $("#confirm-dialog");
  setText($("#confirm-title"), title);
  setText($("#confirm-text"), text);
  setText($("#confirm-yes"), yes);
  return ask(dialog, (finish, on) => on($("#confirm-yes"), "click", () => finish(true)));
}

/** The person's name -> text. */
export function askName() {
  const input = $("#name-input");
  input.value = (store.annotator && store.annotator.name) || "";
  return ask($("#name-dialog"), (finish, on) => {
    on($("#name-dialog form"), "submit", (event) => {
      event.preventDefault();
      if (input.value.trim()) finish(input.value.trim());
    });
  });
}

/** The class to merge `one` into -> id. */
export function askMerge(one) {
  const select = $("#merge-into");
  setText($("#merge-title"), words.mergeTitle(one.name));
  setText($("#merge-text"), words.mergeText(one.name, one.count));
  const others = openClasses().filter((other) => other.id !== one.id);
  select.replaceChildren(...others.map((other) => make("option", { value: other.id, text: other.name })));
  return ask($("#merge-dialog"), (finish, on) => {
    on($("#merge-dialog form"), "submit", (event) => {
      event.preventDefault();
      if (select.value !== "") finish(Number(select.value));
    });
  });
}

/** An answer as text: "cat", or "unsure: cannot be seen". */
export function answerText(answer) {
  if (answer.unsure) return words.unsureOf(words.reasons[answer.unsure] || answer.unsure);
  return answer.class === null || answer.class === undefined ? "" : className(answer.class);
}

/** Look at an answered image, large, and answer again -> {class} or {unsure}. Class keys work here too. */
export function askChange(answer) {
  const dialog = $("#change-dialog");
  const item = answer.item;
  $("#change-image").replaceWith(large(item, "change-image", words.altBack(item.name)));
  setText($("#change-name"), item.name);
  setText($("#change-now"), answer.says || words.changeNow(answerText(answer)));
  return ask(dialog, (finish, on) => {
    $("#change-classes").replaceChildren(
      ...openClasses().map((one) => make("button", {
        type: "button", class: "class", "aria-label": words.classButton(one.name, keys.shown(keys.classKey(one))),
        "aria-pressed": String(answer.class === one.id), onclick: () => finish({ class: one.id }),
      }, make("kbd", { text: keys.short(keys.classKey(one)) }), mark(one.id), named(one.name))),
      ...REASONS.map((reason) => make("button", {
        type: "button", class: "class", "aria-pressed": String(answer.unsure === reason),
        onclick: () => finish({ unsure: reason }),
      }, named(words.unsureOf(words.reasons[reason])))),
    );
    on(dialog, "keydown", (event) => {
      if (event.repeat || keys.shortcutsOff()) return;
      const one = openClasses().find((each) => keys.classKey(each) === keys.keyName(event));
      if (!one) return;
      event.preventDefault();
      finish({ class: one.id });
    });
  });
}

/** Only look at an image, large. */
export function look(item) {
  const dialog = $("#look-dialog");
  $("#look-image").replaceWith(large(item, "look-image", item.name));
  setText($("#look-name"), item.name);
  return ask(dialog, (finish, on) => {
    on(dialog, "keydown", (event) => {
      if (event.key !== "Enter" || event.target.closest("button")) return;
      event.preventDefault();
      finish(null);
    });
  });
}

/** The key list, with remapping and the switch. `changed()` is called when a key is another one. */
export function showKeys(changed) {
  const dialog = $("#help-dialog");
  const off = $("#shortcuts-off");
  const problem = $("#help-problem");
  let waiting = null; // {target, button}
  off.checked = keys.shortcutsOff();
  problem.textContent = "";

  const row = (target, what, shownKeys, before) => make("tr", {},
    make("th", { scope: "row" }, ...(before ? [before] : []), what),
    make("td", {}, ...shownKeys.map((key) => make("kbd", { text: keys.shown(key) }))),
    make("td", {}, target === "accept" ? "" : make("button", {
      type: "button", class: "small", text: words.helpChange, "aria-label": words.helpChangeOf(what), data: { target },
      onclick: (event) => {
        settle();
        waiting = { target, button: event.currentTarget };
        waiting.button.textContent = words.helpPress;
        announce(words.helpPress);
      },
    })));

  function settle() {
    if (waiting) waiting.button.textContent = words.helpChange;
    waiting = null;
  }

  function draw() {
    $("#help-classes").replaceChildren(...openClasses().map((one) => {
      const key = keys.classKey(one);
      return row(`class:${one.id}`, one.name, key ? [key] : [], mark(one.id));
    }));
    for (const part of ["do", "look"]) {
      const rows = keys.ACTIONS.filter((one) => one.part === part);
      const drawn = rows.map((one) => row(one.id, words.actions[one.id], keys.actionKeys(one.id)));
      $(`#help-${part}`).replaceChildren(...drawn);
    }
    $("#help-grid").replaceChildren(...words.helpGridRows.map(([key, what]) => make("tr", {},
      make("th", { scope: "row", text: what }), make("td", {}, make("kbd", { text: key })))));
  }

  return ask(dialog, (finish, on) => {
    draw();
    on(off, "change", () => keys.setShortcutsOff(off.checked));
    on($("#help-reset"), "click", () => {
      keys.resetKeys();
      draw();
      changed();
    });
    on(dialog, "cancel", (event) => {
      if (waiting) event.preventDefault(); // Esc leaves the remapping, not the dialog
      settle();
    });
    on(dialog, "keydown", (event) => {
      if (!waiting || ["Shift", "Control", "Alt", "Meta", "Tab"].includes(event.key)) return;
      event.preventDefault();
      event.stopPropagation();
      if (event.key === "Escape") return settle();
      const { target } = waiting;
      problem.textContent = keys.remap(target, event);
      if (problem.textContent) return settle();
      waiting = null;
      draw();
      changed();
      $(`[data-target="${target}"]`, dialog).focus();
    });
  });
}
