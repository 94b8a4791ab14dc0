// Which couplings are drawn: those of now, or what the changes did to them; and the strongest in words.

import { el } from "./dom.js";
import { shared } from "./drawing.js";
import { points } from "./pointing.js";
import { digits, isolated, printable, signed } from "./text.js";

// J, the words worth drawing, and the size below which a pair is noise.
export function couplingsOf(ex, original, view) {
  const delta = view === "change";
  const J = delta ? ex.interactions.map((row, i) => row.map((value, j) => value - original.interactions[i][j])) : ex.interactions;
  const unread = new Set(original.diagnostics.unread ?? []);
  const gone = new Set(ex.diagnostics.removed ?? []);
  const weight = ex.scores.map((score, i) => Math.max(Math.abs(score), Math.abs(original.scores[i])));
  const ranked = weight.map((_, i) => i).filter((i) => !unread.has(i)).sort((i, j) => weight[j] - weight[i]);
  const shown = ranked.slice(0, shared.words).sort((i, j) => i - j);
  const noise = 2 * Math.max(ex.diagnostics.interactions_se ?? 0, delta ? original.diagnostics.interactions_se ?? 0 : 0);
  const largest = Math.max(0, ...shown.flatMap((i) => shown.map((j) => Math.abs(J[i][j]))));
  return { J, shown, gone, noise, delta, largest, d: digits([largest]), leftOut: ranked.length - shown.length, ex };
}

// Pairs above the noise, strongest first.
export function pairsOf({ J, shown, noise }) {
  const found = [];
  for (const i of shown) for (const j of shown) if (i < j && Math.abs(J[i][j]) > noise) found.push([i, j, J[i][j]]);
  return found.sort((a, b) => Math.abs(b[2]) - Math.abs(a[2]));
}

export function showStrongest(root, found) {
  const { ex, d, delta } = found, all = pairsOf(found);
  const lists = [
    [delta ? "Risen" : "Synergies", all.filter((pair) => pair[2] > 0)],
    [delta ? "Fallen" : "Antagonisms", all.filter((pair) => pair[2] < 0)],
  ];
  root.replaceChildren(...lists.map(([title, pairs]) => {
    const rows = pairs.slice(0, 4).map(([i, j, value]) => points(
      el("li", {}, el("span", {}, ...placed(ex, i), " × ", ...placed(ex, j)), el("span", { class: "number" }, signed(value, d))), i, j));
    return el("div", {}, el("h3", {}, title), el("ol", {}, ...(rows.length ? rows : [el("li", {}, "none above the error")])));
  }));
}

const placed = (ex, i) => [el("bdi", {}, printable(ex.words[i])), el("span", { class: "tag" }, ex.sides[i])];

export function pairsSaid(found) {
  const said = pairsOf(found).slice(0, 3).map(([i, j, value]) =>
    `${isolated(found.ex.words[i])} and ${isolated(found.ex.words[j])} ${signed(value, found.d)}`);
  return said.join("; ") || "none above the error";
}
