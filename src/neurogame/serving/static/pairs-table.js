// A table of answered pairs: sorted by a click on a column, filtered by words and by answer; a pair opens on its own.

import { el } from "./dom.js";
import { bare, percent, printable, shortened } from "./text.js";

const LONGEST = 160; // characters of a text
const COLUMNS = [ // title, what it is sorted by
  ["#", (row) => row.number],
  ["premise", (row) => row.premise.toLowerCase()],
  ["hypothesis", (row) => row.hypothesis.toLowerCase()],
  ["answer", (row) => row.answer ?? ""],
  ["confidence", (row) => row.sure ?? -1],
  ["swing words", (row) => -(row.swing?.length ?? -1)],
];
const GOLD = ["given label", (row) => (row.label ? Number(!isWrong(row)) : 2)]; // wrong ones first

const isWrong = (row) => Boolean(row.label && row.answer) && row.label.toLowerCase() !== row.answer.toLowerCase();

export class PairsTable {
  constructor(table, open) {
    Object.assign(this, { table, open, rows: [], lines: new Map(), by: 0, down: false, words: "", label: "" });
  }

  show(rows) {
    this.rows = rows;
    this.by = 0;
    this.down = false;
    this.columns = rows.some((row) => row.label) ? [...COLUMNS.slice(0, 4), GOLD, ...COLUMNS.slice(4)] : COLUMNS;
    const titles = this.columns.map(([title], place) => {
      const button = el("button", { type: "button", class: "link" }, title);
      button.addEventListener("click", () => this.sort(place));
      return el("th", { scope: "col" }, button);
    });
    this.table.tHead.replaceChildren(el("tr", {}, ...titles));
    this.lines = new Map(rows.map((row) => [row, this.line(row)]));
    for (const row of rows) this.fill(row);
    this.arrange();
  }

  line(row) {
    const open = el("button", { type: "button", class: "link", "aria-label": `Open pair ${row.number}` }, String(row.number));
    open.addEventListener("click", () => this.open(row));
    const text = (said) => el("td", { dir: "auto" }, shortened(said, LONGEST));
    return el("tr", {}, el("td", {}, open, el("span", { class: "warned", role: "img", hidden: true }, " !")), text(row.premise), text(row.hypothesis), ...this.columns.slice(3).map(() => el("td")));
  }

  // What has come of a row.
  fill(row) {
    const line = this.lines.get(row), gold = this.columns.includes(GOLD), place = gold ? 5 : 4;
    line.cells[0].lastElementChild.hidden = !row.warnings?.length;
    line.cells[0].lastElementChild.title = line.cells[0].lastElementChild.ariaLabel = printable((row.warnings ?? []).join("; "));
    line.cells[3].textContent = row.error ? printable(row.error) : row.answer ?? "…";
    if (gold) {
      line.cells[4].textContent = row.label;
      line.classList.toggle("wrong", isWrong(row));
    }
    line.cells[place].textContent = row.sure === undefined ? "" : percent(row.sure);
    line.cells[place + 1].textContent = row.swing ? row.swing.map((word) => printable(bare(word))).join(", ") || "–" : "";
    line.hidden = !this.fits(row);
  }

  fits(row) {
    const text = [row.premise, row.hypothesis, ...(row.swing ?? [])].join("\n").toLowerCase();
    return text.includes(this.words.toLowerCase()) && (!this.label || row.answer === this.label);
  }

  filter(words, label) {
    Object.assign(this, { words, label });
    for (const [row, line] of this.lines) line.hidden = !this.fits(row);
  }

  sort(place) {
    this.down = place === this.by && !this.down;
    this.by = place;
    this.arrange();
  }

  arrange() {
    const [, of] = this.columns[this.by], sign = this.down ? -1 : 1;
    const order = [...this.rows].sort((a, b) => sign * (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0) || a.number - b.number);
    this.table.tBodies[0].replaceChildren(...order.map((row) => this.lines.get(row)));
    [...this.table.tHead.rows[0].cells].forEach((cell, place) =>
      place === this.by ? cell.setAttribute("aria-sort", this.down ? "descending" : "ascending") : cell.removeAttribute("aria-sort"));
  }
}
