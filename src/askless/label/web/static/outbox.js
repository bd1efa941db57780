// Submits that must not be lost. Each has its own request_id, is kept in localStorage until the server has answered,
// and is sent again, with the same request_id, as long as the server cannot be reached. One at a time, in order.

import { ApiError, newId, post } from "./api.js";
import * as kept from "./kept.js";

const WAITS = [400, 800, 1500, 3000, 5000, 8000]; // ms between tries
const ORPHAN = 30_000; // ms; an unsent submit of another tab that is older than this is sent by us

const queue = []; // {name, path, body, run, at, resolve, reject}
let sending = false;
let tries = 0;
let timer = 0;
let state = { state: "saved", error: null, retryAt: 0 };
let listener = () => {};
let runName = "";

/** `report({state: saved|saving|failed, error, retryAt})` is called at every change. */
export function onState(report) {
  listener = report;
}

function tell(next) {
  state = next;
  listener(state);
}

export const pending = () => queue.length;
export const isFailing = () => state.state === "failed";

/** Take up what an earlier page of this run could not send; call once, before the first submit. */
export function takeUp(run, tab) {
  runName = run;
  const found = kept.names("pending.").map((name) => ({ name, ...kept.read(name, {}) }));
  const ours = found.filter((one) => one.run === run && (one.tab === tab || Date.now() - one.at > ORPHAN));
  ours.sort((a, b) => a.at - b.at);
  return ours.map((one) => enqueue(one));
}

/** Send `body` to `path`; resolves with the reply once it is saved, rejects when the server refuses it for good. */
export function submit(path, body, tab = "") {
  const request_id = newId();
  const entry = { path, body: { request_id, ...body }, run: runName, tab, at: Date.now() };
  const name = `pending.${request_id}`;
  kept.write(name, entry);
  return enqueue({ name, ...entry });
}

function enqueue(entry) {
  const promise = new Promise((resolve, reject) => Object.assign(entry, { resolve, reject }));
  queue.push(entry);
  if (state.state === "saved") tell({ state: "saving", error: null, retryAt: 0 });
  pump();
  return promise;
}

/** Try at once instead of waiting for the next try. */
export function retryNow() {
  clearTimeout(timer);
  timer = 0;
  pump();
}

async function pump() {
  if (sending || timer) return;
  sending = true;
  while (queue.length) {
    const entry = queue[0];
    try {
      const reply = await post(entry.path, entry.body);
      settle(entry);
      entry.resolve(reply);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.passing || error.status === 401) {
        wait(error);
        break;
      }
      settle(entry);
      entry.reject(error);
    }
  }
  sending = false;
  if (!queue.length) tell({ state: "saved", error: null, retryAt: 0 });
}

function settle(entry) {
  queue.shift();
  kept.remove(entry.name);
  tries = 0;
  if (queue.length) tell({ state: "saving", error: null, retryAt: 0 });
}

function wait(error) {
  const pause = WAITS[Math.min(tries, WAITS.length - 1)];
  tries += 1;
  tell({ state: "failed", error, retryAt: Date.now() + pause });
  timer = setTimeout(() => {
    timer = 0;
    pump();
  }, pause);
}
