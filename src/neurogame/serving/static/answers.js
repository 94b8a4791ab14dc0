// Lines between words of the premise and of the hypothesis that answer each other, behind the words: only strong ones.

import { svg } from "./dom.js";
import { along, shared } from "./drawing.js";
import { points } from "./pointing.js";
import { digits, isolated, signed } from "./text.js";

export class Answers {
  // `root` holds the words, and is what their places are measured from.
  constructor(root) {
    this.root = root;
    this.drawing = svg("svg", { class: "answers" });
  }

  // Returns them.
  show(ex, words, removed) {
    const pairs = ex.summary.answers.filter(([i, j]) => words[i] && words[j] && !removed.has(i) && !removed.has(j));
    this.drawing.remove();
    if (!pairs.length) return pairs;
    const frame = this.root.getBoundingClientRect(), strongest = Math.abs(pairs[0][2]), d = digits(pairs.map((pair) => pair[2]));
    const said = pairs.map(([i, j, value]) => `${isolated(ex.words[i])} and ${isolated(ex.words[j])} ${signed(value, d)}`);
    this.drawing = svg("svg", {
      class: "answers", role: "img", width: frame.width, height: frame.height, viewBox: `0 0 ${frame.width} ${frame.height}`,
      "aria-label": `Words that answer each other: ${said.join("; ")}.`,
    });
    for (const [i, j, value] of [...pairs].reverse()) this.drawing.append(line(frame, words, i, j, value, Math.abs(value) / strongest));
    this.root.prepend(this.drawing);
    return pairs;
  }
}

// From below the word of the premise to above that of the hypothesis.
function line(frame, words, i, j, value, share) {
  const from = words[i].getBoundingClientRect(), to = words[j].getBoundingClientRect();
  const x = (box) => box.left + box.width / 2 - frame.left;
  const top = from.bottom - frame.top, end = to.top - frame.top, middle = (top + end) / 2;
  const d = `M${x(from).toFixed(1)} ${top.toFixed(1)}C${x(from).toFixed(1)} ${middle.toFixed(1)} ${x(to).toFixed(1)} ${middle.toFixed(1)} ${x(to).toFixed(1)} ${end.toFixed(1)}`;
  return points(svg("path", {
    d, class: value > 0 ? "edge plus" : "edge minus", "stroke-width": along([1, 2.5], share).toFixed(2), "stroke-opacity": along(shared.ink, share).toFixed(2), "data-words": `${i},${j}`,
  }), i, j);
}
