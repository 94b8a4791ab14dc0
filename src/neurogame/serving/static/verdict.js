// What the model says and why, which is read out, and a bar per label with a mark where it stood before the changes.

import { $, el } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { capital, isolated, percent, printable } from "./text.js";

// `now` is a record, or a prediction alone while its explanation is not there yet.
export function showVerdict(now, original, changes) {
  const said = now.prediction, before = original.prediction;
  const parts = [capital(said.label), ` ${percent(said.probabilities[said.label])}`];
  if ($("said").textContent !== parts.join("")) // it is read out, so only what is new
    $("said").replaceChildren(el("strong", {}, parts[0]), parts[1]);
  const reasons = capital(printable(now.summary?.reasons ?? "")).replace(/(\d) %/g, "$1\u00a0%"); // not at the end of a line
  if ($("reasons").textContent !== reasons) $("reasons").textContent = reasons;
  $("undo").hidden = !changes.length;
  $("compared").firstElementChild.textContent = changes.length
    ? `${capital(changes.join(", "))}. Before: ${before.label}, ${percent(before.probabilities[before.label])}.`
    : weakness(before.label);
  $("compared").classList.toggle("weakness", !changes.length && Boolean(weakness(before.label)));
  const labels = Object.keys(said.probabilities);
  const list = $("labels");
  if (list.children.length !== labels.length) list.replaceChildren(...labels.map(bar));
  labels.forEach((label, i) => fillBar(list.children[i], {
    name: label, share: said.probabilities[label], number: percent(said.probabilities[label], 1),
    strong: label === said.label, mark: changes.length ? before.probabilities[label] : null,
  }));
}

// A row: a name, a bar from 0 to 1 with a mark in it, and a number.
export const bar = () =>
  el("li", {}, el("span"), el("span", { class: "track", "aria-hidden": "true" }, el("i"), el("b")), el("span", { class: "number" }));

export function fillBar(row, { name, share, number, strong = false, mark = null }) {
  const [title, track, figure] = row.children;
  row.classList.toggle("said", strong);
  title.textContent = name;
  track.firstElementChild.style.width = `${100 * share}%`;
  track.lastElementChild.hidden = mark === null;
  if (mark !== null) track.lastElementChild.style.insetInlineStart = `${100 * mark}%`;
  figure.textContent = number;
  return row;
}

// An example of the page that the model gets wrong says so.
function weakness(label) {
  const [premise, hypothesis] = [$("premise").value, $("hypothesis").value];
  const example = EXAMPLES.find(([, p, h]) => p === premise && h === hypothesis);
  return example && example[3] !== label ? `Known weakness: ${example[0]}. The right answer is ${example[3]}.` : "";
}

// The changes in words: without “not”, at temperature × 0.50.
export function changesOf(state, words) {
  const found = [];
  const gone = [...state.removed].filter((i) => i < words.length).sort((a, b) => a - b);
  const quoted = gone.slice(0, 4).map((i) => `“${isolated(words[i])}”`);
  if (gone.length) found.push(`without ${quoted.join(", ")}${gone.length > 4 ? ` and ${gone.length - 4} more` : ""}`);
  if (state.factor !== 1) found.push(`at temperature × ${state.factor.toPrecision(2)}`);
  return found;
}
