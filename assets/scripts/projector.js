// Projector mode: large type and little else, for a room. Kept in the browser; the address's `projector` decides over it.

import { t } from "./words.js";

const KEPT = "sp-projector";
const FOLD = "#sp-settings > button.label-wrap";
const ON = "sp-projecting"; // on the page, while the mode is on

export function mountProjector() {
  const head = document.getElementById("sp-head");
  if (!head || !document.querySelector(FOLD)) { // they may come after this part
    setTimeout(mountProjector, 20);
    return;
  }
  document.getElementById("sp-projector")?.remove();
  const button = document.createElement("button");
  button.type = "button";
  button.id = "sp-projector";
  const name = () => {
    button.textContent = t("Projector");
    button.title = t("Large type, for a room");
  };
  document.addEventListener("playground:language", name);
  button.addEventListener("click", () => {
    const on = !document.getElementById("sp-page").classList.contains(ON);
    keep(on);
    project(button, on);
  });
  name();
  head.append(button);
  project(button, wanted(), false);
}

function project(button, on, changed = true) {
  document.getElementById("sp-page").classList.toggle(ON, on);
  button.setAttribute("aria-pressed", String(on));
  const small = getComputedStyle(button).display === "none"; // on a phone there is no such mode
  if (!small && (on || changed)) fold(on);
  window.dispatchEvent(new Event("resize")); // the plots take their new size
}

// The settings fold away, and come back with the mode's end. A page that is just being built hears no click yet.
function fold(away, tries = 40) {
  const label = document.querySelector(FOLD);
  if (!label || label.classList.contains("open") !== away || !tries) return;
  label.click();
  setTimeout(() => fold(away, tries - 1), 50);
}

function wanted() {
  const asked = new URLSearchParams(location.search).get("projector");
  if (asked !== null) return asked === "1";
  try {
    return localStorage.getItem(KEPT) === "1";
  } catch {
    return false;
  }
}

function keep(on) {
  const address = new URL(location.href);
  if (address.searchParams.has("projector")) {
    address.searchParams.set("projector", on ? "1" : "0");
    history.replaceState(history.state, "", address);
  }
  try {
    localStorage.setItem(KEPT, on ? "1" : "0");
  } catch {
    // a browser that keeps nothing: the mode lasts as long as the page
  }
}
