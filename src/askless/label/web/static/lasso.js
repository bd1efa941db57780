// Selecting on the map: what lies inside a drawn line, and what lies nearest to a point. Points are [x, y] or null.

/** Is the point inside the line, which closes by itself? A ray from the point crosses it an odd number of times. */
export function inside(line, [x, y]) {
  let odd = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
    const [[ax, ay], [bx, by]] = [line[i], line[j]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
  }
  return odd;
}

/** The places of the points inside the line. */
export function within(line, points) {
  const [xs, ys] = [line.map((one) => one[0]), line.map((one) => one[1])];
  const [left, right, low, high] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const near = ([x, y]) => x >= left && x <= right && y >= low && y <= high;
  return [...points.keys()].filter((place) => points[place] && near(points[place]) && inside(line, points[place]));
}

/** The places of the n points nearest to the one at `place`, itself the first. */
export function nearestTo(points, place, n) {
  const [x, y] = points[place];
  const away = (other) => (points[other][0] - x) ** 2 + (points[other][1] - y) ** 2;
  const known = [...points.keys()].filter((other) => points[other]).map((other) => [away(other), other]);
  return known.sort((a, b) => a[0] - b[0] || a[1] - b[1]).slice(0, n).map((pair) => pair[1]);
}
