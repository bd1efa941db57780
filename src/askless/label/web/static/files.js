// The buttons that write files: images sorted into folders, labels, the report; with progress, and the path when done.

import { get, newId, post } from "./api.js";
import { $, $$, setText } from "./dom.js";
import { confirm } from "./dialogs.js";
import { count } from "./format.js";
import { store } from "./store.js";
import { words } from "./words.js";

const POLL = 500; // ms between two looks at a job

export function createFiles() {
  let timer = 0;

  function say(text, bad = false) {
    setText($("#files-state"), text);
    $("#files-state").classList.toggle("problem", bad);
  }

  function draw({ job, plan }) {
    setText($("#files-plan"), words.filesPlan(plan.items, plan.bytes, plan.rest));
    $("#folders-out").placeholder = plan.out;
    const running = Boolean(job && job.state === "running");
    for (const button of $$("#files-panel button")) button.disabled = running;
    const bar = $("#files-bar");
    bar.hidden = !running;
    if (running && job.total) Object.assign(bar, { max: job.total, value: job.done });
    if (running) say(job.total ? words.filesRunning(count(job.done), count(job.total)) : words.filesWriting);
    else if (job) say(job.state === "done" ? words.filesDone(job.path, job.text) : words.failure(job.text), job.state === "failed");
    return running;
  }

  async function poll() {
    clearTimeout(timer);
    try {
      if (draw(await get("/api/jobs"))) timer = setTimeout(poll, POLL);
    } catch (error) {
      say(words.failure(error.message), true);
    }
  }

  async function begin(path, body) {
    try {
      const reply = await post(path, { request_id: newId(), ...body });
      if (!reply.ok) {
        if (!(await confirm(words.filesReplace, words.filesThere(reply.exists), words.filesReplaceYes))) return;
        return await begin(path, { ...body, overwrite: true });
      }
      await poll();
    } catch (error) {
      say(words.failure(error.message), true);
    }
  }

  $("#folders-form").addEventListener("submit", (event) => {
    event.preventDefault();
    const rest = $("#folders-form input[name=rest]:checked").value;
    begin("/api/jobs/folders", { rest, out: $("#folders-out").value });
  });
  $("#export-labels").addEventListener("click", () => begin("/api/jobs/export", { to: "csv", accepted: $("#export-accepted").checked }));
  $("#write-report").addEventListener("click", () => begin("/api/jobs/report", {}));

  return {
    enter: () => {
      $("#folders-form").hidden = store.run.noun !== "image"; // only images are files to copy
      poll();
    },
  };
}
