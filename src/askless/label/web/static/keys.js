// Which key does what. Digits go by event.code, so that the number pad and an AZERTY top row work; letters and signs go
// by what is printed on them. Keys of classes come before those of actions, and what a person remapped before both.

import * as kept from "./kept.js";
import { openClasses, store } from "./store.js";
import { words } from "./words.js";

/** The actions with their default keys, in the order of the key list. */
export const ACTIONS = [
  { id: "undo", keys: ["Backspace"], also: ["ctrl+z"], part: "do" },
  { id: "redo", keys: [], also: ["ctrl+shift+z"], part: "do" },
  { id: "skip", keys: ["s", "ArrowRight"], part: "do" },
  { id: "unsure", keys: ["u"], part: "do" },
  { id: "new-class", keys: ["n"], part: "do" },
  { id: "find", keys: ["/"], part: "do" },
  { id: "accept", keys: ["Enter"], part: "do" },
  { id: "back", keys: ["ArrowLeft"], part: "look" },
  { id: "peek", keys: ["m"], part: "look" },
  { id: "like", keys: ["l"], part: "look" },
  { id: "zoom", keys: ["z"], part: "look" },
  { id: "zoom-in", keys: ["+", "="], part: "look", repeats: true },
  { id: "zoom-out", keys: ["-"], part: "look", repeats: true },
  { id: "rotate", keys: ["r"], part: "look" },
  { id: "full", keys: ["f"], part: "look" },
  { id: "grid", keys: ["g"], part: "look" },
  { id: "help", keys: ["?"], part: "look" },
];

const HELD = ["Shift", "Control", "Alt", "Meta"];
const FIXED = new Set(["Escape", "Tab", "Enter", " ", "ArrowUp", "ArrowDown", "Home", "End", ...HELD]);
const BOXES = "input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true]";
const NUMPAD = { NumpadAdd: "+", NumpadSubtract: "-", NumpadDivide: "/" };
export const DEBOUNCE = 120; // ms; the same key again within this time is one press

let table = new Map(); // key name -> action id, or "class:3"
let remapped = { actions: {}, classes: {} };

const classStore = () => `keys.${store.run ? store.run.folder : ""}`;

