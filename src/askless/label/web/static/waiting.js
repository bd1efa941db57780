// The panel for when there is nothing to label: it says why, what to do meanwhile, and goes away by itself.

import { $, announce, make, setText, toast } from "./dom.js";
import { clock, isKnown } from "./format.js";
import { store } from "./store.js";
import { isText } from "./thumb.js";
import { addClass } from "./work.js";
import { words } from "./words.js";

/** A folder as it can be typed into a shell. */
const quoted = (folder) => (/^[\w@%+=:,./~-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", "'\\''")}'`);

let code = "";
let afterClasses = () => {};
let openView = () => {};

/** `start()` is called when the first classes are there, `open(view)` opens another view. */
export function setUp(start, open) {
  afterClasses = start;
  openView = open;
  $("#waiting-items").addEventListener("click", () => openView("items"));
  $("#waiting-review").addEventListener("click", () => openView("review"));
  $("#waiting-progress").addEventListener("click", () => openView("progress"));
  $("#waiting-more").addEventListener("click", () => {
    openView("progress");
    const input = $("#budget-input");
    input.value = store.progress.budget;
    input.focus();
    input.select();
  });
  $("#first-form").addEventListener("submit", addFirst);
}

export const isShown = () => !$("#waiting").hidden;

export function hide() {
  code = "";
  delete document.body.dataset.waiting;
  $("#waiting").hidden = true;
}

/** Show why there is nothing: the code and text of /api/next. */
export function show(newCode, why) {
  const fresh = code !== newCode || !isShown();
  code = newCode;
  const known = words.waitTitles[code] ? code : "other";
  $("#waiting").hidden = false;
  $("#waiting").dataset.code = code;
  document.body.dataset.waiting = code;
  setText($("#waiting-title"), words.waitTitles[known]);
  setText($("#waiting-why"), code === "no_classes" ? words.firstText : why || "");
  $("#first-form").hidden = code !== "no_classes";
  const finished = code === "finished";
  $("#finished").hidden = !finished;
  $("#waiting-more").hidden = !finished;
  $("#waiting-next").hidden = !["training", "held", "other_tab"].includes(code);
  $("#waiting-items").hidden = code !== "training"; // what is labelled there counts in the next training
  const answered = store.progress && store.progress.spent > 0;
  $("#waiting-review").hidden = !answered || ["no_classes", "sending", "starting"].includes(code);
  $("#waiting-progress").hidden = $("#waiting-review").hidden;
  if (finished) drawCommands();
  drawWorker();
  if (!fresh) return;
  const said = [words.waitTitles[known], $("#waiting-why").textContent].join(". ");
  if (code !== "sending" && code !== "starting") announce(said);
  if (code === "no_classes") $("#first-names").focus();
}

/** The worker's progress, redrawn at every poll. */
export function drawWorker() {
  if (!isShown()) return;
  const worker = store.worker;
  const busy = worker && code !== "finished" && code !== "no_classes" && worker.total > 0 && worker.step !== "waiting";
  const bar = $("#waiting-bar");
  bar.hidden = !busy;
  $("#waiting-work").hidden = !busy;
  if (!busy) return;
  bar.max = worker.total;
  bar.value = worker.done;
  const left = isKnown(worker.seconds_left) ? words.left(clock(worker.seconds_left)) : "";
  const said = $("#waiting-why").textContent === worker.text;
  setText($("#waiting-work"), [said ? "" : worker.text, left].filter(Boolean).join(" · "));
}

const NEW = { image: "NEW_IMAGES", text: "NEW_TEXTS.csv", row: "NEW_ROWS.npz" }; // to predict

function drawCommands() {
  const folder = quoted(store.run.folder);
  const lines = [
    [`askless report ${folder}`, words.finishedReport],
    [`askless export ${folder} ${isText() ? "--to csv --out labels.csv" : "--to imagefolder --out labelled"}`, words.finishedExport],
    [`askless predict ${folder} ${NEW[store.run.noun]} > predictions.csv`, words.finishedPredict],
  ];
  $("#commands").replaceChildren(...lines.map(([command, what]) => make("li", {},
    make("span", { class: "what", text: what }),
    make("span", { class: "command" }, make("code", { text: command }), copyButton(command)))));
}

function copyButton(text) {
  if (!navigator.clipboard) return null; // plain http to another computer
  return make("button", {
    type: "button", class: "small", text: words.copy, "aria-label": `${words.copy}: ${text}`,
    onclick: () => navigator.clipboard.writeText(text).then(() => toast(words.copied), () => {}),
  });
}

async function addFirst(event) {
  event.preventDefault();
  const box = $("#first-names");
  const lines = box.value.split("\n").map((line) => line.trim()).filter(Boolean);
  const names = lines.length === 1 ? lines[0].split(",").map((name) => name.trim()).filter(Boolean) : lines;
  setText($("#first-problem"), names.length ? "" : words.firstBlank);
  if (!names.length) return box.focus();
  const left = [];
  for (const name of new Set(names)) if ((await addClass(name)) === null) left.push(name);
  box.value = left.join("\n"); // what was refused stays, the notice says why
  if (!left.length) {
    box.blur();
    afterClasses();
  }
}
