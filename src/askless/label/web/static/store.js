// What the page knows of the run. Views subscribe and redraw when a part changes.

export const store = {
  tab: "", // this tab's id
  run: null, // name, folder, finished, suggestions, annotators, keys, map, check_share
  annotator: null, // name, asked
  progress: null, // spent, budget, check, train, batch, classes, can_undo, can_redo
  last: [], // the last answers of this person, newest first
  worker: null,
  model: null,
  version: -1,
  changes: 0, // grows with every saved change of this page, so that an older poll is not believed
};

const listeners = new Set();

export function subscribe(listener) {
  listeners.add(listener);
}

export function update(part) {
  Object.assign(store, part);
  for (const listener of listeners) listener(part);
}

export const allClasses = () => (store.progress ? store.progress.classes : []);
export const openClasses = () => allClasses().filter((one) => !one.hidden);
export const classOf = (id) => allClasses().find((one) => one.id === id) || null;

/** A class's name; a merged class answers with the one it became. */
export function className(id) {
  let one = classOf(id);
  for (let step = 0; one && one.merged_into !== null && one.merged_into !== undefined && step < 20; step++) {
    one = classOf(one.merged_into) || null;
  }
  return one ? one.name : `#${id}`;
}
