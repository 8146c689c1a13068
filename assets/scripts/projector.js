// Projector mode: large type and little else, for a room. Kept in the browser; the address's `projector` decides over it.

import { t } from "./words.js";

const KEPT = "sp-projector";
const ON = "sp-projecting"; // on the document, while the mode is on

export function mountProjector() {
  const head = document.getElementById("sp-head");
  if (!head) {
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
    const on = !document.documentElement.classList.contains(ON);
    keep(on);
    project(button, on);
  });
  name();
  head.append(button);
  project(button, wanted());
}

function project(button, on) {
  document.documentElement.classList.toggle(ON, on);
  button.setAttribute("aria-pressed", String(on));
  const small = getComputedStyle(button).display === "none"; // on a phone there is no such mode
  if (!small) fold(on);
  window.dispatchEvent(new Event("resize")); // the plots take their new size
}

// The settings fold away, and come back with the mode's end.
function fold(away) {
  const label = document.querySelector("#sp-settings > button.label-wrap");
  if (label && label.classList.contains("open") === away) label.click();
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
