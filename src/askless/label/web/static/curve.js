// The curve of check accuracy: one point per round with its interval, and the forecast as a dashed band, drawn as SVG.

import { count, isKnown, percent } from "./format.js";
import { svg } from "./marks.js";
import { words } from "./words.js";

const [NARROWEST, WIDEST, HEIGHT] = [280, 640, 280];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 16, 14, 42];

/** Round numbers between 0 and `most`, at most six. */
function ticks(most) {
  const rough = most / 5;
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((each) => each >= rough) || power;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, place) => place * step);
}

/** The picture of points {labels, accuracy, low, high, n}, and `ahead` of the last {labels, accuracy, low, high}; `room` is its width on screen, so that texts stay readable. */
export function drawCurve(points, ahead, room) {
  const WIDTH = Math.min(WIDEST, Math.max(NARROWEST, room));
  const known = points.filter((point) => isKnown(point.accuracy));
  const last = known[known.length - 1];
  const coming = ahead.map((row) => ({ ...row, labels: last.labels + row.labels }));
  const most = Math.max(10, ...[...known, ...coming].map((point) => point.labels)) * 1.06;
  const lowest = Math.min(...[...known, ...coming].map((point) => point.low));
  const floor = lowest > 0.55 ? 0.5 : 0; // the axis says where it begins
  const x = (labels) => LEFT + (labels / most) * (WIDTH - LEFT - RIGHT);
  const y = (share) => HEIGHT - BOTTOM - ((share - floor) / (1 - floor)) * (HEIGHT - TOP - BOTTOM);
  const said = known.map((point) =>
    words.curvePoint(point.labels, percent(point.accuracy), percent(point.low), percent(point.high), point.n));
  said.push(...coming.map((point) =>
    words.curveForecast(point.labels, percent(point.accuracy), percent(point.low), percent(point.high))));
  const label = (text, at, anchor) => svg("text", { class: "tick", x: at[0], y: at[1], "text-anchor": anchor }, text);
  const join = (list) => list.map(([px, py]) => `${px},${py}`).join(" ");
  const picture = svg("svg", {
    id: "curve", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": words.curveAlt(said), focusable: "false",
  });
  const rows = floor ? [0.5, 0.6, 0.7, 0.8, 0.9, 1] : [0, 0.25, 0.5, 0.75, 1];
  for (const share of rows) {
    picture.append(svg("line", { class: "grid-line", x1: LEFT, x2: WIDTH - RIGHT, y1: y(share), y2: y(share) }));
    picture.append(label(percent(share), [LEFT - 8, y(share) + 4], "end"));
  }
  for (const labels of ticks(most)) picture.append(label(count(labels), [x(labels), HEIGHT - BOTTOM + 18], "middle"));
  picture.append(label(words.curveX, [(LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6], "middle"));
  if (known.length > 1) {
    const upper = known.map((point) => [x(point.labels), y(point.high)]);
    const lower = known.map((point) => [x(point.labels), y(point.low)]);
    const middle = known.map((point) => [x(point.labels), y(point.accuracy)]);
    picture.append(svg("polygon", { class: "band", points: join([...upper, ...lower.reverse()]) }));
    picture.append(svg("polyline", { class: "curve-line", points: join(middle) }));
  }
  if (coming.length) {
    const [upper, lower] = ["high", "low"].map((end) => coming.map((point) => [x(point.labels), y(point[end])]));
    picture.append(svg("polygon", { class: "band ahead", points: join([...upper, ...lower.reverse()]) }));
    const middle = [last, ...coming].map((point) => [x(point.labels), y(point.accuracy)]);
    picture.append(svg("polyline", { class: "curve-line ahead", points: join(middle) }));
  }
  known.forEach((point, place) => {
    const [at, low, high] = [x(point.labels), y(point.low), y(point.high)];
    const group = svg("g", { class: "point" }, svg("title", {}, said[place]));
    const whisker = `M${at} ${low}V${high}M${at - 5} ${low}h10M${at - 5} ${high}h10`;
    group.append(svg("path", { class: "whisker", d: whisker }));
    group.append(svg("circle", { class: "dot", cx: at, cy: y(point.accuracy), r: 5 }));
    picture.append(group);
  });
  return picture;
}
