// What more labels are worth: the forecast as a sentence and a table, in money where the price of an answer is known.

import { $, make, setText } from "./dom.js";
import { count, isKnown, oneDigit, percent, twoDigits } from "./format.js";
import { words } from "./words.js";

const points = (gain) => oneDigit(100 * gain).replace("-", "−").replace(/^−0$/, "0");

export function drawWorth({ ahead, why_not: why, price, spent }) {
  const [next] = ahead;
  setText($("#worth-text"), next
    ? words.worthNow(next.labels, points(next.gain), points(next.gain_low), points(next.gain_high))
    : words.worthNot(why));
  $("#worth .scroll").hidden = !next;
  const head = [...words.worthHead, ...(price ? words.worthHeadPrice : [])];
  $("#worth thead").replaceChildren(make("tr", {}, ...head.map((text) => make("th", { scope: "col", text }))));
  $("#worth tbody").replaceChildren(...ahead.map((row) => make("tr", {},
    make("th", { scope: "row", text: count(row.labels) }),
    ...[
      percent(row.accuracy), words.to(percent(row.low), percent(row.high)),
      points(row.gain), words.to(points(row.gain_low), points(row.gain_high)),
      ...(price ? [twoDigits(row.cost), isKnown(row.per_point) ? twoDigits(row.per_point) : "–"] : []),
    ].map((text) => make("td", { text })))));
  setText($("#worth-note"), `${price ? words.worthSpent(twoDigits(spent)) : ""}${next ? words.worthNote : ""}`);
}
