// Draws the parts of the page that do not depend on the user's filter, and starts all other parts.

function startHeader() {
  byId("title").textContent = page.title;
  byId("about").textContent = [page.namespace && `namespace ${page.namespace}`, page.description, `${page.goal} ${metricName}, ${page.of}`]
    .filter((part) => part).join(" · ");
  byId("made").textContent = `Made by mlk ${page.version} from what was known at ${page.made}.`;
  // The style sheet has a light and a dark colour in each place, and this setting chooses one of the two.
  byId("theme").addEventListener("change", (event) => document.documentElement.style.colorScheme = event.target.value);
}

function startSummary() {
  const counts = states.filter((state) => page.states[state]).map((state) => [state, page.states[state]]);
  const all = counts.reduce((sum, [, count]) => sum + count, 0);
  const tile = (count, label, name) => make("li", {class: name}, make("b", {}, count), make("span", {}, label));
  byId("states").append(tile(all, all === 1 ? "trial" : "trials"), ...counts.map(([state, count]) => tile(count, state.toLowerCase(), state.toLowerCase())));
  const time = trials.reduce((sum, trial) => sum + (trial.d ?? 0), 0);
  if (time > 0) byId("states").append(tile(formatSeconds(time), trials.length < all ? "taken by the trials below" : "taken by all trials"));
  if (!best) {
    byId("best").append(make("p", {}, `No trial has a value of ${metricName} yet.`));
    return;
  }
  const term = (name, value) => make("div", {}, make("dt", {}, name), make("dd", {}, formatValue(value)));
  byId("best").append(make("p", {class: "value"}, make("b", {}, formatValue(best.o)), ` ${metricName}`),
    make("p", {class: "muted"}, `best trial: ${best.n}, ${best.s}, ${formatSeconds(best.d)}, step ${best.e}`),
    make("dl", {}, ...parameters.filter((parameter) => best.v[parameter.index] !== null).map((parameter) => term(parameter.path, best.v[parameter.index]))));
}

function startImportance() {
  const {effects, trials: count, fit, reason} = page.importance;
  if (reason) {
    byId("importance-about").textContent = `Not computed: ${reason}.`;
    return;
  }
  const labels = new Map(parameters.map((parameter) => [parameter.path, parameter.label]));
  const name = (effect) => [effect.path, effect.with].filter((path) => path).map((path) => labels.get(path) ?? path).join(" × ");
  const percent = (share) => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;
  const bar = (share) => {
    const inner = make("i", {});
    inner.style.width = `${100 * share}%`;
    return make("div", {class: "meter"}, inner);
  };
  const most = 20;
  const table = makeTable("Importance of the parameters", [{label: "parameter"}, {label: ""}, {label: "share", number: true}],
    effects.slice(0, most).map((effect) => [name(effect), bar(effect.share), percent(effect.share)]));
  table.className = "bars";
  byId("importance-table").append(table);
  const rest = effects.length > most ? ` The ${most} largest of ${effects.length} are shown.` : "";
  const trust = fit < 0.3 ? " That is little: do not rely on these numbers." : "";
  byId("importance-about").textContent = `Functional ANOVA (Hutter, Hoos, Leyton-Brown 2014) over a random forest of ${count} succeeded trials: the share of the ` +
    `variance of ${metricName} over the whole space that a parameter explains alone, or two beyond that (×). The forest explains ` +
    `${percent(Math.max(0, fit))} of the variance of trials that it has not seen.${trust}${rest}`;
}

function startTimes() {
  const {paths, rows} = page.times;
  byId("times").hidden = rows.length === 0;
  const number = (label) => ({label, number: true});
  byId("times-table").append(makeTable("Time by number of processes",
    [...paths.map(number), number("trials"), number("shortest"), number("median"), number("longest"), number("speed-up")],
    rows.map((row) => [...row.counts.map(formatValue), row.trials, formatSeconds(row.shortest), formatSeconds(row.median), formatSeconds(row.longest), `${row.speedup.toFixed(2)}×`])),
  make("p", {class: "muted small"}, "Of succeeded trials. The speed-up compares medians with the first row; other parameters of the trials may differ."));
}

function startFailures() {
  const failed = trials.filter((trial) => trial.s === "Failed");
  const most = 500;
  byId("failures").hidden = failed.length === 0;
  byId("failures-table").append(makeTable("Failed trials", [{label: "trial", number: true}, {label: "reason"}, {label: "tries", number: true}, {label: "step", number: true}, {label: "time", number: true}],
    failed.slice(0, most).map((trial) => [trial.n, trial.f ?? "no reason is known", trial.t, trial.e, formatSeconds(trial.d)])));
  if (failed.length > most) page.notes.push(`failed trials in the list of reasons: ${most} of ${failed.length}`);
}

startHeader();
startSummary();
startCurves();
startImportance();
startParallel();
startTable();
startScatter();
startTimes();
startFailures();
byId("notes").append(...page.notes.map((note) => make("li", {}, `Not everything is shown: ${note}.`)));
