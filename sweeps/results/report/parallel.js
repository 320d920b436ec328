// Parallel coordinates: one axis for each parameter that varies, one axis for the objective, and one line for
// each drawn trial.
// Inselberg: The Plane with Parallel Coordinates (The Visual Computer, 1985).

const noneAt = -0.1;  // the place of trials without the parameter: below its axis

function startParallel() {
  const varied = parameters.filter((parameter) => new Set(trials.map((trial) => trial.v[parameter.index])).size > 1);
  byId("parallel").hidden = drawn.length === 0 || varied.length === 0;
  if (byId("parallel").hidden) return;
  const list = [
    ...varied.map((parameter) => ({
      key: parameter.path, label: parameter.label, scale: parameter.scale,
      none: trials.some((trial) => trial.v[parameter.index] === null),
      place: (trial) => trial.v[parameter.index] === null ? noneAt : parameter.scale.at(trial.v[parameter.index]),
    })),
    {key: "", label: metricName, scale: objectiveScale, none: false, place: (trial) => trial.o === null ? NaN : objectiveScale.at(trial.o)},
  ];
  let lines = [], front = null;

  function draw(svg, width, height) {
    const left = 30, right = width - 62, top = 34, bottom = height - 34;
    const gap = (right - left) / (list.length - 1);
    const yOf = (place) => bottom - place * (bottom - top);
    lines = drawn.map((trial) => ({
      trial, points: list.map((axis, i) => [left + i * gap, yOf(axis.place(trial))]).filter((point) => !Number.isNaN(point[1])),
    }));
    for (const line of lines) {
      line.path = shape("path", {class: line.trial === best ? "line best" : "line", d: pathOf(line.points)});
      line.path.style.stroke = line.trial === best ? "" : colorOf(line.trial);
      svg.append(line.path);
    }
    front = shape("path", {class: "line looked"});
    svg.append(front);
    list.forEach((axis, i) => drawAxis(svg, axis, left + i * gap, gap, top, bottom, yOf));
    lookAtNearest(svg, () => lines);
    dim();
    show(looked.trial);
  }

  function drawAxis(svg, axis, x, gap, top, bottom, yOf) {
    svg.append(shape("line", {class: "axis", x1: x, x2: x, y1: top, y2: bottom}));
    for (const tick of axis.scale.ticks(6)) {
      svg.append(shape("line", {class: "axis", x1: x, x2: x + 4, y1: yOf(tick.at), y2: yOf(tick.at)}),
        shape("text", {class: "tick halo", x: x + 7, y: yOf(tick.at) + 4}, shortened(tick.label, Math.min(gap, 90) - 14)));
    }
    if (axis.none) svg.append(shape("text", {class: "tick halo", x: x + 7, y: yOf(noneAt) + 4}, "none"));
    svg.append(shape("text", {class: "name", x, y: 16, "text-anchor": x < 40 ? "start" : "middle"}, shape("title", {}, axis.key || axis.label),
      shortened(axis.label, gap - 6)));
    const range = wanted.ranges.get(axis.key);
    axis.box = shape("rect", {class: "range", x: x - 8, width: 16, y: range ? yOf(range.to) : 0, height: range ? yOf(range.from) - yOf(range.to) : 0});
    const strip = shape("rect", {class: "strip", x: x - 14, width: 28, y: top - 8, height: bottom - top + 36});
    svg.append(axis.box, strip);
    listen(svg, strip, axis, yOf, (y) => Math.min(1, Math.max(axis.none ? -0.15 : 0, (bottom - y) / (bottom - top))));
  }

  // Dragging along an axis chooses a range, and a click on the axis removes its range.
  function listen(svg, strip, axis, yOf, placeOf) {
    let begin = null;
    const pointed = (event) => {
      const box = svg.getBoundingClientRect();
      return placeOf((event.clientY - box.top) * svg.viewBox.baseVal.height / box.height);
    };
    const choose = (event) => {
      const end = pointed(event), from = Math.min(begin, end), to = Math.max(begin, end);
      const chosen = (to - from) * (yOf(0) - yOf(1)) > 4;
      axis.box.setAttribute("y", yOf(to));
      axis.box.setAttribute("height", chosen ? yOf(from) - yOf(to) : 0);
      changeWanted(() => chosen ? wanted.ranges.set(axis.key, {label: axis.label, place: axis.place, from, to}) : wanted.ranges.delete(axis.key));
    };
    strip.addEventListener("pointerdown", (event) => {
      begin = pointed(event);
      strip.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    strip.addEventListener("pointermove", (event) => begin !== null && choose(event));
    strip.addEventListener("pointerup", (event) => {
      if (begin !== null) choose(event);
      begin = null;
    });
    strip.addEventListener("pointercancel", () => begin = null);
  }

  function dim() {
    for (const line of lines) line.path.classList.toggle("off", !wanted.matches(line.trial));
    for (const axis of list) {
      if (!wanted.ranges.has(axis.key)) axis.box?.setAttribute("height", 0);
    }
  }

  function show(trial) {
    const line = lines.find((each) => each.trial === trial);
    front.setAttribute("d", line ? pathOf(line.points) : "");
  }

  byId("parallel-about").textContent = `${countOf("trials", drawn.length, page.drawnOf)}. Drag along an axis to keep a range of it, here and in the table; a click on it ends that.`;
  // On a narrow screen the axes keep their distance, and the drawing scrolls.
  const holder = make("div", {});
  holder.style.minWidth = `${92 + 84 * (list.length - 1)}px`;
  byId("parallel-chart").append(holder);
  chart(holder, `Parallel coordinates of ${drawn.length} trials. The filter of the table takes the same ranges as conditions.`, 320, draw);
  wanted.listeners.push(dim);
  looked.listeners.push((trial) => front && show(trial));
  readout("parallel-trial");
}
