// What the page shows, as a link: #p=…&h=…; only what differs from the defaults is in it.

export const EXTENT = 1.5; // of the slider: γ times 10^−1.5 to 10^1.5

export const fresh = () => ({
  premise: "", hypothesis: "", method: "", target: "", contrast: "", compare: "",
  removed: new Set(), factor: 1, view: "now",
});

const TEXTS = { p: "premise", h: "hypothesis", m: "method", t: "target", vs: "contrast", b: "compare" };

export function toHash(state) {
  const found = new URLSearchParams();
  for (const [key, name] of Object.entries(TEXTS)) if (state[name]) found.set(key, state[name]);
  if (state.removed.size) found.set("x", [...state.removed].sort((a, b) => a - b).join("."));
  if (state.factor !== 1) found.set("g", String(Number(state.factor.toPrecision(4))));
  if (state.view !== "now") found.set("v", state.view);
  return "#" + found;
}

// Null where a link holds no pair; what makes no sense in it is left out.
export function fromHash(hash) {
  const found = new URLSearchParams(hash.replace(/^#/, ""));
  if (!found.has("p") && !found.has("h")) return null;
  const state = fresh();
  for (const [key, name] of Object.entries(TEXTS)) state[name] = found.get(key) ?? "";
  for (const i of (found.get("x") ?? "").split(".")) if (/^\d{1,5}$/.test(i)) state.removed.add(Number(i));
  const factor = Number(found.get("g") ?? 1);
  if (factor > 0) state.factor = Math.min(10 ** EXTENT, Math.max(10 ** -EXTENT, factor));
  if (found.get("v") === "change") state.view = "change";
  return state;
}
