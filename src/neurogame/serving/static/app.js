// The page: what is asked, what comes back, and who draws it. One question is under way at a time, always the latest.

import { Refused, ask, file, giveUp, health } from "./api.js";
import { Comparison } from "./compare.js";
import { couplingsOf, showStrongest } from "./couplings.js";
import { $, el, listed, options } from "./dom.js";
import { shared } from "./drawing.js";
import { EXAMPLES } from "./examples.js";
import { Matrix, matrixSaid } from "./matrix.js";
import { Network } from "./network.js";
import { onPoint, point } from "./pointing.js";
import { Sentences, wordLine } from "./sentences.js";
import { copyLink, save } from "./sharing.js";
import { Spins, spinsSaid } from "./spins.js";
import { fresh, fromHash, toHash } from "./state.js";
import { capital, digits, printable, shortened, signed, spaced } from "./text.js";
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
const comparison = new Comparison($("methods"));
const spins = new Spins($("spins")), network = new Network($("network")), matrix = new Matrix($("matrix"));

// --- asking ---------------------------------------------------------------------------------------------------------

const edited = () => state.removed.size > 0 || state.factor !== 1;
const empty = () => !(state.premise + state.hypothesis).trim();
const method = (name) => server.methods.find((found) => found.name === name);
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
  $("labels").replaceChildren();
  $("undo").hidden = true;
  $("compared").firstElementChild.textContent = "";
  details(false);
}

function details(visible) {
  $("words").hidden = !visible;
  for (const id of ["heat", "pairs"]) if (!visible) $(id).hidden = true;
  $("trust").hidden = !visible;
  if (!visible) comparison.show(null, {}, state.removed);
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
  listed($("warnings"), now.summary.warnings);
  first.show(now, state.removed, others().length > 0);
  showSwings(now);
  showSettings();
  draw();
  showTrust(now);
  compare();
}

// What depends on the width of the page.
function draw() {
  const { now, original } = shown;
  $("heat").hidden = !now.alpha;
  if (now.alpha) {
    $("slider").hidden = !server.has_temperature;
    spins.show(now, original, edited());
    $("spins-said").textContent = spinsSaid(now, edited());
  }
  showPairs();
}

function showSwings(now) {
  const names = now.swing.map((i, place) => [el("b", {}, el("bdi", {}, printable(now.words[i]))), ` → ${now.diagnostics.swing_to?.[place] ?? "another"}`]);
  $("swings").hidden = !names.length;
  $("swings").replaceChildren("Without one word, all others left in place, the decision would be another: ",
    ...names.flatMap((name, i) => (i ? ["; ", ...name] : name)), ".");
}

function showPairs() {
  const { now, original } = shown, can = now.interactions && original.interactions && now.words.length > 1;
  $("pairs").hidden = !can;
  if (!can) return;
  $("view").hidden = !edited();
  const found = couplingsOf(now, original, edited() ? state.view : "now");
  const drawn = network.show(found);
  $("network-said").textContent = drawn ? `The ${drawn} strongest couplings; a word's dot is as large as its score.` : "No coupling is above the error.";
  matrix.show(found);
  $("matrix-said").textContent = matrixSaid(found);
  showStrongest($("strongest"), found);
}

// The methods beside the first, the slow ones last.
const others = () => [...server.methods].sort((a, b) => a.slow - b.slow).map(({ name }) => name)
  .filter((name) => name !== state.method && [name, ALL].includes(state.compare));

function compare() {
  const change = edited() ? { changed: shown.original } : {};
  comparison.show(shown.now, Object.fromEntries(others().map((name) => [name, question(name, change)])), state.removed);
}

function showSettings() {
  const { original } = shown, target = original.target, chosen = method(state.method);
  const rest = server.labels.filter((label) => label !== target);
  options($("method"), server.methods.map(({ name }) => [name, spaced(name)]), state.method);
  options($("target"), [["", edited() ? "predicted before" : "predicted label"], ...server.labels.map((label) => [label, label])], state.target);
  options($("contrast"), [["", "anything else"], ...rest.map((label) => [label, label])], rest.includes(state.contrast) ? state.contrast : "");
  options($("compare"), [["", "no other method"], [ALL, "all methods"], ...server.methods.map(({ name }) => [name, spaced(name), name === state.method])], state.compare === state.method ? "" : state.compare);
  for (const id of ["target", "contrast"]) $(id).disabled = !chosen.has_target;
  const follows = chosen.follows_temperature, followers = server.methods.filter((other) => other.follows_temperature);
  $("factor").disabled = !follows;
  $("unmoved").hidden = follows || !server.has_temperature;
  $("unmoved").textContent = `${capital(spaced(state.method))} asks the model as it is; the temperature can be turned for ${followers.map(({ name }) => spaced(name)).join(", ")}.`;
  showFactor();
}

function showFactor() {
  const gammas = shown?.original.diagnostics.gamma, slider = $("factor");
  const mean = gammas ? gammas.reduce((sum, gamma) => sum + gamma, 0) / gammas.length : null;
  $("gamma").textContent = `γ × ${state.factor.toPrecision(2)}` + (mean ? ` = ${(mean * state.factor).toPrecision(2)} on average` : "");
  if (document.activeElement !== slider) slider.value = Math.log10(state.factor);
  slider.setAttribute("aria-valuetext", `γ times ${state.factor.toPrecision(2)}`);
  $("neutral").disabled = state.factor === 1;
}

// The numbers of what is pointed at, below the words and below the couplings: one of the two is in sight.
onPoint((words) => {
  for (const line of document.querySelectorAll(".readout")) line.replaceChildren(...(shown && words.length ? numbers(...words) : [line.dataset.hint]));
});

function numbers(i, j) {
  const { now, original } = shown;
  const name = (k) => el("b", {}, el("bdi", {}, shortened(now.words[k], 40)), el("span", { class: "tag" }, now.sides[k]));
  if (j === undefined) return [name(i), " ", state.removed.has(i) ? "struck out" : wordLine(now, i)];
  const J = now.interactions[i][j], before = original.interactions[i][j], d = digits([J, before]);
  return [name(i), " × ", name(j), ` J ${signed(J, d)}${edited() ? `, before ${signed(before, d)}` : ""}`];
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
  choose("method", (value) => { state.method = value; cool(); });
  choose("target", (value) => { Object.assign(state, { target: value, contrast: value === state.contrast ? "" : state.contrast }); });
  choose("contrast", (value) => { state.contrast = value; });
  choose("compare", (value) => { state.compare = value; });
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
  $("share").addEventListener("click", () => { link(); copyLink(); });
  $("json").addEventListener("click", () => {
    const { summary, ...record } = shown.now;
    save(new Blob([JSON.stringify(record, null, 1)], { type: "application/json" }), "json");
  });
  $("html").addEventListener("click", async () => {
    try {
      save(await file("explain.html", shown.question), "html");
    } catch (error) {
      problem(error.message);
    }
  });
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
  if (!method(state.method)) state.method = server.methods[0]?.name ?? "";
  if (state.compare !== ALL && !method(state.compare)) state.compare = "";
  for (const name of ["target", "contrast"]) if (!server.labels.includes(state[name])) state[name] = "";
  cool();
  for (const radio of document.getElementsByName("view")) radio.checked = radio.value === state.view;
  fill();
  showExample();
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
  wire();
  point();
  return open(fromHash(location.hash));
}

begin();
