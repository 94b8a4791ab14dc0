// The page: what is asked, what comes back, and who draws it. One question is under way at a time, always the latest.

import { Refused, ask, file, giveUp, health } from "./api.js";
import { couplingsOf, showStrongest } from "./couplings.js";
import { $, el, listed, options } from "./dom.js";
import { shared } from "./drawing.js";
import { EXAMPLES } from "./examples.js";
import { Many } from "./many.js";
import { Matrix, matrixSaid } from "./matrix.js";
import { Methods, showFirst } from "./methods.js";
import { Network } from "./network.js";
import { onPoint, point } from "./pointing.js";
import { Sentences, wordLine } from "./sentences.js";
import { copyLink, save } from "./sharing.js";
import { Spins, heatNote, spinsSaid } from "./spins.js";
import { fresh, fromHash, toHash } from "./state.js";
import { capital, digits, percent, shortened, signed, spaced } from "./text.js";
import { showTrust } from "./trust.js";
import { changesOf, showVerdict } from "./verdict.js";

const TYPING = 250; // ms without a key until what is typed is asked
const LINKING = 320; // ms without a change until the address has it: Safari takes a hundred of them in 30 s
const LOADING = 1000; // ms between two looks at whether the model is loaded
const ALL = "all"; // methods beside the first

let state = fresh();
let server = null; // what /health says
let shown = null; // { now, original, question, key }
let wanted = false, working = false, typing = 0, linking = 0;

const first = new Sentences($("first"), strike);
const methods = new Methods($("methods"), { toggle, use });
const spins = new Spins($("spins")), network = new Network($("network")), matrix = new Matrix($("matrix"));
const many = new Many((premise, hypothesis) => {
  write(premise, hypothesis);
  fill();
  showOne(true);
  update();
});

// --- asking ---------------------------------------------------------------------------------------------------------

const edited = () => state.removed.size > 0 || state.factor !== 1;
const empty = () => !(state.premise + state.hypothesis).trim();
const method = (name) => server.methods.find((found) => found.name === name);
const recommended = () => (server.methods.find((found) => found.recommended) ?? server.methods[0])?.name ?? "";
const pair = () => ({ premise: state.premise, hypothesis: state.hypothesis });
const key = () => JSON.stringify(pair());

// A changed pair is asked about the label that the whole pair was explained for, so that the numbers can be compared.
function question(name, { changed = null } = {}) {
  const asked = { ...pair(), method: name };
  if (method(name).has_target) {
    const target = state.target || changed?.target;
    if (target) asked.target = target;
    if (state.contrast) asked.contrast = state.contrast;
  }
  if (changed) Object.assign(asked, { removed: [...state.removed].sort((a, b) => a - b), temperature_factor: state.factor });
  return asked;
}

async function update() {
  wanted = true;
  clearTimeout(linking);
  linking = setTimeout(link, LINKING);
  giveUp();
  if (working) return;
  working = true;
  $("main").dataset.busy = "true";
  while (wanted) {
    wanted = false;
    const asked = key();
    try {
      const found = empty() ? null : await answer();
      if (asked === key()) found ? show(found) : idle();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (!wanted) refused(error.message);
    }
  }
  working = false;
  $("main").dataset.busy = "false";
}

function link() {
  history.replaceState(null, "", toHash(state));
}

async function answer() {
  if (!server.methods.length) return said();
  const asked = question(state.method);
  early();
  let original;
  try {
    original = await ask("explain", asked);
  } catch (error) {
    if (error.status === 400 && state.contrast) { // another pair, for which the other label is the predicted one
      state.contrast = "";
      return answer();
    }
    if (error.status !== 400 && error.status !== 413) throw error;
    return said(error.message); // cannot be explained, but perhaps predicted
  }
  for (const i of state.removed) if (i >= original.words.length) state.removed.delete(i);
  if (!edited()) return { now: original, original, question: asked, key: key() };
  const changed = question(state.method, { changed: original });
  return { now: await ask("explain", changed), original, question: changed, key: key() };
}

