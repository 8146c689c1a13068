// The page's language: takes a language's texts, and lets every part say its own again.

import { skeletonOf } from "./words.js";

export function mountLanguage({ watch, value }) {
  let heading; // it may come after this part, and is English until now
  document.addEventListener("playground:language", () => {
    heading ??= skeletonOf(document.getElementById("sp-top"));
    heading();
  });
  document.documentElement.lang = "en"; // gradio takes the browser's
  watch("value", () => {
    if (value()) speak(JSON.parse(value()));
  });
}

function speak({ language, texts }) {
  window.playgroundTexts = texts;
  document.documentElement.lang = language;
  document.dispatchEvent(new CustomEvent("playground:language", { detail: language }));
}
