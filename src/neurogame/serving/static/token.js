// The token of a server that wants one: asked for once, kept until the tab is closed, sent with every question.

import { $ } from "./dom.js";

const KEY = "neurogame-token";
let known = stored(), asking = null;

function stored() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // a browser that keeps nothing
  }
}

export const authorization = () => (known ? { Authorization: `Bearer ${known}` } : {});

// Whether there is another token than the one that was refused; all questions that wait share one dialog.
export async function another(refused) {
  if (known && refused !== known) return true;
  asking ??= entered().finally(() => { asking = null; });
  return asking;
}

export const current = () => known;

function entered() {
  const dialog = $("token"), field = $("token-field");
  $("token-wrong").hidden = !known;
  field.value = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.onclose = () => {
      const given = dialog.returnValue === "send" ? field.value.trim() : "";
      field.value = dialog.returnValue = "";
      if (given) keep(given);
      resolve(Boolean(given));
    };
  });
}

function keep(token) {
  known = token;
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // then it is asked for again after a reload
  }
}
