// Everything about a class in one dialog: name, key, colour, merging. Opened from its button, the menu and the Progress view.

import { ask, askMerge } from "./dialogs.js";
import { $, $$, make, setText } from "./dom.js";
import * as keys from "./keys.js";
import { COLOURS, mark } from "./marks.js";
import { classOf, className, openClasses } from "./store.js";
import { words } from "./words.js";
import * as work from "./work.js";

/** Ask what is to be changed about a class, and change it. */
export async function changeClass(id) {
  const wanted = await askAbout(id);
  if (!wanted) return;
  const one = classOf(wanted.id);
  if (wanted.merge) return merge(one);
  const path = `/api/classes/${one.id}`;
  if (wanted.name !== one.name && !(await work.change(`${path}/rename`, { name: wanted.name }, words.renamed(wanted.name)))) return;
  const colour = wanted.colour === one.colour ? null : wanted.colour;
  const key = wanted.key === shownKey(one) ? null : wanted.key;
  if (colour === null && key === null) return;
  if (!(await work.change(`${path}/look`, { colour, key }, words.classSaved(wanted.name)))) return;
  if (key !== null) keys.forget(one.id);
}

async function merge(one) {
  const into = await askMerge(one);
  if (into === null) return;
  await work.change(`/api/classes/${one.id}/merge`, { into }, words.merged(one.name, className(into)));
}

/** The key of a class where it is one letter or digit; Shift with a digit cannot be typed into a box. */
const shownKey = (one) => (keys.classKey(one).length === 1 ? keys.classKey(one) : "");

/** -> {id, name, key, colour} or {id, merge: true} */
function askAbout(first) {
  const dialog = $("#class-dialog");
  const [which, name, key, problem] = ["#class-which", "#class-name", "#class-key", "#class-problem"].map((at) => $(at));
  const colours = $("#class-colours");
  const id = () => Number(which.value);

  function fill() {
    const one = classOf(id());
    name.value = one.name;
    key.value = shownKey(one);
    setText(problem, "");
    colours.replaceChildren(...Array.from({ length: COLOURS }, (_, colour) => make("label", { title: words.colours[colour] },
      make("input", { type: "radio", name: "colour", value: colour, "aria-label": words.colours[colour], checked: colour === one.colour }),
      mark(one.id, colour))));
  }

  /** What is wrong with what was typed, "" if nothing. */
  function wrong() {
    const typed = name.value.trim();
    const same = openClasses().find((one) => one.id !== id() && one.name.toLowerCase() === typed.toLowerCase());
    if (!typed) return [name, words.newClassBlank];
    if (same) return [name, words.newClassExists(same.name)];
    if (key.value && !/^[\p{L}\p{N}]$/u.test(key.value)) return [key, words.classKeyBad];
    const owner = key.value && keys.takenBy(key.value.toLowerCase(), id());
    return owner ? [key, words.helpTaken(key.value, owner)] : null;
  }

  return ask(dialog, (finish, on) => {
    which.replaceChildren(...openClasses().map((one) => make("option", { value: one.id, text: one.name })));
    which.value = String(first);
    $("#class-merge").hidden = openClasses().length < 2;
    fill();
    on(which, "change", fill);
    on(key, "focus", () => key.select());
    on($("#class-merge"), "click", () => finish({ id: id(), merge: true }));
    on($("form", dialog), "submit", (event) => {
      event.preventDefault();
      const found = wrong();
      setText(problem, found ? found[1] : "");
      if (found) return found[0].focus();
      const colour = Number($$("input", colours).find((one) => one.checked)?.value);
      finish({ id: id(), name: name.value.trim(), key: key.value.toLowerCase(), colour });
    });
  });
}
