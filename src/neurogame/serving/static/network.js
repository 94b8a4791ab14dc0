// The strongest couplings as a ring of words, premise above, hypothesis below: + solid, − dashed, width by strength.

import { svg } from "./dom.js";
import { along, shared } from "./drawing.js";
import { onPoint, points } from "./pointing.js";
import { pairsOf, pairsSaid } from "./couplings.js";
import { shortened } from "./text.js";

const WIDEST = 480;

export class Network {
  constructor(root) {
    this.root = root;
    onPoint((words) => {
      this.root.classList.toggle("pointing", words.length > 0);
      for (const part of this.root.querySelectorAll("[data-words]")) {
        const own = part.dataset.words.split(",").map(Number);
        part.classList.toggle("pointed", words.length === 2 ? words.every((i) => own.includes(i)) : words.some((i) => own.includes(i)));
      }
      for (const word of this.root.querySelectorAll("[data-word]")) word.classList.toggle("pointed", words.includes(Number(word.dataset.word)));
    });
  }

  show(found) {
    const { ex, shown, gone, largest } = found;
    const size = Math.min(WIDEST, this.root.clientWidth || WIDEST);
    const names = new Map(shown.map((i) => [i, shortened(ex.words[i], size < 400 ? 9 : 12)]));
    const longest = Math.max(0, ...[...names.values()].map((name) => [...name].length));
    const radius = size / 2 - 18 - 6.6 * longest, { places, arcs } = ring(ex, shown, radius);
    const drawing = svg("svg", { width: size, height: size, viewBox: `${-size / 2} ${-size / 2} ${size} ${size}`, class: "network", role: "img", "aria-label": `Strongest couplings: ${pairsSaid(found)}.` });
    drawing.append(...arcs.map((d) => svg("path", { class: "arc", d })));
    const drawn = pairsOf(found).filter((pair) => Math.abs(pair[2]) >= shared.faintest * largest).slice(0, shared.lines);
    for (const [i, j, value] of [...drawn].reverse()) drawing.append(edge(places, i, j, value, Math.abs(value) / largest));
    const most = Math.max(...ex.scores.map(Math.abs)) || 1;
    for (const i of shown) drawing.append(node(ex, i, places.get(i), names.get(i), Math.abs(ex.scores[i]) / most, gone.has(i)));
    this.root.replaceChildren(drawing);
    return drawn.length;
  }
}

// Angle and point of each word, and the arc of each text; both texts read from left to right.
function ring(ex, shown, radius) {
  const sides = ["premise", "hypothesis"].map((side) => shown.filter((i) => ex.sides[i] === side));
  const both = sides.every((side) => side.length), places = new Map(), arcs = [];
  const at = (angle) => ({ angle, x: radius * Math.cos(angle), y: radius * Math.sin(angle) });
  const share = both ? Math.min(1 - shared.narrowest, Math.max(shared.narrowest, sides[0].length / shown.length)) : sides[0].length ? 1 : 0;
  sides.forEach((words, side) => {
    if (!words.length) return;
    const arc = 2 * Math.PI * (side ? 1 - share : share) - shared.gap, middle = side ? Math.PI / 2 : -Math.PI / 2;
    words.forEach((i, place) => {
      const turn = arc * ((place + 0.5) / words.length - 0.5);
      places.set(i, at(side ? middle - turn : middle + turn));
    });
    const from = at(middle - arc / 2), to = at(middle + arc / 2);
    arcs.push(`M${point(from)}A${radius} ${radius} 0 ${arc > Math.PI ? 1 : 0} 1 ${point(to)}`);
  });
  return { places, arcs };
}

const point = ({ x, y }) => `${x.toFixed(1)} ${y.toFixed(1)}`;

function edge(places, i, j, value, share) {
  const a = places.get(i), b = places.get(j), { bend } = shared;
  const path = `M${point(a)}Q${point({ x: (bend * (a.x + b.x)) / 2, y: (bend * (a.y + b.y)) / 2 })} ${point(b)}`;
  return points(svg("path", {
    d: path, class: value > 0 ? "edge plus" : "edge minus", "stroke-width": along(shared.line, share).toFixed(2), "stroke-opacity": along(shared.ink, share).toFixed(2), "data-words": `${i},${j}`,
  }), i, j);
}

function node(ex, i, { angle, x, y }, name, share, gone) {
  const left = Math.cos(angle) < 0, turn = (angle * 180) / Math.PI + (left ? 180 : 0);
  const kind = gone ? "gone" : ex.scores[i] >= 0 ? "p" : "n";
  return points(svg("g", { class: `node ${gone ? "gone" : ""}`, "data-word": i, transform: `translate(${x.toFixed(1)},${y.toFixed(1)})` },
    svg("circle", { class: kind, r: along(shared.dot, share).toFixed(1) }),
    svg("text", { transform: `rotate(${turn.toFixed(1)}) translate(${left ? -12 : 12},4)`, "text-anchor": left ? "end" : "start" }, name)), i);
}
