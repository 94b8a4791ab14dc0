// Elements without markup: what a user wrote goes in as text, and nothing in these files parses HTML.

const SVG = "http://www.w3.org/2000/svg";

export const $ = (id) => document.getElementById(id);

function made(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children);
  return element;
}

export const el = (name, attributes = {}, ...children) => made(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) => made(document.createElementNS(SVG, name), attributes, children);

export function options(select, entries, chosen) {
  const key = JSON.stringify(entries);
  if (select.dataset.key !== key) // an open list would close
    select.replaceChildren(...entries.map(([value, text, disabled]) => el("option", { value, disabled }, text)));
  select.dataset.key = key;
  select.value = chosen;
}

export function listed(list, lines) {
  list.replaceChildren(...lines.map((line) => el("li", {}, line)));
  list.hidden = !lines.length;
}
