// What this browser remembers: settings and unsent answers (localStorage), this tab's id (sessionStorage).

import { newId } from "./api.js";

const PREFIX = "askless.";

export function read(name, fallback) {
  try {
    const text = localStorage.getItem(PREFIX + name);
    return text === null ? fallback : JSON.parse(text);
  } catch {
    return fallback; // storage is switched off, or the text is not ours
  }
}

export function write(name, value) {
  try {
    localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch {
    // Storage is off or full: the value still lives in memory.
  }
}

export function remove(name) {
  try {
    localStorage.removeItem(PREFIX + name);
  } catch {
    // As above.
  }
}

/** The names that begin with `start`. */
export function names(start) {
  try {
    return Object.keys(localStorage)
      .filter((key) => key.startsWith(PREFIX + start))
      .map((key) => key.slice(PREFIX.length));
  } catch {
    return [];
  }
}

const lockName = (id) => `askless-tab-${id}`;

/** Hold the lock of a tab id as long as this page lives; false when another page has it. */
async function hold(id) {
  if (!navigator.locks) return true; // plain http to another computer: no locks there
  return new Promise((resolve) => {
    navigator.locks
      .request(lockName(id), { ifAvailable: true }, (lock) => {
        resolve(lock !== null);
        return lock === null ? undefined : new Promise(() => {});
      })
      .catch(() => resolve(true));
  });
}

/** This tab's id: the same after a reload, another one in a duplicated tab (which copies sessionStorage). */
export async function tabId() {
  let id = null;
  try {
    id = sessionStorage.getItem(`${PREFIX}tab`);
  } catch {
    // No storage: a new id each time.
  }
  if (id) {
    for (let attempt = 0; attempt < 3; attempt++) {
      if (await hold(id)) return id;
      await new Promise((resolve) => setTimeout(resolve, 60)); // the page before a reload may still be closing
    }
  }
  id = newId();
  await hold(id);
  try {
    sessionStorage.setItem(`${PREFIX}tab`, id);
  } catch {
    // As above.
  }
  return id;
}

/** Ids of this browser's tabs that were closed since; each is reported once. */
export async function closedTabs(own) {
  const known = read("tabs", []).filter((id) => id !== own);
  if (!navigator.locks) return [];
  const { held } = await navigator.locks.query().catch(() => ({ held: [] }));
  const alive = known.filter((id) => held.some((lock) => lock.name === lockName(id)));
  write("tabs", [own, ...alive]);
  return known.filter((id) => !alive.includes(id));
}
