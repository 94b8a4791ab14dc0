// Questions to the server. What was asked lately is not asked again: a word put back is there at once.

const KEPT = 60;
const answers = new Map();

export class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function send(path, body) {
  let response;
  try {
    response = await fetch(path, body && {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
  } catch {
    throw new Refused(0, "The server does not answer; is it still running?");
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => ({}));
  throw new Refused(response.status, said.error ?? `The server says ${response.status}.`);
}

export const health = async () => (await send("health")).json();

export function ask(path, body) {
  const key = path + JSON.stringify(body);
  const found = answers.get(key) ?? send(path, body).then((response) => response.json());
  answers.delete(key); // and to the end, so that the first is always the one not asked for longest
  answers.set(key, found);
  found.catch(() => answers.delete(key));
  if (answers.size > KEPT) answers.delete(answers.keys().next().value);
  return found;
}

export const file = async (path, body) => (await send(path, body)).blob();
