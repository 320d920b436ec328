// The table of trials: sorted by any column, filtered, and in pages, so that 20 000 rows open at once.

const rowsOfPage = 50;
const mostPrinted = 2000;

function startTable() {
  const table = byId("trials");
  const stateClass = (state) => `state ${state.toLowerCase()}`;
  let sorted = {column: columns[2], descending: page.goal === "maximize"};
  let first = 0, rows = [], printing = false;

  const shownColumns = () => columns.filter((column) => !column.metric || byId("with-metrics").checked);

  function order() {
    const {of} = sorted.column;
    const sign = sorted.descending ? -1 : 1;
    rows = trials.filter(wanted.matches).map((trial) => [of(trial), trial]);
    rows.sort(([a, first], [b, second]) => {
      if (a === null || b === null) return (a === null) - (b === null) || first.n - second.n;  // no value: last
      const both = typeof a === "number" && typeof b === "number";
      return sign * (both ? a - b : String(a).localeCompare(String(b), "en", {numeric: true})) || first.n - second.n;
    });
    rows = rows.map(([, trial]) => trial);
  }

  function cell(column, trial) {
    const value = column.of(trial);
    if (column.key === "trial") {
      return make("td", {class: "number"}, make("button", {type: "button", class: "link", onclick: () => lookAt(trial), "aria-label": `show trial ${value} in the charts`}, value));
    }
    if (column.key === "state") return make("td", {}, make("span", {class: stateClass(value)}, value));
    return make("td", {class: column.number ? "number" : undefined}, (column.format ?? formatValue)(value));
  }

  function drawHead() {
    table.tHead.replaceChildren(make("tr", {}, ...shownColumns().map((column) => {
      const direction = column === sorted.column ? (sorted.descending ? "descending" : "ascending") : undefined;
      const click = () => {
        sorted = {column, descending: column === sorted.column ? !sorted.descending : false};
        update();
        table.tHead.querySelector("[aria-sort] button").focus();
      };
      return make("th", {scope: "col", "aria-sort": direction, class: column.number ? "number" : undefined, title: column.key},
        make("button", {type: "button", onclick: click}, column.label, make("span", {"aria-hidden": "true", class: "arrow"}, direction ? (sorted.descending ? "▼" : "▲") : "")));
    })));
  }

  function drawRows() {
    const end = printing ? Math.min(rows.length, mostPrinted) : first + rowsOfPage;
    const list = shownColumns();
    table.tBodies[0].replaceChildren(...rows.slice(printing ? 0 : first, end).map((trial) =>
      make("tr", {class: trial === best ? "best" : undefined, "data-trial": trial.n}, ...list.map((column) => cell(column, trial)))));
    const ranges = [...wanted.ranges.values()].map((range) => range.label);
    byId("count").textContent = `${rows.length} of ${trials.length} trials` + (ranges.length > 0 ? `, within ranges of ${ranges.join(", ")}` : "") +
      (printing && rows.length > end ? `, the first ${end} printed` : "");
    const turn = (label, to, possible) => make("button", {type: "button", disabled: possible ? false : "", onclick: () => {
      first = to;
      drawRows();
    }}, label);
    byId("pages").hidden = rows.length <= rowsOfPage;
    byId("pages").replaceChildren(turn("Previous", Math.max(0, first - rowsOfPage), first > 0),
      make("span", {class: "muted"}, `${rows.length === 0 ? 0 : first + 1} to ${Math.min(rows.length, first + rowsOfPage)} of ${rows.length}`),
      turn("Next", first + rowsOfPage, first + rowsOfPage < rows.length));
  }

  function update() {
    first = 0;
    order();
    drawHead();
    drawRows();
  }

  const chips = states.filter((state) => page.states[state]).map((state) => make("button", {
    type: "button", "aria-pressed": "false", class: stateClass(state),
    onclick: () => changeWanted(({states: chosen}) => chosen.delete(state) || chosen.add(state)),
  }, state));
  byId("filter-states").append(...chips);
  byId("filter").addEventListener("input", (event) => changeWanted(() => wanted.text = event.target.value));
  byId("clear").addEventListener("click", () => changeWanted(() => {
    byId("filter").value = wanted.text = "";
    wanted.states.clear();
    wanted.ranges.clear();
  }));
  byId("metrics-switch").hidden = page.metrics.length === 0;
  byId("with-metrics").addEventListener("change", update);
  wanted.listeners.push(() => {
    for (const chip of chips) chip.setAttribute("aria-pressed", String(wanted.states.has(chip.textContent)));
    update();
  });
  const print = (now) => () => {
    printing = now;
    drawRows();
    redraws.forEach((redraw) => redraw(now ? 680 : undefined));
  };
  addEventListener("beforeprint", print(true));
  addEventListener("afterprint", print(false));
  update();
}
