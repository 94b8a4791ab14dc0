// Pairs as a text: CSV, TSV, JSON lines or a JSON array, read and written; bounded, and nothing is guessed silently.

export const ROWS = 1000, BYTES = 2_000_000;

const COLUMNS = { // as neurogame.data.reading has them
  premise: ["premise", "sentence1", "sentence_a", "text", "context"],
  hypothesis: ["hypothesis", "sentence2", "sentence_b", "text_pair"],
  label: ["label", "gold_label", "entailment_label", "entailment_judgment"],
};

// [{ premise, hypothesis, label }]; throws an Error with one line that says what is wrong.
export function readPairs(text) {
  const bytes = new Blob([text]).size;
  if (bytes > BYTES) throw new Error(`${(bytes / 1e6).toFixed(1)} MB: at most ${BYTES / 1e6} MB are taken at a time.`);
  const body = text.replace(/^\ufeff/, "").trim();
  if (!body) throw new Error("Nothing to answer: paste pairs, or open a file.");
  const rows = /^[[{]/.test(body) ? fromJson(body) : fromTable(body);
  if (rows.length > ROWS) throw new Error(`${rows.length} pairs: at most ${ROWS} are taken at a time; neurogame predict and neurogame explain take files of any length.`);
  if (!rows.length) throw new Error("There is a header, but no pair below it.");
  return rows;
}

function fromJson(body) {
  let found;
  if (body.startsWith("[")) found = parsed(body, 1);
  else found = body.split(/\r?\n/).map((line, i) => [line, i + 1]).filter(([line]) => line.trim()).map(([line, i]) => parsed(line, i));
  if (!Array.isArray(found)) throw new Error("JSON, but neither lines of objects nor an array of them.");
  return found.map((row, i) => {
    if (!row || typeof row !== "object") throw new Error(`Pair ${i + 1}: not a JSON object.`);
    const names = Object.keys(row), places = located(names);
    return picked((column) => (column in places ? row[names[places[column]]] : undefined), i + 1);
  });
}

function parsed(text, line) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`Line ${line} is not JSON.`);
  }
}

function fromTable(body) {
  const [head] = body.split(/\r?\n/, 1), tabs = head.includes("\t") ? "\t" : head.includes(",") ? "," : head.includes(";") ? ";" : ",";
  const lines = cells(body, tabs).filter((line) => line.some((cell) => cell.trim()));
  const places = located(lines[0]);
  const headed = "premise" in places && "hypothesis" in places;
  if (!headed && lines[0].length < 2) throw new Error("One column only: two are needed, premise and hypothesis, with a comma or a tab between them.");
  const where = headed ? places : { premise: 0, hypothesis: 1, ...(lines[0].length > 2 ? { label: 2 } : {}) };
  return lines.slice(headed ? 1 : 0).map((line, i) => picked((column) => line[where[column]], i + 1));
}

// Which column is which, by its usual names; case does not matter.
function located(names) {
  const lowered = names.map((name) => String(name).trim().toLowerCase()), found = {};
  for (const [column, known] of Object.entries(COLUMNS)) {
    const name = known.find((alias) => lowered.includes(alias));
    if (name !== undefined) found[column] = lowered.indexOf(name);
  }
  return found;
}

function picked(of, number) {
  for (const column of ["premise", "hypothesis"])
    if (typeof of(column) !== "string") throw new Error(`Pair ${number} has no ${column}.`);
  const label = of("label");
  return { premise: of("premise"), hypothesis: of("hypothesis"), label: label === undefined || label === null ? "" : String(label).trim() };
}

// RFC 4180: a quoted cell may hold separators, line breaks and quotes, which are doubled.
function cells(body, separator) {
  const lines = [[]];
  let cell = "", quoted = false;
  for (let i = 0; i < body.length; i++) {
    const c = body[i];
    if (quoted) {
      if (c === '"' && body[i + 1] === '"') cell += body[++i];
      else if (c === '"') quoted = false;
      else cell += c;
    } else if (c === '"' && !cell) quoted = true;
    else if (c === separator || c === "\n") {
      lines.at(-1).push(cell.replace(/\r$/, ""));
      cell = "";
      if (c === "\n") lines.push([]);
    } else cell += c;
  }
  if (quoted) throw new Error("A quote is never closed.");
  lines.at(-1).push(cell);
  return lines;
}

export const toJsonl = (records) => records.map((record) => JSON.stringify(record) + "\n").join("");

export function toCsv(records) {
  const names = Object.keys(records[0] ?? {});
  const quote = (value) => (/[",\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const flat = (value) => quote(Array.isArray(value) ? value.join(" ") : value === null ? "" : String(value));
  return [names, ...records.map((record) => names.map((name) => record[name]))].map((line) => line.map(flat).join(",") + "\r\n").join("");
}
