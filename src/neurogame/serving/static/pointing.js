// The word or pair under the pointer or with the focus: every drawing hears of it.

const listeners = new Set();
let current = null; // until something has been pointed at, or nothing has

// Returns how to stop listening.
export function onPoint(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function point(...words) {
  const key = words.join();
  if (key === current) return;
  current = key;
  for (const listener of listeners) listener(words);
}

// Pointing at an element points at these words until the pointer or the focus leaves; a tap, until the next one.
export function points(element, ...words) {
  element.dataset.points = "";
  element.addEventListener("pointerenter", () => point(...words));
  element.addEventListener("pointerleave", (event) => { if (event.pointerType !== "touch") point(); });
  if (!(element instanceof HTMLElement)) return element; // Chromium puts a drawing's part that hears of the focus into the tab order
  element.addEventListener("focus", () => point(...words));
  element.addEventListener("blur", () => point());
  return element;
}

document.addEventListener("pointerdown", (event) => {
  if (event.pointerType === "touch" && !event.target.closest("[data-points]")) point();
});
