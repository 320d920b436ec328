// Common code of the charts. A chart is drawn again for every width, so that its texts do not become small on
// a phone.

const redraws = [];  // one function for each chart: f(width) fits it to paper of this width, f() to the screen

// draw(svg, width, height) fills an empty drawing. Returns a function that draws the chart again.
function chart(container, label, height, draw) {
  let width = 0;
  const redraw = (wanted = width) => {
    if (!wanted) return;
    width = wanted;
    const svg = shape("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label});
    draw(svg, width, height);
    container.replaceChildren(svg);
  };
  const fit = () => {
    if (container.clientWidth && container.clientWidth !== width) redraw(container.clientWidth);
  };
  new ResizeObserver(fit).observe(container);
  redraws.push((forced) => redraw(Math.min(forced ?? Infinity, container.clientWidth)));
  return redraw;
}

const shortened = (text, pixels) => {
  const most = Math.max(3, Math.floor(pixels / 6.5));
  return String(text).length > most ? `${String(text).slice(0, most - 1)}…` : String(text);
};

// Draws both axes. Returns the functions x(value) and y(value), which map values to pixels, and the frame.
function axes(svg, width, height, xScale, yScale, xLabel, yLabel) {
  const yTicks = yScale.ticks(Math.floor((height - 62) / 32));
  const left = 14 + 6.8 * Math.max(...yTicks.map((tick) => tick.label.length), 1);
  const frame = {left, right: width - 14, top: 24, bottom: height - 38};
  const x = (value) => frame.left + xScale.at(value) * (frame.right - frame.left);
  const y = (value) => frame.bottom - yScale.at(value) * (frame.bottom - frame.top);
  for (const tick of yTicks) {
    const at = frame.bottom - tick.at * (frame.bottom - frame.top);
    svg.append(shape("line", {class: "grid-line", x1: frame.left, x2: frame.right, y1: at, y2: at}),
      shape("text", {class: "tick", x: frame.left - 6, y: at + 4, "text-anchor": "end"}, tick.label));
  }
  const xTicks = xScale.ticks(Math.floor((frame.right - frame.left) / 64));
  const room = (frame.right - frame.left) / Math.max(1, xTicks.length);
  for (const tick of xTicks) {
    const at = frame.left + tick.at * (frame.right - frame.left);
    svg.append(shape("line", {class: "axis", x1: at, x2: at, y1: frame.bottom, y2: frame.bottom + 4}),
      shape("text", {class: "tick", x: at, y: frame.bottom + 17, "text-anchor": tick.at > 0.97 ? "end" : "middle"}, shortened(tick.label, room)));
  }
  svg.append(shape("line", {class: "axis", x1: frame.left, x2: frame.right, y1: frame.bottom, y2: frame.bottom}),
    shape("text", {class: "name", x: frame.right, y: height - 5, "text-anchor": "end"}, shortened(xLabel, width - 20)),
    shape("text", {class: "name", x: 2, y: 13}, shortened(yLabel, width - 20)));
  return {x, y, frame};
}

const countOf = (what, count, all) => count < all ? `${count} of ${all} ${what}: the best ones and an even sample` : `${count} ${what}`;

function pathOf(points) {
  return points.map(([x, y], i) => `${i === 0 ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
}

// Interpolates the height of a line at x. The points of the line are ascending in x. If x is beyond an end of
// the line, returns the height of this end.
function heightAt(points, x) {
  const next = points.findIndex((point) => point[0] >= x);
  if (next === -1) return points[points.length - 1][1];
  if (next === 0) return points[0][1];
  const [x0, y0] = points[next - 1], [x1, y1] = points[next];
  return x1 > x0 ? y0 + (y1 - y0) * (x - x0) / (x1 - x0) : y1;
}

// Selects the trial whose line is nearest to the pointer. lines() returns the lines as {trial, points}.
function lookAtNearest(svg, lines) {
  const look = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
    let nearest = null, distance = 40;
    for (const line of lines()) {
      const here = Math.abs(heightAt(line.points, x) - y);
      if (wanted.matches(line.trial) && here < distance) [nearest, distance] = [line.trial, here];
    }
    if (nearest) lookAt(nearest);
  };
  svg.addEventListener("pointermove", look);
  svg.addEventListener("pointerdown", look);
}

// A line of text below a chart. It describes the selected trial, or the best trial if no trial is selected.
function readout(id) {
  const show = (trial) => {
    const told = trial ?? best;
    byId(id).textContent = told ? (told === best ? "Best: " : "") + describe(told) : "";
  };
  looked.listeners.push(show);
  show(null);
}
