// Other methods beside the first, asked one after the other: some are slow, and the reader may have moved on.

import { Abandoned, Refused, ask } from "./api.js";
import { el } from "./dom.js";
import { Sentences } from "./sentences.js";
import { agreement, signed, spaced } from "./text.js";

const PATIENCE = 350; // ms without a change until they are asked

export class Comparison {
  constructor(root) {
    this.root = root;
    this.columns = new Map();
    this.turn = 0;
  }

  // One column for each of `questions`, which are by method name; `now` is what they are compared with.
  async show(now, questions, removed) {
    const turn = ++this.turn, names = Object.keys(questions);
    this.arrange(names);
    if (names.length) await new Promise((resolve) => { setTimeout(resolve, PATIENCE); });
    for (const name of names) {
      if (turn !== this.turn) return;
      const { article, sentences, said } = this.columns.get(name);
      let text = "";
      try {
        const found = await ask("explain", questions[name]);
        if (turn !== this.turn) return;
        sentences.show(found, removed, true);
        text = compared(now, found);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (turn !== this.turn || error instanceof Abandoned) return; // the newer question shows them anew
        sentences.clear(name);
        text = error.message;
      }
      said.textContent = text;
      article.setAttribute("aria-busy", "false");
    }
  }

  arrange(names) {
    for (const [name, { article, sentences }] of this.columns) {
      if (names.includes(name)) continue;
      article.remove();
      sentences.close();
      this.columns.delete(name);
    }
    for (const name of names) if (!this.columns.has(name)) this.columns.set(name, column(name));
    for (const name of names) {
      const { article } = this.columns.get(name);
      article.setAttribute("aria-busy", "true");
      this.root.append(article);
    }
    this.root.classList.toggle("two", names.length > 0);
  }
}

function column(name) {
  const words = el("div"), said = el("p", { class: "note agreement" }, "asking …");
  const sentences = new Sentences(words, null);
  sentences.clear(name);
  return { article: el("article", { "aria-label": `Explanation by ${spaced(name)}`, "data-method": name }, words, said), sentences, said };
}

function compared(now, found) {
  const unread = new Set(now.diagnostics.unread ?? []), read = now.scores.map((_, i) => i).filter((i) => !unread.has(i));
  const rho = agreement(read.map((i) => now.scores[i]), read.map((i) => found.scores[i]));
  return `Rank correlation with ${spaced(now.method)}: ${rho === null ? "–" : signed(rho)}, over ${read.length} words.`;
}