// A slow method is no reason to wait for the prediction of a new pair.
async function early() {
  const asked = key();
  if (edited() || asked === shown?.key) return;
  const prediction = await ask("predict", pair()).catch(() => null); // what is wrong will be said by the explanation
  if (prediction && !edited() && asked === key() && asked !== shown?.key) showVerdict({ prediction }, { prediction }, []);
}

async function said(note = "No method of explanation works for this model: it only predicts.") {
  const prediction = await ask("predict", pair());
  return { prediction, note };
}

function problem(text) {
  listed($("problem"), text ? [text] : []);
}

function settled(note) {
  problem(note);
  $("main").dataset.stale = "false";
}

// What is shown stays, faded, if it is of this pair; of another it would be wrong.
function refused(text) {
  if (key() !== shown?.key) idle("No answer.");
  $("main").dataset.stale = String(Boolean(shown));
  problem(text);
}

// --- showing --------------------------------------------------------------------------------------------------------

function idle(text = "Type two sentences, or pick an example.") {
  settled("");
  shown = null;
  $("said").textContent = text;
  for (const id of ["labels", "reasons"]) $(id).replaceChildren();
  $("undo").hidden = true;
  $("compared").firstElementChild.textContent = "";
  details(false);
}

function details(visible) {
  for (const id of ["words", "trust", "compare"]) $(id).hidden = !visible;
  for (const id of ["heat", "pairs"]) if (!visible) $(id).hidden = true;
  if (!visible) methods.show(null, {}, state.removed, "");
  for (const id of ["html", "json"]) $(id).disabled = !visible;
}

function show(found) {
  settled(found.note ?? "");
  if (!found.now) {
    shown = null;
    showVerdict(found, found, []);
    details(false);
    return;
  }
  shown = found;
  const { now, original } = found, changes = edited() ? changesOf(state, now.words) : [];
  details(true);
  showVerdict(now, original, changes);
  listed($("warnings"), now.summary.warnings.map(capital));
  first.show(now, state.removed);
  showSettings();
  draw();
  showTrust(now, method("random") ? { ...pair(), method: "random" } : null);
  showFirst(method(state.method), now, method(recommended()));
  compare();
}

// What depends on the width of the page.
function draw() {
  const { now, original } = shown;
  first.connect();
  $("heat").hidden = !now.alpha;
  if (now.alpha) {
    $("slider").hidden = !server.has_temperature;
    $("heat-note").textContent = heatNote(now);
    spins.show(now, original, edited());
    $("spins-said").textContent = spinsSaid(now, edited());
  }
  showPairs();
}

function showPairs() {
  const { now, original } = shown, can = now.interactions && original.interactions && now.words.length > 1;
  $("pairs").hidden = !can;
  if (!can) return;
  $("view").hidden = !edited();
  const found = couplingsOf(now, original, edited() ? state.view : "now");
  const drawn = network.show(found);
  $("network-said").textContent = drawn ? `The ${drawn} strongest pairs; a word's dot is as large as its own share.` : "No pair is above the error.";
  matrix.show(found);
  $("matrix-said").textContent = matrixSaid(found);
  showStrongest($("strongest"), found);
}

// The methods that are to be shown beside the first.
const others = () => server.methods.map(({ name }) => name)
  .filter((name) => name !== state.method && (state.compare === ALL || state.compare.split(".").includes(name)));

function compare() {
  const change = edited() ? { changed: shown.original } : {}, open = $("others").open;
  const questions = Object.fromEntries(open ? others().map((name) => [name, question(name, change)]) : []);
  $("all").textContent = state.compare === ALL ? "Hide all methods" : "Show all methods";
  methods.show(shown.now, questions, state.removed, state.method);
}

