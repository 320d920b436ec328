// One scatter plot for each parameter that varies: its values against the objective. The most important
// parameters come first, and only `mostScatters` parameters get a plot.

const mostScatters = 24;

function startScatter() {
  const share = (parameter) => page.importance.effects.find((effect) => effect.path === parameter.path && effect.with === "")?.share ?? 0;
  const list = parameters.filter((parameter) => new Set(drawn.map((trial) => trial.v[parameter.index])).size > 1)
    .sort((a, b) => share(b) - share(a));
  byId("scatter").hidden = list.length === 0;
  for (const parameter of list.slice(0, mostScatters)) byId("scatter-charts").append(scatter(parameter));
  if (list.length > mostScatters) page.notes.push(`scatter plots, of the most important parameters: ${mostScatters} of ${list.length}`);
}

function scatter(parameter) {
  const container = make("div", {class: "chart"});
  const text = make("p", {class: "readout small"});
  let dots = [], groups = {};

  // Draws each dot as a line of length 0, so that one SVG path contains hundreds of dots.
  const fill = () => {
    const d = (list) => list.map(({x, y}) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("");
    groups.off.setAttribute("d", d(dots.filter((dot) => !wanted.matches(dot.trial))));
    groups.on.setAttribute("d", d(dots.filter((dot) => wanted.matches(dot.trial) && dot.trial !== best)));
    groups.best.setAttribute("d", d(dots.filter((dot) => dot.trial === best)));
  };
  const mark = (trial) => {
    const dot = dots.find((each) => each.trial === trial);
    groups.looked.setAttribute("d", dot ? `M${dot.x} ${dot.y}h0` : "");
    text.textContent = dot ? `trial ${trial.n} · ${parameter.label} ${formatValue(trial.v[parameter.index])} · ${metricName} ${formatValue(trial.o)}` : "";
  };

  chart(container, `${metricName} by ${parameter.label}, ${drawn.length} trials`, 200, (svg, width, height) => {
    const {x, y, frame} = axes(svg, width, height, parameter.scale, objectiveScale, parameter.label, metricName);
    const slot = (frame.right - frame.left) / Math.max(1, parameter.values.length);
    // If a parameter is a choice, moves the dots of trials with the same value apart. The offset depends only
    // on the number of the trial.
    const aside = (trial) => parameter.scale.category ? ((trial.n * 0.618034) % 1 - 0.5) * Math.min(40, slot * 0.6) : 0;
    dots = drawn.map((trial) => ({trial, x: x(trial.v[parameter.index]) + aside(trial), y: y(trial.o)})).filter((dot) => !Number.isNaN(dot.x + dot.y));
    groups = Object.fromEntries(["off", "on", "best", "looked"].map((name) => [name, shape("path", {class: `dots ${name}`})]));
    svg.append(...Object.values(groups));
    const look = (event) => {
      const box = svg.getBoundingClientRect(), scale = width / box.width;
      const distance = (dot) => Math.hypot(dot.x - (event.clientX - box.left) * scale, dot.y - (event.clientY - box.top) * scale);
      const nearest = dots.filter((dot) => wanted.matches(dot.trial)).reduce((a, b) => !a || distance(b) < distance(a) ? b : a, null);
      if (nearest && distance(nearest) < 25) lookAt(nearest.trial);
    };
    svg.addEventListener("pointermove", look);
    svg.addEventListener("pointerdown", look);
    fill();
    mark(looked.trial);
  });
  wanted.listeners.push(() => groups.on && fill());
  looked.listeners.push((trial) => groups.on && mark(trial));
  return make("figure", {class: "card"}, container, text);
}
