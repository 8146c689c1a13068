// Links: writes one into the address bar and onto the clipboard, and shows what was wrong with the one that was opened.
// Whatever came from an address is shown as text, never as HTML.

import { t } from "./words.js";

const STATUS_SECONDS = 12;

export function mountShare(root, { foreign, watch, value }) {
  const notices = new Notices(root);
  const ours = new RegExp(foreign);
  watch("value", async () => {
    if (!value()) return;
    const { link, notes = [], problems = [] } = JSON.parse(value());
    if (link === undefined) {
      notices.alert(problems);
      return;
    }
    const address = addressOf(link, ours);
    history.replaceState(history.state, "", address);
    const copied = await copy(address.href);
    notices.status(copied, notes);
  });
  document.addEventListener("playground:language", () => notices.speak());
  window.playgroundShare = { tab: openTab };
}

// The name of the open tab.
function openTab() {
  const open = document.querySelector("#sp-tabs [role=tab][aria-selected=true]");
  return /^sp-tab-(.+)-button$/.exec(open?.id ?? "")?.[1] ?? "";
}

// This page's address with a query of ours; what gradio and its hosts read from it stays.
function addressOf(query, foreign) {
  const address = new URL(location.href);
  const kept = [...address.searchParams].filter(([name]) => foreign.test(name));
  const theirs = new URLSearchParams(kept).toString();
  address.search = theirs ? `${query}&${theirs}` : query;
  return address;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyOldWay(text); // without https there is no clipboard
  }
}

function copyOldWay(text) {
  const box = document.createElement("textarea");
  const before = document.activeElement;
  box.value = text;
  box.className = "sp-share-copy";
  document.body.append(box);
  box.select();
  const copied = document.execCommand("copy");
  box.remove();
  before?.focus();
  return copied;
}

class Notices {
  constructor(root) {
    this.alertBox = document.createElement("div");
    this.alertBox.setAttribute("role", "alert");
    this.statusBox = document.createElement("div");
    this.statusBox.setAttribute("role", "status");
    this.shown = new Map(); // box -> what it says, in English
    this.stack = document.createElement("div");
    this.stack.className = "sp-notices";
    this.stack.append(this.statusBox, this.alertBox);
    root.replaceChildren(this.stack);
  }

  alert(problems) {
    this.shown.set(this.alertBox, () => problems.map(([text, values]) => t(text, values)));
    this.speak();
  }

  status(copied, notes) {
    this.shown.set(this.statusBox, () => [
      copied
        ? t("The link to these settings is in the address bar and on the clipboard.")
        : t("The link to these settings is in the address bar: copy it from there."),
      ...notes.map(([text, values]) => t(text, values)),
    ]);
    this.speak();
    clearTimeout(this.timer);
    if (!notes.length) this.timer = setTimeout(() => this.dismiss(this.statusBox), 1000 * STATUS_SECONDS);
  }

  speak() {
    for (const [box, lines] of this.shown) box.replaceChildren(this.notice(box, lines()));
  }

  notice(box, lines) {
    const notice = document.createElement("div");
    notice.className = "sp-notice";
    const texts = document.createElement("div");
    texts.className = "sp-notice-texts";
    for (const line of lines) {
      const text = document.createElement("p");
      text.textContent = line;
      texts.append(text);
    }
    if (texts.childElementCount > 4) texts.tabIndex = 0; // it scrolls: by keyboard too
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = t("Dismiss");
    button.addEventListener("click", () => {
      this.dismiss(box);
      document.getElementById("sp-link")?.focus();
    });
    notice.append(texts, button);
    return notice;
  }

  dismiss(box) {
    this.shown.delete(box);
    box.replaceChildren();
  }
}
