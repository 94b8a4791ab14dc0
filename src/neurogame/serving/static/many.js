// Many pairs: pasted or from a file, answered while the reader looks on, a few at a time; stopped at any moment.

import { Abandoned, Refused, post } from "./api.js";
import { $, listed, options } from "./dom.js";
import { BYTES, ROWS, readPairs, toCsv, toJsonl } from "./pairs-text.js";
import { PairsTable } from "./pairs-table.js";
import { save } from "./sharing.js";

const AT_ONCE = 8; // predictions under way: the server answers them in one pass
const TRIES = 5, PAUSE = 1000; // of a pair that a busy server turns away, and ms between them

export class Many {
  // `open(premise, hypothesis)` shows one pair.
  constructor(open) {
    this.rows = [];
    this.run = null; // the AbortController of what is under way
    this.table = new PairsTable($("many-table"), (row) => open(row.premise, row.hypothesis));
  }

  ready(server) {
    this.server = server;
    const best = server.methods.find((method) => method.recommended);
    this.explains = best && !best.slow ? best.name : null; // swing words of a slow method would take hours
    $("many-note").textContent = `CSV, TSV or JSON lines with the columns premise and hypothesis; label is optional. At most ${ROWS} pairs and ${BYTES / 1e6} MB. They go to this server only.`;
    options($("many-label"), [["", "any"], ...server.labels.map((label) => [label, label])], "");
    $("many-run").addEventListener("click", () => this.start($("many-text").value));
    $("many-stop").addEventListener("click", () => this.run?.abort());
    $("many-file").addEventListener("change", () => this.load());
    for (const id of ["many-filter", "many-label"])
      $(id).addEventListener("input", () => this.table.filter($("many-filter").value, $("many-label").value));
    $("many-csv").addEventListener("click", () => save(new Blob([toCsv(this.records())], { type: "text/csv" }), "pairs.csv"));
    $("many-jsonl").addEventListener("click", () => save(new Blob([toJsonl(this.records())], { type: "application/jsonl" }), "pairs.jsonl"));
  }

  async load() {
    const [file] = $("many-file").files;
    if (!file) return;
    if (file.size > BYTES) return this.complain(`${(file.size / 1e6).toFixed(1)} MB: at most ${BYTES / 1e6} MB are taken at a time.`);
    let text;
    try {
      text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    } catch {
      return this.complain(`${file.name} is not a text in UTF-8.`);
    }
    return this.start(text); // not into the field: a browser takes long to lay out megabytes
  }

  complain(text) {
    listed($("many-problem"), text ? [text] : []);
  }

  async start(text) {
    this.run?.abort();
    this.complain("");
    try {
      this.rows = readPairs(text).map((pair, i) => ({ ...pair, number: i + 1 }));
    } catch (error) {
      return this.complain(error.message);
    }
    const run = this.run = new AbortController();
    $("many-filter").value = $("many-label").value = "";
    this.table.filter("", "");
    this.table.show(this.rows);
    $("many-found").hidden = false;
    this.busy(true);
    await this.each(run, AT_ONCE, "answered", (row) => this.predict(row, run.signal));
    if (this.explains) await this.each(run, 1, "explained", (row) => this.explain(row, run.signal));
    if (run !== this.run) return; // another has been started
    this.run = null;
    this.busy(false);
    const done = this.rows.filter((row) => row.answer).length;
    $("many-said").textContent = `${run.signal.aborted ? "Stopped: " : ""}${done} of ${this.rows.length} answered.`;
  }

  busy(yes) {
    $("many-stop").hidden = $("many-progress").hidden = !yes;
    $("many-run").hidden = yes;
  }

  // `work` on every row, `count` at a time, with the progress of it.
  async each(run, count, verb, work) {
    const rest = [...this.rows], total = rest.length;
    let done = 0;
    const worker = async () => {
      while (rest.length && !run.signal.aborted) {
        const row = rest.shift();
        await this.tried(run, row, work);
        if (run !== this.run || run.signal.aborted) return;
        this.table.fill(row);
        done++;
        $("many-progress").max = total;
        $("many-progress").value = done;
        if (done % 10 === 0 || total < 10 || done === total) $("many-said").textContent = `${done} of ${total} ${verb} …`; // read out, so not each
      }
    };
    await Promise.all(Array.from({ length: count }, worker));
  }

  // Again where the server is busy; what it refuses is the row's own affair, a server that is gone ends all.
  async tried(run, row, work) {
    for (let attempt = 1; ; attempt++) {
      try {
        return await work(row);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error instanceof Abandoned) return null;
        if (error.status === 503 && attempt < TRIES) {
          await new Promise((resolve) => { setTimeout(resolve, PAUSE * attempt); });
          continue;
        }
        if (!row.answer) row.error = error.message;
        if (error.status === 0 || error.status === 401) {
          this.complain(error.message);
          run.abort();
        }
        return null;
      }
    }
  }

  async predict(row, signal) {
    const said = await post("predict", { premise: row.premise, hypothesis: row.hypothesis }, signal);
    Object.assign(row, { answer: said.label, sure: said.probabilities[said.label], probabilities: said.probabilities });
  }

  async explain(row, signal) {
    if (!row.answer) return;
    const found = await post("explain", { premise: row.premise, hypothesis: row.hypothesis, method: this.explains }, signal);
    Object.assign(row, { swing: found.swing.map((i) => found.words[i]), sentence: found.sentence, warnings: found.summary.warnings });
  }

  records() {
    const gold = this.rows.some((row) => row.label);
    return this.rows.map((row) => ({
      premise: row.premise, hypothesis: row.hypothesis, ...(gold ? { label: row.label } : {}), answer: row.answer ?? null,
      ...Object.fromEntries(this.server.labels.map((label) => [`p_${label}`, row.probabilities?.[label] ?? null])),
      swing: row.swing ?? null, sentence: row.sentence ?? null, warnings: row.warnings ?? null, error: row.error ?? null,
    }));
  }
}
