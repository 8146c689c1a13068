// How a token's text is shown. Only textContent is ever set: model text is never parsed as HTML.

import { t } from "./words.js";

export const VERDICTS = ["accepted", "rejected", "discarded", "corrected", "bonus", "plain"];
export const DRAFTED = new Set(["accepted", "rejected", "discarded"]);
export const REFUSED = new Set(["rejected", "discarded"]);

// Fields of a token in a message, in their order.
export const T = { text: 0, verdict: 1, id: 2, p: 3, q: 4, accept: 5, drawn: 6, margin: 7, pTop: 8, qTop: 9, residual: 10 };

export const verdictOf = (token) => VERDICTS[token[T.verdict]];

// The text in the lane: whitespace is visible where it carries a verdict; a refused newline breaks no line.
export function laneText(text, verdict) {
  if (text === "") return "◌"; // bytes of a character that a later token completes
  if (verdict === "plain") return text;
  const newline = REFUSED.has(verdict) ? "↵" : "↵\n";
  const shown = text.trim() === "" ? text.replace(/ /g, "·").replace(/\t/g, "→\t") : text;
  return shown.replace(/\r?\n/g, newline);
}

const LONGEST_CHARACTER = 48; // code units: a family of four with skin tones has 19
const graphemes = Intl.Segmenter ? new Intl.Segmenter(undefined, { granularity: "grapheme" }) : null;

// The end of `before` that is drawn as one character together with the start of `after`: of an emoji or a flag that
// several tokens make. Empty where there is none.
export function sharedCharacter(before, after) {
  if (!graphemes || !before || /^[\x00-\x7f]/.test(after)) return "";
  const tail = before.slice(-LONGEST_CHARACTER);
  const { index, segment } = graphemes.segment(tail + after).containing(tail.length - 1);
  return index + segment.length > tail.length ? tail.slice(index) : "";
}

// The text as a name for itself, in the card and for screen readers: every blank is visible.
export function namedText(text) {
  if (text === "") return "◌";
  return text.replace(/ /g, "␣").replace(/\r?\n/g, "↵").replace(/\t/g, "→");
}

export function spokenText(text) {
  if (text === "") return t("part of a character");
  const word = text.replace(/\n/g, ` ${t("newline")} `).trim();
  return word === "" ? t("space") : word;
}

export const number = (value, digits) => (value === null || value === undefined ? "–" : value.toFixed(digits));

// Three significant digits for probabilities, however small.
export function probability(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0 || value === 1) return String(value);
  return value >= 0.001 ? value.toFixed(3) : value.toExponential(1);
}