/** The key's name: "1", "shift+1", "s", "/", "Backspace", "ctrl+z". */
export function keyName(event) {
  const control = event.ctrlKey || event.metaKey;
  if (control) return `ctrl+${event.shiftKey ? "shift+" : ""}${event.key.toLowerCase()}`;
  const digit = /^(Digit|Numpad)(\d)$/.exec(event.code || "");
  if (digit) {
    // With Num Lock on, Shift turns a number pad's 1 into "End" and hides itself.
    const hidden = digit[1] === "Numpad" && !/^\d$/.test(event.key) && event.getModifierState("NumLock");
    return event.shiftKey || hidden ? `shift+${digit[2]}` : digit[2];
  }
  if (NUMPAD[event.code]) return NUMPAD[event.code];
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

/** A key as people read it. */
export function shown(key) {
  if (!key) return "";
  if (words.keyNames[key]) return words.keyNames[key];
  if (key.startsWith("shift+")) return words.shiftOf(key.slice(6));
  return key.length === 1 ? key : key[0].toUpperCase() + key.slice(1);
}

/** The same for a button, where room is scarce. */
export const short = (key) => (key.startsWith("shift+") ? words.shortShift(key.slice(6)) : shown(key));

/** "1" to "0" for the first ten classes, Shift with them for the next ten. */
function placeKey(place) {
  if (place >= 20) return "";
  return `${place >= 10 ? "shift+" : ""}${(place + 1) % 10}`;
}

/** The server's way to write a key ("c", "1", "Shift+1") in ours. */
function ownName(key) {
  const text = String(key || "");
  if (/^(shift\+|⇧)\d$/i.test(text)) return `shift+${text.slice(-1)}`;
  return text.length === 1 ? text.toLowerCase() : "";
}

/** The one key of a class that is shown on its button. */
export function classKey(one) {
  const custom = Object.entries((store.run && store.run.keys) || {}).find(([, id]) => id === one.id);
  const wanted = remapped.classes[one.id] || (custom && ownName(custom[0])) || ownName(one.key) || placeKey(one.id);
  return table.get(wanted) === `class:${one.id}` ? wanted : "";
}

/** The keys that an action has now. */
export function actionKeys(id) {
  const action = ACTIONS.find((one) => one.id === id);
  const wanted = remapped.actions[id] ? [remapped.actions[id]] : action.keys;
  return [...wanted.filter((key) => table.get(key) === id), ...(action.also || [])];
}

/** The first of them, as people read it. */
export const actionKey = (id) => shown(actionKeys(id)[0] || "");

export const shortcutsOff = () => kept.read("shortcutsOff", false);
export const setShortcutsOff = (off) => kept.write("shortcutsOff", off);

/** Work out the table again: after a new class, a remapped key, or the first state. */
export function rebuild() {
  remapped = { actions: kept.read("keys", {}), classes: kept.read(classStore(), {}) };
  table = new Map();
  for (const action of ACTIONS) {
    for (const key of remapped.actions[action.id] ? [] : action.keys) table.set(key, action.id);
  }
  for (const [id, key] of Object.entries(remapped.actions)) table.set(key, id);
  const classes = openClasses();
  for (const one of classes) if (placeKey(one.id)) table.set(placeKey(one.id), `class:${one.id}`);
  for (const one of classes) if (ownName(one.key)) table.set(ownName(one.key), `class:${one.id}`);
  for (const [key, id] of Object.entries((store.run && store.run.keys) || {})) {
    if (classes.some((one) => one.id === id) && ownName(key)) table.set(ownName(key), `class:${id}`);
  }
  for (const one of classes) if (remapped.classes[one.id]) table.set(remapped.classes[one.id], `class:${one.id}`);
}

/** Give an action ("skip") or a class ("class:3") another key; returns a text when that is not possible. */
export function remap(target, event) {
  const key = keyName(event);
  if (FIXED.has(key) || key.startsWith("ctrl+") || event.altKey) return words.helpFixed(shown(key));
  const owner = table.get(key);
  if (owner && owner !== target) return words.helpTaken(shown(key), nameOf(owner));
  if (target.startsWith("class:")) {
    kept.write(classStore(), { ...remapped.classes, [target.slice(6)]: key });
  } else {
    kept.write("keys", { ...remapped.actions, [target]: key });
  }
  rebuild();
  return "";
}

/** The name of the action or the other class that has a key; "" where it is free for class `id`. */
export function takenBy(key, id) {
  const other = openClasses().find((one) => one.id !== id && classKey(one) === key);
  if (other) return other.name;
  const owner = table.get(key) || "";
  return owner.startsWith("class:") ? "" : words.actions[owner] || "";
}

/** Forget what this browser remapped for a class: everybody's key is another one now. */
export function forget(id) {
  const { [id]: gone, ...others } = remapped.classes;
  kept.write(classStore(), others);
  rebuild();
}

export function resetKeys() {
  kept.remove("keys");
  kept.remove(classStore());
  rebuild();
}

function nameOf(target) {
  if (!target.startsWith("class:")) return words.actions[target];
  const one = openClasses().find((each) => `class:${each.id}` === target);
  return one ? one.name : target;
}

const typing = (element) => Boolean(element && element.closest(BOXES));
const pressesItself = (element) => Boolean(element && element.closest("button, a, summary, [role=option], input"));

/** The action of a key, or "" when it means nothing here. */
function meaning(event) {
  if (event.altKey) return "";
  const key = keyName(event);
  if (key === "ctrl+z") return "undo";
  if (key === "ctrl+shift+z" || key === "ctrl+y") return "redo";
  if (key.startsWith("ctrl+")) return "";
  let action = table.get(key) || "";
  if (key.startsWith("shift+") && !action) {
    // No class 11 to 20 on this digit: what the key prints counts (a digit on AZERTY, a slash on a German keyboard).
    action = event.key.length === 1 ? table.get(event.key.toLowerCase()) || "" : "";
  }
  if (event.key.length === 1 && shortcutsOff()) return "";
  if (!action && /^[a-z]$/.test(key) && openClasses().length > 10) return "find";
  return action;
}

/**
 * Listen to the keyboard. `handlers.perform(action, event)` does an action; `handlers.raw(event)` may take a key
 * first (the grid's arrows) by returning true; `handlers.release(action)` hears that a held key is let go.
 */
export function listen(handlers) {
  let before = { key: "", at: -Infinity };
  let held = "";

  document.addEventListener("keydown", (event) => {
    const target = event.target instanceof Element ? event.target : null;
    if (event.repeat && (event.key === "Enter" || event.key === " ") && target && target.closest("button")) {
      event.preventDefault(); // a button held down is pressed once
      return;
    }
    if (event.defaultPrevented) return; // a dialog took it, and may have closed by it
    if (event.isComposing || document.querySelector("dialog[open]") || typing(target)) return;
    if (handlers.raw(event)) {
      event.preventDefault();
      return;
    }
    const action = meaning(event);
    if (!action) return;
    if (action === "accept" && pressesItself(target)) return; // Enter presses the button in focus
    const repeats = ACTIONS.some((one) => one.id === action && one.repeats);
    if (event.repeat && !repeats) {
      event.preventDefault();
      return;
    }
    event.preventDefault();
    const key = keyName(event);
    if (!repeats && key === before.key && event.timeStamp - before.at < DEBOUNCE) return;
    before = { key, at: event.timeStamp };
    if (action === "peek") held = event.code || event.key;
    handlers.perform(action, event);
  });

  document.addEventListener("keyup", (event) => {
    if (held && (event.code || event.key) === held) {
      held = "";
      handlers.release("peek");
    }
  });
  window.addEventListener("blur", () => {
    if (held) handlers.release("peek");
    held = "";
  });
}