function showSettings() {
  const { original } = shown, target = original.target, chosen = method(state.method);
  const rest = server.labels.filter((label) => label !== target);
  options($("target"), [["", edited() ? "predicted before" : "predicted label"], ...server.labels.map((label) => [label, label])], state.target);
  options($("contrast"), [["", "anything else"], ...rest.map((label) => [label, label])], rest.includes(state.contrast) ? state.contrast : "");
  $("ask").hidden = !chosen.has_target;
  const follows = chosen.follows_temperature, followers = server.methods.filter((other) => other.follows_temperature);
  $("factor").disabled = !follows;
  $("unmoved").hidden = follows || !server.has_temperature;
  $("unmoved").textContent = `${capital(spaced(state.method))} asks the model as it is; the temperature can be turned for ${followers.map(({ name }) => spaced(name)).join(", ")}.`;
  showFactor();
}

function showFactor() {
  const slider = $("factor");
  $("gamma").textContent = `× ${state.factor.toPrecision(2)}`;
  if (document.activeElement !== slider) slider.value = Math.log10(state.factor);
  slider.setAttribute("aria-valuetext", `times ${state.factor.toPrecision(2)}`);
  $("neutral").disabled = state.factor === 1;
}

// The numbers of what is pointed at, below the words and below the couplings: one of the two is in sight.
const hints = new Map([...document.querySelectorAll(".readout")].map((line) => [line, [...line.childNodes]]));
onPoint((words) => {
  for (const [line, hint] of hints) line.replaceChildren(...(shown && words.length ? numbers(...words) : hint));
});

function numbers(i, j) {
  const { now, original } = shown;
  const name = (k) => el("b", {}, el("bdi", {}, shortened(now.words[k], 40)), el("span", { class: "tag" }, now.sides[k]));
  if (j === undefined) return [name(i), " ", ...(state.removed.has(i) ? ["struck out"] : [without(now, i), el("small", {}, wordLine(now, i))])];
  const J = now.interactions[i][j], before = original.interactions[i][j], d = digits([J, before]);
  const kind = J > 0 ? "need each other" : "do the same work";
  return [name(i), " × ", name(j), ` ${kind}, J ${signed(J, d)}${edited() ? `, before ${signed(before, d)}` : ""}`];
}

function without(now, i) {
  const check = now.summary.checks.find(({ kind, words }) => kind === "without" && words[0] === i);
  return check ? `without it: ${check.label} ${percent(check.probability)}  ` : "";
}

// --- changing -------------------------------------------------------------------------------------------------------

function strike(i) {
  if (!state.removed.delete(i)) state.removed.add(i);
  first.strikeNow(i, state.removed.has(i));
  update();
}

function write(premise, hypothesis) {
  Object.assign(state, { premise, hypothesis, removed: new Set() });
  showExample();
}

function showExample() {
  for (const chip of $("examples").children)
    chip.setAttribute("aria-pressed", chip.dataset.premise === state.premise && chip.dataset.hypothesis === state.hypothesis);
}

function typed() {
  clearTimeout(typing);
  write($("premise").value, $("hypothesis").value);
  typing = setTimeout(update, TYPING);
}

function choose(id, change) {
  $(id).addEventListener("change", (event) => {
    change(event.target.value);
    update();
  });
}

// A method shown beside the first, or no longer.
function toggle(name) {
  const now = new Set(others());
  if (!now.delete(name)) now.add(name);
  state.compare = [...now].join(".");
  link();
  compare();
}

// A method in the place of the first.
function use(name) {
  state.method = name;
  cool();
  update();
  $("words").scrollIntoView({ block: "nearest" });
}

// One pair, as against many.
function showOne(fromTable = false) {
  $("main").dataset.mode = "one";
  document.querySelector("input[name=mode][value=one]").checked = true;
  $("back").hidden = !fromTable;
  if (fromTable) $("pair").scrollIntoView();
}

function showMany() {
  $("main").dataset.mode = "many";
  document.querySelector("input[name=mode][value=many]").checked = true;
}

