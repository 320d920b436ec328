"use strict";
// Makes elements and formats numbers. Data of trials becomes only text nodes and attributes, and no code here
// parses markup.

const byId = (id) => document.getElementById(id);

function make(tag, attributes = {}, ...children) {
  return furnish(document.createElement(tag), attributes, children);
}

function shape(tag, attributes = {}, ...children) {
  return furnish(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// Sets attributes and children. The attribute "onclick" is a function. An attribute with the value undefined
// or false is left out.
function furnish(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.map((child) => child instanceof Node ? child : String(child)));
  return element;
}

function formatNumber(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return String(value);
  const rounded = Number(value.toPrecision(4));
  const size = Math.abs(rounded);
  return size >= 1e7 || (size < 1e-4 && size > 0) ? rounded.toExponential().replace("e+", "e") : String(rounded);
}

function formatValue(value) {
  if (value === null || value === undefined) return "–";
  return typeof value === "number" ? formatNumber(value) : value;
}

function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds);
  if (whole < 60) return `${formatNumber(seconds < 10 ? Number(seconds.toFixed(1)) : whole)}s`;
  const units = [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => whole >= size);
  const parts = units.slice(first, first + 2).map(([unit, size], i) => {
    const count = Math.floor((i === 0 ? whole : whole % units[first][1]) / size);
    return count > 0 ? count + unit : "";
  });
  return parts.join("");
}

// An ordinary table: columns are {label, number}, cells are texts or elements.
function makeTable(caption, columns, rows) {
  const side = (column) => ({class: column.number ? "number" : undefined});
  return make("table", {}, make("caption", {class: "hidden"}, caption),
    make("thead", {}, make("tr", {}, ...columns.map((column) => make("th", {scope: "col", ...side(column)}, column.label)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => make("td", side(columns[i]), cell))))));
}
