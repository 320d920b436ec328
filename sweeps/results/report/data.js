// The data of the page, the values that all scripts share, and the user's filter of trials. The keys of a
// trial are: n number, h hash, s state, o objective, v values of the parameters, t tries, e last step, d
// duration in seconds, m metrics, f failure. null means no value.

const page = JSON.parse(byId("data").textContent);
const trials = page.trials;
const metricName = page.metric || "objective";
const states = ["Succeeded", "Running", "Failed", "Stopped", "Waiting"];
const better = (a, b) => page.goal === "minimize" ? a < b : a > b;

// The label of a parameter is the last word of its path, or the whole path if that word is not unique.
const parameters = page.parameters.map((parameter, index) => {
  const last = (path) => path.slice(path.lastIndexOf(".") + 1);
  const alike = page.parameters.filter((other) => last(other.path) === last(parameter.path)).length;
  const label = alike > 1 ? parameter.path : last(parameter.path);
  return {...parameter, index, label, scale: parameterScale(parameter, index)};
});

function parameterScale(parameter, index) {
  const seen = trials.map((trial) => trial.v[index]).filter((value) => value !== null);
  if (parameter.kind === "choice") {
    const values = [...new Set([...parameter.values, ...seen])];
    return categoryScale(values.every((value) => typeof value === "number") ? values.sort((a, b) => a - b) : values);
  }
  const numbers = seen.filter((value) => typeof value === "number");
  const low = numbers.reduce((a, b) => Math.min(a, b), Infinity), high = numbers.reduce((a, b) => Math.max(a, b), -Infinity);
  if (numbers.length === 0) return linearScale(0, 1);
  return parameter.kind === "log" && low > 0 ? logScale(low, high) : linearScale(low, high, parameter.kind === "integer");
}

const valued = trials.filter((trial) => trial.o !== null);
const objectiveScale = scaleOfNumbers(valued.map((trial) => trial.o));
// Colours follow the rank of a trial: 0 is the worst, 1 the best. So a single extreme value does not use up
// all colours.
const rank = new Map([...valued].sort((a, b) => better(a.o, b.o) ? 1 : better(b.o, a.o) ? -1 : 0)
  .map((trial, i, all) => [trial, all.length > 1 ? i / (all.length - 1) : 1]));
const colorOf = (trial) => `color-mix(in oklab, var(--good) ${Math.round(100 * (rank.get(trial) ?? 0))}%, var(--bad))`;

const drawn = page.drawn.map((row) => trials[row]).sort((a, b) => rank.get(a) - rank.get(b));
const best = page.best === null ? null : trials[page.best];

// The columns of the table. The user's filter may name any of them.
const columns = [
  {key: "trial", label: "trial", number: true, of: (trial) => trial.n},
  {key: "state", label: "state", of: (trial) => trial.s},
  {key: metricName, label: metricName, number: true, of: (trial) => trial.o},
  ...parameters.map((parameter, i) => ({
    key: parameter.path, label: parameter.label, of: (trial) => trial.v[i],
    number: trials.every((trial) => trial.v[i] === null || typeof trial.v[i] === "number"),
  })),
  ...(trials.some((trial) => trial.e > 0) ? [{key: "step", label: "step", number: true, of: (trial) => trial.e}] : []),
  {key: "time", label: "time", number: true, of: (trial) => trial.d ?? null, format: formatSeconds},
  {key: "tries", label: "tries", number: true, of: (trial) => trial.t},
  ...page.metrics.map((name, i) => ({key: name, label: name, number: true, metric: true, of: (trial) => trial.m ? trial.m[i] : null})),
];

function describe(trial) {
  const parts = [`trial ${trial.n}`, trial.s, `${metricName} ${formatValue(trial.o)}`];
  for (const parameter of parameters) {
    if (trial.v[parameter.index] !== null) parts.push(`${parameter.label} ${formatValue(trial.v[parameter.index])}`);
  }
  return parts.join(" · ");
}

// `wanted`: the user's filter of trials by words, states and ranges on axes. `looked`: the selected trial.
const wanted = {text: "", states: new Set(), ranges: new Map(), listeners: []};
const looked = {trial: null, listeners: []};

function changeWanted(change) {
  change(wanted);
  wanted.matches = matcher();
  wanted.listeners.forEach((listener) => listener());
}

function lookAt(trial) {
  if (looked.trial === trial) return;
  looked.trial = trial;
  looked.listeners.forEach((listener) => listener(trial));
}

// The condition for one word. "lr<0.01" compares if there is a column lr. Any other word must occur in the
// trial.
function condition(word) {
  const match = /^([^<>=]+)(<=|>=|<|>|=)(.+)$/.exec(word);
  const column = match && (columns.find((each) => each.key.toLowerCase() === match[1]) ?? columns.find((each) => each.label.toLowerCase() === match[1]));
  if (!column) return (trial) => textOf(trial).includes(word);
  const number = Number(match[3]);
  const compare = {"<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b, "=": (a, b) => a === b}[match[2]];
  return (trial) => {
    const value = column.of(trial);
    if (value === null) return false;
    return typeof value === "number" && !Number.isNaN(number) ? compare(value, number) : compare(String(value).toLowerCase(), match[3]);
  };
}

const texts = new Map();
function textOf(trial) {
  if (!texts.has(trial)) {
    texts.set(trial, [...columns.map((column) => formatValue(column.of(trial))), trial.h, trial.f ?? ""].join(" ").toLowerCase());
  }
  return texts.get(trial);
}

function matcher() {
  const conditions = wanted.text.toLowerCase().split(/\s+/).filter((word) => word).map(condition);
  if (wanted.states.size > 0) conditions.push((trial) => wanted.states.has(trial.s));
  for (const {place, from, to} of wanted.ranges.values()) conditions.push((trial) => place(trial) >= from && place(trial) <= to);
  return (trial) => conditions.every((holds) => holds(trial));
}
wanted.matches = matcher();
