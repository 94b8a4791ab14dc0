// How the numbers came about: a line, and every diagnostic of the record.

import { $, el } from "./dom.js";
import { printable, spaced } from "./text.js";

const LEFT_OUT = ["shapley_se", "banzhaf_se", "unread", "trajectory"]; // at the words themselves, or a matrix

export function showTrust(now) {
  $("footing").textContent = now.summary.footing.join(" · ");
  const entries = Object.entries(now.diagnostics).filter(([name]) => !LEFT_OUT.includes(name));
  $("diagnostics").replaceChildren(...entries.flatMap(([name, value]) => [
    el("dt", {}, spaced(name)), el("dd", {}, diagnostic(value))]));
}

function diagnostic(value) {
  if (value === true || value === false) return value ? "yes" : "no";
  if (Array.isArray(value)) return value.map(diagnostic).join(", ") || "none";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  if (value && typeof value === "object") return printable(JSON.stringify(value));
  return value === null ? "–" : printable(String(value));
}
