// The matrix of couplings, premise and hypothesis as blocks; a sign stands where a pair is strong.

import { svg } from "./dom.js";
import { shared } from "./drawing.js";
import { onPoint, points } from "./pointing.js";
import { pairsSaid } from "./couplings.js";
import { shortened, signed } from "./text.js";

const LARGEST = 28, SMALLEST = 15;

export class Matrix {
  constructor(root) {
    this.root = root;
    onPoint((words) => {
      for (const name of this.root.querySelectorAll("text.name"))
        name.classList.toggle("pointed", words.includes(Number(name.dataset.word)));
    });
  }

  show(found) {
    const { shown, ex, gone } = found;
    const names = shown.map((i) => shortened(ex.words[i]));
    const gutter = 16 + Math.round(7 * Math.max(0, ...names.map((name) => [...name].length)));
    const cell = Math.max(SMALLEST, Math.min(LARGEST, Math.floor((this.root.clientWidth - gutter - 4) / Math.max(1, shown.length))));
    const size = gutter + cell * shown.length + 4;
    const drawing = svg("svg", { width: size, height: size, viewBox: `0 0 ${size} ${size}`, role: "img", "aria-label": `Matrix of couplings. Strongest: ${pairsSaid(found)}.` });
    shown.forEach((i, row) => shown.forEach((j, column) =>
      drawing.append(...this.cell(found, i, j, gutter + cell * column, gutter + cell * row, cell))));
    shown.forEach((i, place) => {
      const middle = gutter + cell * (place + 0.5) + 3;
      const kind = { class: gone.has(i) ? "name gone" : "name", "data-word": i };
      drawing.append(
        svg("text", { ...kind, x: gutter - 6, y: middle, "text-anchor": "end" }, names[place]),
        svg("text", { ...kind, transform: `translate(${middle},${gutter - 6}) rotate(-90)` }, names[place]));
    });
    const first = shown.filter((i) => ex.sides[i] === "premise").length;
    if (first && first < shown.length) {
      const cut = gutter + cell * first - 1, end = gutter + cell * shown.length;
      drawing.append(
        svg("line", { class: "cut", x1: cut, y1: 8, x2: cut, y2: end }), svg("line", { class: "cut", x1: 8, y1: cut, x2: end, y2: cut }));
    }
    this.root.replaceChildren(drawing);
  }

  cell({ J, largest, d }, i, j, x, y, size) {
    const place = { x, y, width: size - 2, height: size - 2, rx: 3 }, value = J[i][j];
    const ground = svg("rect", { ...place, class: "grid", "fill-opacity": i === j ? 0.45 : 1 });
    if (i === j) return [ground];
    const share = largest ? Math.abs(value) / largest : 0;
    const cell = svg("rect", { ...place, class: value > 0 ? "p" : "n", "fill-opacity": (shared.shade * share).toFixed(2), "data-value": signed(value, d) });
    const sign = share >= shared.sign && size >= 18 ? [svg("text", { class: "sign", x: x + size / 2 - 1, y: y + size / 2 + 3 }, value > 0 ? "+" : "−")] : [];
    return [ground, points(cell, i, j), ...sign];
  }
}

export const matrixSaid = ({ largest, d, leftOut, delta }) =>
  `Deepest colour: ±${largest.toFixed(d)}${delta ? ", now minus before" : ""}.` + (leftOut ? ` ${leftOut} weaker words are left out.` : "");
