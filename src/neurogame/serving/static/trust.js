// How far to trust it: what was tried on the model itself by deleting words; how the numbers came about is behind it.

import { Refused, ask } from "./api.js";
import { $, el } from "./dom.js";
import { bare, capital, percent, printable, shortened, spaced } from "./text.js";
import { bar, fillBar } from "./verdict.js";

const LEFT_OUT = ["shapley_se", "banzhaf_se", "unread", "trajectory", "without", "rationale_alone"]; // shown elsewhere, or a matrix
const TRIED = 3; // words that the page has tried itself where the method checks nothing
const PATIENCE = 500; // ms without a change until it does
const LONGEST = 60;
let turn = 0;

// `trial` is the question that asks the model about the pair without some words.
export function showTrust(now, trial) {
  turn++;
  if (now.summary.checks.length) showChecks(now, now.summary.checks);
  else if (trial) tryOut(now, trial, turn);
  $("footing").textContent = now.summary.footing.join(" · ");
  const entries = Object.entries(now.diagnostics).filter(([name]) => !LEFT_OUT.includes(name));
  $("diagnostics").replaceChildren(...entries.flatMap(([name, value]) => [
    el("dt", {}, spaced(name)), el("dd", {}, diagnostic(value))]));
}

function showChecks(now, checks) {
  const { label, probabilities } = now.prediction, singles = checks.filter(({ kind }) => kind === "without");
  const turned = singles.filter((check) => check.label !== label).length;
  const tried = singles.length === 1 ? "one word deleted" : `${singles.length} words deleted one at a time`;
  const found = turned ? `${turned} of them ${turned === 1 ? "changes" : "change"} the answer` : "none of them changes the answer";
  $("trust-note").textContent = `Tried on the model itself: ${tried}, ${found}. The bar is what is left of “${label}”, the mark what it was.`;
  $("checks").replaceChildren(...checks.map((check) => fillBar(bar(), {
    name: named(now, check), share: check.kept, mark: probabilities[label],
    number: `${check.label} ${percent(check.probability)}`, strong: check.label !== label,
  })));
}

// A word that both texts have, or one text twice, is told apart by its side.
function named(now, { kind, words }) {
  const name = (i) => bare(now.words[i]);
  const names = shortened(words.map(name).join(" "), LONGEST);
  const twice = kind === "without" && now.words.filter((_, i) => name(i).toLowerCase() === name(words[0]).toLowerCase()).length > 1;
  return `${kind === "alone" ? "only" : "without"} “\u2068${names}\u2069”${twice ? ` (${now.sides[words[0]]})` : ""}`;
}

// A method that checks nothing: its strongest words, deleted one at a time.
async function tryOut(now, trial, own) {
  $("checks").replaceChildren();
  $("trust-note").textContent = `${capital(spaced(now.method))} checks nothing itself; its strongest words are being deleted …`;
  await new Promise((resolve) => { setTimeout(resolve, PATIENCE); });
  const unread = new Set(now.diagnostics.unread ?? []), gone = now.diagnostics.removed ?? [];
  const order = now.words.map((_, i) => i).filter((i) => !unread.has(i)).sort((i, j) => Math.abs(now.scores[j]) - Math.abs(now.scores[i]));
  const checks = [];
  for (const i of order.length > 1 ? order.slice(0, TRIED) : []) {
    if (own !== turn) return;
    try {
      const { prediction } = await ask("explain", { ...trial, removed: [...gone, i] });
      checks.push({ kind: "without", words: [i], label: prediction.label, probability: prediction.probabilities[prediction.label], kept: prediction.probabilities[now.prediction.label] });
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return;
    }
  }
  if (own === turn) showChecks(now, checks);
}

function diagnostic(value) {
  if (value === true || value === false) return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(diagnostic).join(", ") || "none";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  if (value && typeof value === "object") return printable(JSON.stringify(value));
  return value === null ? "–" : printable(String(value));
}
