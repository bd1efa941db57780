// Predictions from elsewhere: how good each name's are on check images, and accepting those that are right often enough.

import { $, make, named, setText, toast } from "./dom.js";
import { count, percent, twoDigits } from "./format.js";
import { mark } from "./marks.js";
import * as outbox from "./outbox.js";
import { store, update } from "./store.js";
import * as work from "./work.js";
import { words } from "./words.js";

/** A function that draws them; `load` brings the numbers again. What a person has opened or typed stays. */
export function createClaims(load) {
  const opened = new Set();
  const shares = new Map(); // name -> what was typed
  let saving = false;

  function draw(claims) {
    $("#claims").hidden = claims.length === 0;
    $("#claims-undo").disabled = !store.progress.can_undo;
    const focused = document.activeElement?.closest("#claims-list") ? document.activeElement.id : "";
    $("#claims-list").replaceChildren(...claims.map(drawOne));
    if (focused) document.getElementById(focused)?.focus();
  }

  function drawOne(one, place) {
    const { measure, name } = one;
    const said = measure
      ? words.claimsRight(measure.correct, measure.n, ...["accuracy", "low", "high"].map((part) => percent(measure[part])))
      : words.claimsNot(one.claims);
    return make("section", { data: { claims: name } },
      make("h3", {}, named(name)),
      make("p", { text: [said, one.accepted ? words.claimsAccepted(one.accepted) : ""].join(" ") }),
      ...(measure ? [details(`${place}-how`, words.claimsHow, levels(one), classes(one)), details(`${place}-accept`, words.claimsAccept, form(one, place))] : []));
  }

  function details(id, title, ...inside) {
    const box = make("details", { open: opened.has(id) }, make("summary", { id: `claims-${id}`, text: title }), ...inside);
    box.addEventListener("toggle", () => (box.open ? opened.add(id) : opened.delete(id)));
    return box;
  }

  function table(head, rows) {
    const cells = head.map((text) => make("th", { scope: "col", text }));
    return make("div", { class: "scroll" }, make("table", {}, make("thead", {}, make("tr", {}, ...cells)), make("tbody", {}, ...rows)));
  }

  const share = (found) => (found && found.n
    ? [words.claimsOf(found.correct, found.n), words.to(percent(found.low), percent(found.high))]
    : [words.progressNot, ""]);
  const cells = (texts) => texts.map((text) => make("td", { text }));

  const levels = (one) => table(words.claimsLevels, one.levels.map((row) => make("tr", {},
    make("th", { scope: "row", text: words.claimsLeast(twoDigits(row.confidence)) }),
    ...cells([count(row.claims), ...share(row), percent(row.at_least)]))));

  const classes = (one) => table(words.claimsClasses, one.classes.map((row) => make("tr", {},
    make("th", { scope: "row" }, mark(row.id), named(row.class)), ...cells([...share(row.precision), ...share(row.recall)]))));

  /** What share is wanted, how many predictions that comes to, and the button that accepts them. */
  function form(one, place) {
    const input = make("input", { id: `claims-share-${place}`, type: "number", min: "1", max: "99", step: "any", inputmode: "decimal", "aria-describedby": `claims-said-${place}` });
    const said = make("p", { id: `claims-said-${place}`, role: "status" });
    const button = make("button", { type: "submit", class: "primary" });
    input.value = shares.get(one.name) ?? String(100 * one.wanted);

    function look() {
      const wanted = Number(input.value) / 100;
      const good = input.value.trim() !== "" && wanted > 0 && wanted < 1;
      const level = good ? one.levels.find((row) => row.at_least >= wanted) : null;
      const best = percent(Math.max(0, ...one.levels.map((row) => row.at_least)));
      const free = level ? level.free : 0;
      button.disabled = saving || free === 0;
      setText(button, words.claimsTake(free));
      setText(said, !good ? words.claimsBad
        : !level ? words.claimsNone(percent(wanted), best)
          : free ? words.claimsCould(free, twoDigits(level.confidence), percent(level.at_least)) : words.claimsNoneFree);
      return { wanted, free };
    }

    input.addEventListener("input", () => {
      shares.set(one.name, input.value);
      look();
    });
    look();
    const whole = make("form", { novalidate: true }, make("label", { for: input.id, text: words.claimsShare }), make("div", { class: "pair" }, input, button), said);
    whole.addEventListener("submit", async (event) => {
      event.preventDefault();
      const { wanted, free } = look();
      if (button.disabled) return;
      saving = button.disabled = true;
      try {
        const saved = await outbox.submit("/api/claims/accept", { tab: store.tab, name: one.name, share: wanted }, store.tab);
        update({ progress: saved.progress, changes: store.changes + 1 });
        toast(words.claimsTaken(saved.repeated ? free : saved.accepted, one.name));
      } catch (error) {
        work.refused(error, null, null);
      }
      saving = false;
      load();
    });
    return whole;
  }

  return draw;
}
