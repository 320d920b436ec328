// Learning curves, each of one trial: the value of the objective's metric at each step.

function startCurves() {
  const curves = page.curves.map(({row, points}) => ({trial: trials[row], points})).filter((curve) => curve.points.length > 0)
    .sort((a, b) => (rank.get(a.trial) ?? -1) - (rank.get(b.trial) ?? -1));
  byId("curves").hidden = curves.length === 0;
  if (curves.length === 0) return;
  const values = curves.flatMap((curve) => curve.points.map((point) => point[1]));
  const positive = values.filter((value) => value > 0);
  const steps = linearScale(0, curves.reduce((most, curve) => Math.max(most, curve.points[curve.points.length - 1][0]), 1));
  const usual = usualRange(values);
  const ends = (list) => [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))];
  const log = byId("curves-log");
  log.checked = scaleOfNumbers(values).log === true;
  log.disabled = positive.length === 0;
  let lines = [], front = null;

  function draw(svg, width, height) {
    const scale = log.checked ? logScale(...ends(positive)) : linearScale(usual.low, usual.high);
    const {x, y, frame} = axes(svg, width, height, steps, scale, "step", metricName);
    lines = curves.map(({trial, points}) => ({
      trial, points: points.map(([step, value]) => [x(step), y(value)]).filter((point) => !Number.isNaN(point[1])),
    })).filter((line) => line.points.length > 0);
    for (const line of lines) {
      // A curve with only one step is drawn as a dot.
      const d = pathOf(line.points) + (line.points.length === 1 ? "h0.01" : "");
      line.path = shape("path", {class: line.trial === best ? "line best" : "line", d});
      line.path.style.stroke = line.trial === best ? "" : colorOf(line.trial);
      svg.append(line.path);
    }
    const winner = lines.find((line) => line.trial === best);
    if (winner) {
      const [endX, endY] = winner.points[winner.points.length - 1];
      svg.append(shape("circle", {class: "best-dot", cx: endX, cy: endY, r: 4}));
    }
    front = shape("path", {class: "line looked"});
    svg.append(front, shape("rect", {class: "clear", x: frame.left, y: frame.top, width: frame.right - frame.left, height: frame.bottom - frame.top}));
    lookAtNearest(svg, () => lines);
    dim();
    show(looked.trial);
  }

  function dim() {
    for (const line of lines) line.path.classList.toggle("off", !wanted.matches(line.trial));
    const edge = usual.outside > 0 && !log.checked ? " What lies outside the scale is drawn at its edge." : "";
    byId("curves-about").textContent = `${countOf("curves", curves.length, page.curvesOf)}, coloured by rank.${edge}`;
  }

  function show(trial) {
    const line = lines.find((each) => each.trial === trial);
    front.setAttribute("d", line ? pathOf(line.points) : "");
  }

  const container = byId("curves-chart");
  const redraw = chart(container, `Learning curves of ${curves.length} trials: ${metricName} by step. Arrow keys go from trial to trial.`, 320, draw);
  container.tabIndex = 0;
  container.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1}[event.key];
    if (!step) return;
    event.preventDefault();
    const at = curves.findIndex((curve) => curve.trial === (looked.trial ?? best));
    lookAt(curves[Math.min(curves.length - 1, Math.max(0, at + step))].trial);
  });
  log.addEventListener("change", () => redraw());
  wanted.listeners.push(dim);
  looked.listeners.push((trial) => front && show(trial));
  readout("curves-trial");
}