function wire() {
  $("examples").append(...EXAMPLES.map(([name, premise, hypothesis]) => {
    const chip = el("button", { type: "button", "aria-pressed": "false", "data-premise": premise, "data-hypothesis": hypothesis }, name);
    chip.addEventListener("click", () => {
      write(premise, hypothesis);
      fill();
      update();
    });
    return chip;
  }));
  for (const id of ["premise", "hypothesis"]) $(id).addEventListener("input", typed);
  choose("target", (value) => { Object.assign(state, { target: value, contrast: value === state.contrast ? "" : state.contrast }); });
  choose("contrast", (value) => { state.contrast = value; });
  $("all").addEventListener("click", () => {
    state.compare = state.compare === ALL ? "" : ALL;
    link();
    compare();
  });
  $("others").addEventListener("toggle", () => { if (shown) compare(); });
  $("other-method").lastElementChild.addEventListener("click", () => { use(recommended()); });
  for (const radio of document.getElementsByName("mode"))
    radio.addEventListener("change", () => (radio.value === "many" ? showMany() : showOne()));
  $("back").firstElementChild.addEventListener("click", showMany);
  $("factor").addEventListener("input", (event) => {
    state.factor = Number((10 ** Number(event.target.value)).toPrecision(4));
    showFactor();
    update();
  });
  $("neutral").addEventListener("click", () => { warm(1); });
  $("undo").addEventListener("click", () => {
    state.removed.clear();
    warm(1);
    $("words").focus({ preventScroll: true });
  });
  for (const radio of document.getElementsByName("view"))
    radio.addEventListener("change", () => { state.view = radio.value; link(); showPairs(); });
  wireSharing();
  window.addEventListener("hashchange", () => {
    const linked = fromHash(location.hash);
    if (linked) open(linked);
  });
  $("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the part behind # is taken
    $("words").focus();
  });
  let width = 0;
  new ResizeObserver(([{ contentRect }]) => {
    if (shown && contentRect.width !== width) draw();
    width = contentRect.width;
  }).observe($("main"));
}

function wireSharing() {
  $("share").addEventListener("click", () => { link(); copyLink(); });
  $("json").addEventListener("click", () => {
    const { summary, ...record } = shown.now;
    save(new Blob([JSON.stringify(record, null, 1)], { type: "application/json" }), "explanation.json");
  });
  $("html").addEventListener("click", async () => {
    try {
      save(await file("explain.html", shown.question), "explanation.html");
    } catch (error) {
      problem(error.message);
    }
  });
}

function warm(factor) {
  state.factor = factor;
  $("factor").value = Math.log10(factor);
  update();
}

function fill() {
  $("premise").value = state.premise;
  $("hypothesis").value = state.hypothesis;
}

// A link, or the first example; what this model does not have is left out.
function open(linked) {
  if (linked && toHash(linked) === toHash(state)) return;
  state = linked ?? fresh();
  if (!linked) write(EXAMPLES[0][1], EXAMPLES[0][2]);
  if (!method(state.method)) state.method = recommended();
  if (state.compare !== ALL) state.compare = state.compare.split(".").filter(method).join(".");
  if (state.compare) $("others").open = true;
  for (const name of ["target", "contrast"]) if (!server.labels.includes(state[name])) state[name] = "";
  if (state.target || state.contrast) $("ask").open = true;
  cool();
  for (const radio of document.getElementsByName("view")) radio.checked = radio.value === state.view;
  fill();
  showExample();
  showOne();
  update();
}

// Only some methods follow the temperature; with another it is the model's own.
function cool() {
  if (!method(state.method)?.follows_temperature) state.factor = 1;
  $("factor").value = Math.log10(state.factor);
}

async function begin() {
  try {
    server = await health();
    Object.assign(shared, server.drawing);
  } catch (error) {
    if (error.status === 503) { // the model is still loading
      $("said").textContent = capital(`${error.message} …`);
      return setTimeout(begin, LOADING);
    }
    $("main").dataset.busy = "false";
    idle("No answer.");
    return problem(error.message);
  }
  $("model").textContent = ` · ${server.model}`;
  methods.list(server.methods);
  many.ready(server);
  wire();
  point();
  return open(fromHash(location.hash));
}

begin();
