// The other methods: what each is, how faithful it was when measured, its price; shown when asked for, as they finish.

import { Abandoned, Refused, ask, cancel, predictionTime } from "./api.js";
import { $, el } from "./dom.js";
import { Sentences } from "./sentences.js";
import { agreement, duration, signed, spaced } from "./text.js";

const PATIENCE = 350; // ms without a change until they are asked again
const TICK = 200; // ms between two steps of a progress bar
const CHANCE = "random"; // what the others must beat
const NEARLY = 0.97; // where a bar waits that was too optimistic

export class Methods {
  // `toggle(name)` and `use(name)`: the reader wants one shown here, or in the place of the first.
  constructor(root, { toggle, use }) {
    Object.assign(this, { root, toggle, use, rows: new Map(), turn: 0, running: null, begun: new Map() });
  }

  // A row for each of `methods`, the cheap ones first; chance, which explains nothing, at the end.
  list(methods) {
    const order = (a, b) => (a.name === CHANCE) - (b.name === CHANCE) || a.slow - b.slow || (a.measured?.cost ?? 0) - (b.measured?.cost ?? 0);
    this.rows = new Map([...methods].sort(order).map((info) => [info.name, this.row(info)]));
    this.root.replaceChildren(...[...this.rows.values()].map(({ article }) => article));
  }

  row(info) {
    const words = el("div", { class: "words-of" }), said = el("p", { class: "note agreement", role: "status" });
    const button = el("button", { type: "button" }, "Show"), above = el("button", { type: "button", class: "link" }, "use it above");
    const progress = el("progress", { max: 1, "aria-label": `Progress of ${spaced(info.name)}`, hidden: true });
    button.addEventListener("click", () => (this.running?.method === info.name ? this.stop() : this.toggle(info.name)));
    above.addEventListener("click", () => this.use(info.name));
    const price = el("p", { class: "price" });
    const article = el("article", { class: "method", "aria-label": spaced(info.name), "data-method": info.name },
      el("div", { class: "what" }, el("h3", {}, spaced(info.name)), el("p", {}, info.about)),
      el("p", { class: "measured" }, ...measured(info.measured)), price,
      el("div", { class: "choose" }, button, above), progress, said, words);
    return { info, article, button, progress, price, said, words: new Sentences(words, null) };
  }

  // `questions` by name are those to be shown; `now` is what they are compared with, `first` its method.
  async show(now, questions, removed, first) {
    const turn = ++this.turn;
    const wanted = new Set(Object.values(questions).map((question) => JSON.stringify(question)));
    if (!wanted.has(JSON.stringify(this.running))) this.stop();
    for (const [name, row] of this.rows) this.arrange(name, row, name in questions, name === first);
    const names = [...this.rows.keys()].filter((name) => name in questions && name !== first);
    if (names.length) await new Promise((resolve) => { setTimeout(resolve, PATIENCE); });
    for (const name of names) {
      if (turn !== this.turn) return;
      await this.fill(this.rows.get(name), questions[name], now, removed, turn);
    }
  }

  arrange(name, row, wanted, first) {
    row.article.hidden = first;
    row.button.textContent = wanted ? "Hide" : "Show";
    row.button.setAttribute("aria-expanded", wanted);
    row.price.textContent = price(row.info);
    row.progress.hidden = true;
    row.article.setAttribute("aria-busy", wanted && !first);
    if (!wanted) row.words.clear();
    row.said.textContent = wanted && !first ? "Waiting for its turn …" : "";
  }

  async fill(row, question, now, removed, turn) {
    const key = JSON.stringify(question), expected = expectedTime(row.info);
    const begun = this.begun.get(key) ?? performance.now(); // it may be under way already
    this.begun.set(key, begun);
    row.button.textContent = "Cancel";
    row.progress.hidden = false;
    row.progress.removeAttribute("value");
    const tick = () => {
      const seconds = (performance.now() - begun) / 1000;
      if (expected) row.progress.value = Math.min(NEARLY, seconds / expected);
      row.said.textContent = `${duration(seconds)}${expected ? ` of about ${duration(expected)}` : ""} …`;
    };
    tick();
    const timer = setInterval(tick, TICK);
    this.running = question;
    let text = "";
    try {
      const found = await ask("explain", question, { own: true });
      if (turn !== this.turn) return;
      row.words.show(found, removed);
      text = compared(now, found);
      row.price.textContent = spent(found);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (turn !== this.turn) return; // the newer question shows them anew
      row.words.clear();
      text = error instanceof Abandoned ? "Cancelled." : error.message;
    } finally {
      clearInterval(timer);
      this.begun.delete(key);
      if (this.running === question) this.running = null;
      row.progress.hidden = true;
    }
    row.button.textContent = "Hide";
    row.said.textContent = text;
    row.article.setAttribute("aria-busy", "false");
  }

  stop() {
    if (this.running) cancel("explain", this.running);
  }
}

function measured(found) {
  if (!found) return ["not measured"];
  const short = (share) => share.toFixed(2).replace(/^0/, "");
  const meter = el("span", { class: "meter", "aria-hidden": "true" }, el("i"), el("b"));
  meter.firstElementChild.style.width = `${100 * found.faithfulness}%`;
  meter.lastElementChild.style.insetInlineStart = `${100 * (found.chance ?? 0)}%`;
  return [meter, el("b", {}, short(found.faithfulness)), ` faithfulness, chance ${short(found.chance)}`,
    el("span", { class: "on" }, `${found.model}, ${found.pairs} pairs of ${found.data}`)];
}

const counted = (count, noun) => `${Math.round(count)} ${noun}${Math.round(count) === 1 ? "" : "es"}`;

function expectedTime({ measured: found }) {
  return found?.cost && predictionTime() ? found.cost * predictionTime() : null;
}

function price(info) {
  const seconds = expectedTime(info);
  const passes = info.measured?.passes ? counted(info.measured.passes, "pass") : info.slow ? "many passes" : "few passes";
  return passes + (seconds ? `, about ${duration(seconds)} here` : "");
}

const spent = ({ diagnostics }) => `${counted(diagnostics.encoder_passes, "pass")}, ${duration(diagnostics.seconds)}`;

function compared(now, found) {
  const unread = new Set(now.diagnostics.unread ?? []), read = now.scores.map((_, i) => i).filter((i) => !unread.has(i));
  const rho = agreement(read.map((i) => now.scores[i]), read.map((i) => found.scores[i]));
  return `Rank correlation with ${spaced(now.method)}: ${rho === null ? "–" : signed(rho)}, over ${read.length} words.`;
}

// What is shown above, in words: the recommended method and how it was measured.
export function showFirst(info, now, recommended) {
  $("compare-note").replaceChildren("Shown above: ", el("b", {}, spaced(info.name)), `${info.recommended ? " (recommended)" : ""}. ${info.about} ${spent(now)}.`,
    el("span", { class: "measured" }, ...measured(info.measured)));
  $("other-method").hidden = info.recommended || !recommended;
  $("other-method").firstElementChild.textContent = `By the method “${spaced(info.name)}”: ${now.summary.question[0].toLowerCase()}${now.summary.question.slice(1)}.`;
}
