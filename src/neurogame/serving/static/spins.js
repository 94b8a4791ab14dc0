// α of each word as a pin on a line from off to on: the head is the mean, small dots are heads, a ring is what was before.

import { svg } from "./dom.js";
import { onPoint, points } from "./pointing.js";
import { bare, isolated, percent, shortened } from "./text.js";

const HEIGHT = 150, TOP = 14, LEFT = 34, GAP = 18;
const NARROWEST = 20, WIDEST = 62;
const MOST_DOTS = 900; // heads × words; more would be a fog

export class Spins {
  constructor(root) {
    this.root = root;
    this.key = "";
    this.columns = [];
    onPoint((words) => this.columns.forEach((c, i) => c?.group.classList.toggle("pointed", words.includes(i))));
  }

  // Words that the model does not read have no spin.
  show(ex, original, changed) {
    const unread = new Set(original.diagnostics.unread ?? []), gone = new Set(ex.diagnostics.removed ?? []);
    const read = ex.words.map((_, i) => i).filter((i) => !unread.has(i));
    const heads = ex.per_head.alpha ?? [];
    const dots = heads.length > 1 && heads.length * read.length <= MOST_DOTS ? heads.length : 0;
    const scale = ex.field || ex.diagnostics.grounded ? 1 : Math.max(1e-9, ...ex.alpha, ...original.alpha); // weights of a control are small
    const width = this.root.clientWidth;
    const key = JSON.stringify([ex.words, ex.sides, read, dots, scale, width]);
    if (key !== this.key) this.build(ex, read, dots, scale, width);
    this.key = key;
    const y = (alpha) => `translateY(${(HEIGHT * (1 - alpha / scale)).toFixed(1)}px)`;
    const kept = new Set(ex.diagnostics.grounded ? ex.rationale ?? [] : []); // alone they keep the answer
    const half = ex.field || ex.diagnostics.grounded ? 0.5 : 0;
    for (const i of read) {
      const { group, pin, stem, ring, points: small, title } = this.columns[i];
      const alpha = ex.alpha[i], out = gone.has(i);
      group.classList.toggle("gone", out);
      group.classList.toggle("kept", kept.has(i));
      pin.style.transform = stem.style.transform = y(alpha);
      stem.setAttribute("y2", (HEIGHT * (alpha - half) / scale).toFixed(1));
      ring.style.transform = y(original.alpha[i]);
      ring.classList.toggle("shown", changed);
      small.forEach((dot, h) => { dot.style.transform = y(heads[h][i]); });
      const before = changed ? `, before ${original.alpha[i].toFixed(2)}` : "";
      title.textContent = `${isolated(ex.words[i])}: ${out ? "struck out" : `α ${alpha.toFixed(2)}`}${before}`;
    }
  }

  build(ex, read, dots, scale, width) {
    const names = read.map((i) => shortened(ex.words[i]));
    const foot = 14 + 7.7 * Math.max(0, ...names.map((name) => [...name].length));
    const first = read.filter((i) => ex.sides[i] === "premise").length;
    const gap = first && first < read.length ? GAP : 0;
    const column = Math.max(NARROWEST, Math.min(WIDEST, (width - LEFT - gap - 4) / Math.max(1, read.length)));
    const wide = LEFT + gap + column * read.length + 4, high = TOP + HEIGHT + foot;
    const drawing = svg("svg", { width: wide, height: high, viewBox: `0 0 ${wide} ${high}`, class: "spins", role: "img", "aria-labelledby": "spins-said" });
    const ticks = ex.field || ex.diagnostics.grounded ? [[1, "on"], [0.5, "½"], [0, "off"]] : [[scale, scale.toFixed(2)], [0, "0"]];
    for (const [value, name] of ticks) {
      const y = TOP + HEIGHT * (1 - value / scale);
      drawing.append(
        svg("line", { class: value === 0.5 ? "half" : "rule", x1: LEFT - 4, x2: wide, y1: y, y2: y }),
        svg("text", { class: "tick", x: LEFT - 9, y: y + 4, "text-anchor": "end" }, name),
      );
    }
    this.columns = [];
    read.forEach((i, place) => {
      const x = LEFT + column * (place + 0.5) + (place >= first ? gap : 0);
      drawing.append(this.column(i, names[place], x, column, dots));
    });
    this.root.replaceChildren(drawing);
  }

  column(i, name, x, width, dots) {
    const pin = svg("circle", { class: "pin", r: 5.5 }), ring = svg("circle", { class: "ring", r: 5.5 });
    const stem = svg("line", { class: "stem", y1: 0 }), title = svg("title");
    const spread = Math.min(width - 10, 26);
    const small = Array.from({ length: dots }, (_, h) =>
      svg("circle", { class: "dot", r: 1.9, cx: dots > 1 ? (spread * (h / (dots - 1) - 0.5)).toFixed(1) : 0 }));
    const group = svg("g", { transform: `translate(${x.toFixed(1)},${TOP})`, "data-word": i },
      svg("rect", { class: "hit", x: -width / 2, y: -TOP, width, height: TOP + HEIGHT + 60, rx: 4 }),
      ...small, stem, ring, pin,
      svg("text", { class: "name", transform: `translate(4,${HEIGHT + 10}) rotate(-90)`, "text-anchor": "end" }, name),
      title);
    this.columns[i] = { group, pin, stem, ring, points: small, title };
    return points(group, i);
  }
}

// What the drawing says, for those who do not see it.
export function spinsSaid(ex, changed) {
  const unread = new Set(ex.diagnostics.unread ?? []);
  const read = ex.words.map((_, i) => i).filter((i) => !unread.has(i));
  const order = [...read].sort((i, j) => ex.alpha[j] - ex.alpha[i]);
  const most = order.slice(0, 3).map((i) => `${isolated(bare(ex.words[i]))} ${ex.alpha[i].toFixed(2)}`).join(", ");
  const before = changed ? " Dashed rings: before the changes." : "";
  if (ex.diagnostics.grounded) return `Most among the reasons: ${most}.${rationale(ex)}${before}`;
  if (!ex.field) return `Largest weights: ${most}.${before}`;
  const rows = ex.per_head.alpha, cells = rows.flatMap((row) => read.map((i) => row[i]));
  const sure = cells.reduce((sum, alpha) => sum + Math.abs(2 * alpha - 1), 0) / Math.max(1, cells.length);
  return `Most on: ${most}. Spins are ${percent(sure)} decided (mean over words and heads).${before}`;
}

function rationale(ex) {
  if (!ex.rationale?.length) return "";
  const alone = ex.diagnostics.rationale_alone?.[ex.prediction.label];
  const tried = alone === undefined ? "not tried on the model" : `tried on the model: ${ex.prediction.label} ${percent(alone)}`;
  return ` Filled: the shortest rationale that was found, words that alone keep the answer (${tried}).`;
}

// What α is, in plain words.
export function heatNote(ex) {
  if (ex.diagnostics.grounded)
    return `On: surely among the reasons for ${ex.target}; off: surely not; ½: undecided. Cold: every word that speaks for ${ex.target} is on, the rest off. Hot: all words are alike. The answer itself does not move.`;
  if (!ex.field) return "How much weight the model gives each word.";
  return "How far attention keeps a word (small dots: heads). Cold, each word is on or off; hot, half and half; the answer moves with it.";
}
