// Questions to the server. What was asked lately is not asked again: a word put back is there at once.

import { another, authorization, current } from "./token.js";

const KEPT = 60;
const GRACE = 300; // ms that a question has left when a newer one comes: what is fast is shown while a slider moves
const asked = new Map(); // by path and body: { answer, controller, end, own }
let quickest = Infinity; // seconds of the fastest prediction so far: what the machine needs when nobody else asks

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

// There is a newer question.
export class Abandoned extends Refused {
  constructor() {
    super(0, "");
  }
}

async function send(path, body, signal) {
  const token = current();
  let response;
  try {
    response = await fetch(path, body && {
      method: "POST",
      headers: { "Content-Type": "application/json", ...authorization() },
      body: JSON.stringify(body),
      signal,
    });
  } catch {
    throw new Refused(0, "The server does not answer; is it still running?");
  }
  if (response.ok) return response;
  if (response.status === 401 && await another(token)) return send(path, body, signal);
  const said = await response.json().catch(() => ({}));
  throw new Refused(response.status, said.error ?? `The server says ${response.status}.`);
}

export const health = async () => (await send("health")).json();

// Seconds of a prediction; null before the first.
export const predictionTime = () => (quickest < Infinity ? quickest : null);

// Once, and not kept: one of many.
export async function post(path, body, signal) {
  try {
    return await (await send(path, body, signal)).json();
  } catch (error) {
    throw signal?.aborted ? new Abandoned() : error;
  }
}

// `own`: not given up for a newer question, only by `cancel`.
export function ask(path, body, { own = false } = {}) {
  const key = path + JSON.stringify(body);
  const found = asked.get(key) ?? begun(path, body, key);
  clearTimeout(found.end); // it is wanted again
  found.end = 0;
  found.own = own;
  asked.delete(key); // and to the end, so that the first is always the one not asked for longest
  asked.set(key, found);
  if (asked.size > KEPT) asked.delete(asked.keys().next().value);
  return found.answer;
}

function begun(path, body, key) {
  const controller = new AbortController(), { signal } = controller, found = { controller, end: 0 }, start = performance.now();
  found.answer = send(path, body, signal).then((response) => response.json()).then((said) => {
    if (path === "predict") quickest = Math.min(quickest, (performance.now() - start) / 1000);
    return said;
  }).catch((error) => {
    if (asked.get(key) === found) asked.delete(key);
    throw signal.aborted ? new Abandoned() : error;
  });
  return found;
}

// A newer question comes: those under way are aborted, so that the server need not answer them first.
export function giveUp() {
  for (const found of asked.values())
    if (!found.own) found.end ||= setTimeout(() => found.controller.abort(), GRACE); // one that is answered takes no notice
}

// The server stops within half a second.
export const cancel = (path, body) => asked.get(path + JSON.stringify(body))?.controller.abort();

export const file = async (path, body) => (await send(path, body)).blob();
