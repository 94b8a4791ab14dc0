// A link on the clipboard, a file on the disk; and a word when it is done.

import { $, el } from "./dom.js";

export async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    tell("Link copied.");
  } catch {
    tell("The link is in the address bar.");
  }
}

export function save(blob, name) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  tell(`${name} saved.`);
}

let telling = 0;
function tell(text) {
  clearTimeout(telling);
  $("done").textContent = text;
  telling = setTimeout(() => { $("done").textContent = ""; }, 4000);
}
