// Both texts, the words that count on the colour of their score; as buttons that strike out, or only to look at.

import { Answers } from "./answers.js";
import { el } from "./dom.js";
import { shared } from "./drawing.js";
import { onPoint, points } from "./pointing.js";
import { digits, direction, shortened, signed } from "./text.js";

const LONGEST = 60; // characters of a word
const SIDES = ["premise", "hypothesis"];
const LINES = [[1, "stroke", "answer each other"], [-1, "stroke minus", "one does the other's work"]]; // by the sign of J

export class Sentences {
  constructor(root, strike) {
    this.strike = strike; // called with a word's number; none: nothing can be struck out
    this.texts = el("div", { class: strike ? "both spaced" : "both" }); // room for lines, always: nothing moves under the pointer
    this.legend = el("div", { class: "legend" });
    this.answers = new Answers(this.texts);
    root.replaceChildren(this.texts, ...(strike ? [this.legend] : []));
    this.clear();
    this.close = onPoint((pointed) => this.words.forEach((word, i) => word.classList.toggle("pointed", pointed.includes(i))));
  }

  clear() {
    this.texts.replaceChildren();
    this.words = [];
    this.key = "";
    this.shown = null;
  }

  show(ex, removed) {
    const key = JSON.stringify([ex.words, ex.sides]);
    if (key !== this.key) this.build(ex);
    this.key = key;
    this.shown = { ex, removed };
    const largest = Math.max(...ex.scores.map(Math.abs)) || 1, d = digits(ex.scores);
    const unread = new Set(ex.diagnostics.unread ?? []);
    ex.words.forEach((_, i) => this.paint(ex, i, ex.scores[i] / largest, d, unread.has(i), removed.has(i)));
    this.explain(ex, unread, removed, this.connect());
  }

  // Lines need the places of the words: again when the width changes.
  connect() {
    return this.strike && this.shown ? this.answers.show(this.shown.ex, this.words, this.shown.removed) : [];
  }

  // Struck out at once, before the server has answered.
  strikeNow(i, gone) {
    this.words[i]?.classList.toggle("gone", gone);
    this.words[i]?.setAttribute("aria-pressed", gone);
  }

  build(ex) {
    this.words = [];
    const sides = SIDES.map((side) => {
      const text = el("div", { class: "text", dir: direction(ex[side]) });
      if (this.strike) {
        text.setAttribute("role", "toolbar");
        text.setAttribute("aria-label", `Words of the ${side}; arrow keys move, space strikes out`);
        text.addEventListener("keydown", move);
      }
      ex.sides.forEach((s, i) => s === side && text.append(this.word(ex.words[i], i), " "));
      if (!text.childElementCount) text.append(el("i", {}, "(empty)"));
      return el("div", { class: "side" }, el("span", {}, side), text);
    });
    this.texts.replaceChildren(...sides);
    for (const text of this.texts.querySelectorAll("[role=toolbar]")) text.querySelector("button")?.setAttribute("tabindex", "0");
  }

  word(name, i) {
    const shown = el("bdi", {}, shortened(name, LONGEST));
    const found = this.strike ? el("button", { type: "button", tabindex: "-1" }, shown) : el("span", {}, shown);
    if (this.strike) found.addEventListener("click", () => this.strike(i));
    this.words[i] = points(found, i);
    return found;
  }

  paint(ex, i, share, d, unread, gone) {
    const word = this.words[i], size = Math.abs(share), strong = size >= shared.strong && !gone;
    const names = ["w", share > 0 ? "for" : "against"];
    if (strong) names.push("strong");
    if (ex.swing.includes(i) && !gone) names.push("swing");
    if (gone) names.push("gone");
    else if (unread) names.push("unread");
    if (word.classList.contains("pointed")) names.push("pointed");
    word.className = names.join(" ");
    const tint = size < shared.weak ? 0 : shared.deepest * (shared.palest + (1 - shared.palest) * size);
    word.style.setProperty("--a", gone || unread ? 0 : tint.toFixed(3));
    const pole = ex.summary.poles[share > 0 ? 1 : 0], number = signed(ex.scores[i], d);
    const said = gone ? "struck out" : unread ? "not read by the model" : `${size < shared.weak ? "weak" : pole}, ${number}`;
    if (this.strike) {
      word.setAttribute("aria-pressed", gone);
      word.setAttribute("aria-label", `${shortened(ex.words[i], LONGEST)}, ${said}${names.includes("swing") ? ", swing word" : ""}`);
    } else word.title = said;
  }

  explain(ex, unread, removed, lines) {
    const [against, favour] = ex.summary.poles;
    const marks = [["w for strong", "word", favour, 0.35], ["w against strong", "word", against, 0.35]];
    if (ex.swing.length) marks.push(["w swing", "word", "without it the answer is another", 0]);
    if ([...unread].some((i) => !removed.has(i))) marks.push(["w unread", "word", "not read", 0]);
    this.legend.replaceChildren(...marks.map(([names, sign, text, shade]) => {
      const mark = el("span", { class: names }, sign);
      mark.style.setProperty("--a", shade);
      return el("span", {}, mark, " " + text);
    }), ...LINES.filter(([sign]) => lines.some(([, , value]) => Math.sign(value) === sign)).map(([, names, text]) =>
      el("span", {}, el("span", { class: names, "aria-hidden": "true" }), " " + text)));
  }
}

// One word of a sentence is in the tab order; the arrow keys go to the others.
function move(event) {
  const words = [...event.currentTarget.querySelectorAll("button")], at = words.indexOf(document.activeElement);
  const back = event.currentTarget.dir === "rtl" ? "ArrowRight" : "ArrowLeft";
  const ahead = event.currentTarget.dir === "rtl" ? "ArrowLeft" : "ArrowRight";
  const to = { [back]: at - 1, ArrowUp: at - 1, [ahead]: at + 1, ArrowDown: at + 1, Home: 0, End: words.length - 1 }[event.key];
  if (to === undefined || at < 0) return;
  event.preventDefault();
  const next = words[Math.max(0, Math.min(words.length - 1, to))];
  words[at].tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

// Everything the record has on a word, in one line.
export function wordLine(ex, i) {
  const d = digits(ex.scores), error = ex.diagnostics.shapley_se?.[i];
  const parts = [`${ex.shapley ? "φ" : "score"} ${signed(ex.scores[i], d)}${error ? ` ± ${error.toFixed(d)}` : ""}`];
  if (ex.banzhaf) parts.push(`β ${signed(ex.banzhaf[i], d)}`);
  if (ex.alpha) parts.push(`α ${ex.alpha[i].toFixed(2)}`);
  if (ex.field) parts.push(`field ${signed(ex.field[i])}`);
  if (ex.gate) parts.push(`λ ${ex.gate[i].toFixed(2)}`);
  return parts.join("  ·  ");
}
