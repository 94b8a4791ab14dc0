// Numbers and words as they are shown; the same conventions as neurogame.explanation.summary.

const HIDDEN = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u202a-\u202e\u2066-\u2069]/gu; // a text would be turned round by the last nine
const INVISIBLE = /^[\p{Cf}\p{Mn}\p{Me}\p{Zs}\p{Cc}\p{Cs}\p{Zl}\p{Zp}]+$/u;

const escaped = (c) => "\\u" + c.codePointAt(0).toString(16).padStart(4, "0");

export const printable = (word) =>
  INVISIBLE.test(word) ? [...word].map(escaped).join("") : word.replace(HIDDEN, escaped);

// For a word within a sentence of ours: one that runs from right to left turns nothing round but itself.
export const isolated = (word) => `\u2068${printable(word)}\u2069`;

export function shortened(word, most = 14) {
  const shown = [...printable(word)];
  return shown.length <= most ? shown.join("") : shown.slice(0, most - 1).join("") + "…";
}

export function signed(value, digits = 2) {
  if (value === null || value === undefined) return "–";
  const text = Math.abs(value).toFixed(digits);
  return Number(text) === 0 ? text : (value > 0 ? "+" : "−") + text;
}

// Decimals that show three figures of the largest number, between 2 and 5.
export function digits(values) {
  const largest = Math.max(0, ...values.map(Math.abs));
  if (!largest) return 2;
  for (let d = 2; d < 5; d++) if (largest >= 10 ** (2 - d)) return d;
  return 5;
}

// Of the first letter that has a direction.
export function direction(text) {
  const first = text.match(/\p{L}/u);
  return first && /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/.test(first[0]) ? "rtl" : "ltr";
}

export const percent = (share, decimals = 0) => `${(100 * share).toFixed(decimals)} %`;

// 0.4 s, 12 s, 3 min
export function duration(seconds) {
  if (seconds < 0.95) return `${Math.max(0.1, seconds).toFixed(1)} s`;
  return seconds < 90 ? `${Math.round(seconds)} s` : `${Math.round(seconds / 60)} min`;
}

// Without the punctuation around it, as neurogame.explanation.summary.bare.
export const bare = (word) => word.replace(/^[.,;:!?()[\]…“”‘’]+|[.,;:!?()[\]…“”‘’]+$/g, "") || word;

export const spaced = (name) => name.replaceAll("_", " ");

export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// Spearman's rank correlation, ties at their mean rank; null where a side is constant.
export function agreement(a, b) {
  const x = ranks(a), y = ranks(b), mean = (a.length - 1) / 2;
  let xy = 0, xx = 0, yy = 0;
  for (let i = 0; i < a.length; i++) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) ** 2;
    yy += (y[i] - mean) ** 2;
  }
  return xx && yy ? xy / Math.sqrt(xx * yy) : null;
}

function ranks(values) {
  const order = values.map((_, i) => i).sort((i, j) => values[i] - values[j]);
  const found = new Array(values.length);
  for (let start = 0; start < order.length; ) {
    let end = start;
    while (end + 1 < order.length && values[order[end + 1]] === values[order[start]]) end++;
    for (let k = start; k <= end; k++) found[order[k]] = (start + end) / 2;
    start = end + 1;
  }
  return found;
}
