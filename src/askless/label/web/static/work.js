// What every view does with answers: submit, undo, redo, new classes, and explaining a refusal.

import { announce, notice, toast } from "./dom.js";
import { answerText, askNewClass } from "./dialogs.js";
import * as outbox from "./outbox.js";
import { className, store, update } from "./store.js";
import { words } from "./words.js";

const LAST = 8; // answers in the strip

/** Take over the progress that came with a reply. */
function took(reply) {
  update({ progress: reply.progress || store.progress, changes: store.changes + 1 });
  return reply;
}

/** Send an answer for items: choice = {class} or {unsure, note}. Resolves true when saved, false when refused. */
export async function answer(items, choice, { seconds = 0, bulk = false, change = false } = {}) {
  const body = {
    tab: store.tab, items: items.map((item) => item.id), seconds: Math.round(seconds * 10) / 10, bulk, change,
    note: choice.note || "",
  };
  if (choice.unsure) body.unsure = choice.unsure;
  else body.class = choice.class;
  try {
    took(await outbox.submit("/api/answers", body, store.tab));
  } catch (error) {
    refused(error, items[0], choice);
    return false;
  }
  remember(items, choice, change);
  say(items, choice, change);
  return true;
}

/** Put answers into the strip at once; the next poll brings the server's own list. */
function remember(items, choice, change) {
  const given = { class: choice.unsure ? null : choice.class, unsure: choice.unsure || null };
  const ids = new Set(items.map((item) => item.id));
  if (change) {
    update({ last: store.last.map((one) => (ids.has(one.item.id) ? { ...one, ...given } : one)) });
    return;
  }
  const fresh = [...items].reverse().map((item) => ({ item, ...given, at: new Date().toISOString() }));
  update({ last: [...fresh, ...store.last.filter((one) => !ids.has(one.item.id))].slice(0, LAST) });
}

function say(items, choice, change) {
  const { spent, budget } = store.progress;
  if (change) toast(words.changed(items[0].name, answerText(choice)));
  else if (choice.unsure) announce(words.saidUnsure(words.reasons[choice.unsure], spent, budget));
  else if (items.length > 1) announce(words.labelledMany(items.length, className(choice.class), spent, budget));
  else announce(words.labelled(className(choice.class), spent, budget));
}

/** Label items of a list, asked or not; `seen`: with what the model says of them beside. True when saved. */
export async function label(items, choice, { seconds = 0, seen = false } = {}) {
  const body = { tab: store.tab, items: items.map((item) => item.id), seconds: Math.round(seconds * 10) / 10, seen, note: choice.note || "" };
  if (choice.unsure) body.unsure = choice.unsure;
  else body.class = choice.class;
  try {
    took(await outbox.submit("/api/label", body, store.tab));
  } catch (error) {
    refused(error, items.find((item) => item.id === error.details?.item) || items[0], choice);
    return false;
  }
  const change = items.every((item) => item.answer);
  remember(items.map(({ id, name, excerpt }) => ({ id, name, excerpt })), choice, change);
  say(items, choice, change && items.length === 1);
  return true;
}

/** Settle an item on an answer, whoever answered it and however; true when saved. */
export async function decide(item, choice) {
  const body = { tab: store.tab, item: item.id, ...(choice.unsure ? { unsure: choice.unsure } : { class: choice.class }) };
  try {
    took(await outbox.submit("/api/decide", body, store.tab));
  } catch (error) {
    refused(error, item, choice);
    return false;
  }
  toast(words.decided(item.name, answerText(choice)));
  return true;
}

export async function skip(item) {
  try {
    took(await outbox.submit("/api/skip", { tab: store.tab, item: item.id }, store.tab));
    announce(words.skipped);
    return true;
  } catch (error) {
    refused(error, item, null);
    return false;
  }
}

/** Undo or redo ("undo" | "redo"); gives the reply, or null when nothing came of it. */
export async function step(kind) {
  if (outbox.isFailing()) {
    toast(words.gridWait);
    return null;
  }
  try {
    const reply = took(await outbox.submit(`/api/${kind}`, { tab: store.tab }, store.tab));
    if (!reply.undone) {
      toast(kind === "undo" ? words.nothingToUndo : words.nothingToRedo);
      return null;
    }
    reply.undone.items = reply.undone.items || []; // a class or a setting concerns no item
    toast(kind === "undo" ? words.undone(reply.undone.text) : words.redone(reply.undone.text));
    return reply;
  } catch (error) {
    refused(error, null, null);
    return null;
  }
}

/** Ask for a new class and add it; gives {id, label}, or null. */
export async function newClass(many) {
  const wanted = await askNewClass(many);
  if (!wanted) return null;
  const id = await addClass(wanted.name);
  return id === null ? null : { id, label: wanted.label };
}

export async function addClass(name) {
  try {
    const reply = took(await outbox.submit("/api/classes", { name }));
    toast(words.classAdded(reply.class.name));
    return reply.class.id;
  } catch (error) {
    refused(error, null, null);
    return null;
  }
}

/** Any other change (budget, train, settings, rename, merge); true when done. */
export async function change(path, body, done) {
  try {
    took(await outbox.submit(path, body));
    if (done) toast(done);
    return true;
  } catch (error) {
    refused(error, null, null);
    return false;
  }
}

/** One answer in the words of people, however the server wrote it. */
function someAnswer(value) {
  if (value === null || value === undefined) return words.someone;
  if (typeof value === "number") return className(value);
  if (typeof value === "string") return words.reasons[value] ? words.unsureOf(words.reasons[value]) : value;
  const text = answerText(value);
  return value.annotator ? `${text} (${value.annotator})` : text;
}

/** Say why a submit was refused. */
export function refused(error, item, choice) {
  const name = item ? item.name : words.anImage;
  if (error.status === 409 && error.details.theirs !== undefined && error.details.theirs !== null) {
    const yours = error.details.yours !== undefined ? error.details.yours : choice;
    notice(words.conflictTheirs(name, someAnswer(error.details.theirs), someAnswer(yours)));
  } else if (error.status === 409 && item) {
    notice(words.conflictStale(name));
  } else {
    notice(words.failure(error.message));
  }
}
