// What the model says: a sentence that is read out, and a bar per label with a mark where it stood before the changes.

import { $, el } from "./dom.js";
import { EXAMPLES } from "./examples.js";
import { capital, isolated } from "./text.js";

const HINT = "Strike out words or turn the temperature, and watch.";

export function showVerdict(now, original, changes) {
  const said = now.prediction, before = original.prediction;
  const p = said.probabilities[said.label];
  const parts = [capital(said.label), ` with probability ${p.toFixed(3)}`];
  if ($("said").textContent !== parts.join("")) // it is read out, so only what is new
    $("said").replaceChildren(el("strong", {}, parts[0]), parts[1]);
  $("undo").hidden = !changes.length;
  $("compared").firstElementChild.textContent = changes.length
    ? `${capital(changes.join(", "))}. Before: ${before.label}, ${before.probabilities[before.label].toFixed(3)}.`
    : weakness(before.label) + HINT;
  const labels = Object.keys(said.probabilities);
  const list = $("labels");
  if (list.children.length !== labels.length) list.replaceChildren(...labels.map(row));
  labels.forEach((label, i) => {
    const [name, track, number] = list.children[i].children;
    list.children[i].classList.toggle("said", label === said.label);
    name.textContent = label;
    track.firstElementChild.style.width = `${100 * said.probabilities[label]}%`;
    const mark = track.lastElementChild;
    mark.hidden = !changes.length;
    mark.style.insetInlineStart = `${100 * before.probabilities[label]}%`;
    number.textContent = said.probabilities[label].toFixed(3);
  });
}

// An example of the page that the model gets wrong says so.
function weakness(label) {
  const [premise, hypothesis] = [$("premise").value, $("hypothesis").value];
  const example = EXAMPLES.find(([, p, h]) => p === premise && h === hypothesis);
  return example && example[3] !== label ? `Known weakness: ${example[0]}. The right answer is ${example[3]}. ` : "";
}

const row = () =>
  el("li", {}, el("span"), el("span", { class: "track", "aria-hidden": "true" }, el("i"), el("b")), el("span", { class: "number" }));

// The changes in words: without “not”, at γ × 0.50.
export function changesOf(state, words) {
  const found = [];
  const gone = [...state.removed].filter((i) => i < words.length).sort((a, b) => a - b);
  const quoted = gone.slice(0, 4).map((i) => `“${isolated(words[i])}”`);
  if (gone.length) found.push(`without ${quoted.join(", ")}${gone.length > 4 ? ` and ${gone.length - 4} more` : ""}`);
  if (state.factor !== 1) found.push(`at γ × ${state.factor.toPrecision(2)}`);
  return found;
}
