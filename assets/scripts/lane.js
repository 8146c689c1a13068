// A lane: the tokens of one decode, appended round by round at a cost that does not grow with the run.

import { DRAFTED, REFUSED, T, laneText, number, sharedCharacter, spokenText, verdictOf } from "./text.js";
import { t, tell } from "./words.js";

const FULL_BLOCK = 48; // a block ends at the next newline after so many tokens,
const LONGEST_BLOCK = 160; // or here at the latest: its end breaks a line
const FRESH = 180; // ms that a draft looks like a guess, at most
const NEAR_BOTTOM = 40; // pixels

export class Lane {
  constructor(root, onChoose) {
    this.root = root;
    this.title = root.querySelector(".sp-title");
    this.speed = root.querySelector(".sp-speed");
    this.lossy = root.querySelector(".sp-lossy");
    this.clock = root.querySelector(".sp-clock");
    this.end = root.querySelector(".sp-end");
    this.box = root.querySelector(".sp-text");
    this.onChoose = onChoose;
    this.box.addEventListener("click", (event) => {
      const span = event.target.closest(".t");
      if (span) this.choose(span);
    });
    this.box.addEventListener("keydown", (event) => this.walk(event));
    this.box.addEventListener("scroll", () => {
      const { scrollHeight, scrollTop, clientHeight } = this.box;
      this.follows = scrollHeight - scrollTop - clientHeight < NEAR_BOTTOM;
    });
    this.reset("");
  }

  // `placeholder` and `title`, here as elsewhere in this file, are the English texts.
  reset(placeholder) {
    clearTimeout(this.settling);
    this.placeholder = placeholder;
    this.seconds = null; // of the clock, with the tokens emitted by then
    this.ending = null;
    this.tv = undefined; // of a lossy lane
    this.fresh = [];
    this.box.replaceChildren();
    this.block = null;
    this.inBlock = 0;
    this.chosen = null;
    this.last = null; // the latest token that wrote text
    this.follows = true;
    this.scrolling = null;
    this.end.textContent = "";
    this.speed.textContent = "";
    this.lossy.hidden = true;
    this.clock.textContent = "";
    if (placeholder) {
      const p = document.createElement("p");
      p.className = "sp-placeholder";
      p.textContent = t(placeholder);
      this.box.append(p);
    }
  }

  begin(title) {
    this.reset("");
    this.name(title);
  }

  name(title) {
    this.called = title;
    this.title.textContent = tell(title);
    this.root.setAttribute("aria-label", tell(title));
  }

  // The same in the page's language, which has changed.
  speak() {
    this.name(this.called);
    const placeholder = this.box.querySelector(".sp-placeholder");
    if (placeholder) placeholder.textContent = t(this.placeholder);
    if (this.tv !== undefined) this.showLossy(this.tv);
    if (this.seconds) this.numbers(this.seconds);
    if (this.ending) this.sayEnd();
    for (const span of this.box.querySelectorAll(".t")) this.label(span);
  }

  // Beside the text all along: it is not the target's. How far from it is known once a guess was tested.
  showLossy(tv) {
    this.tv = tv;
    this.lossy.hidden = false;
    const text = tv === null ? t("lossy") : t("lossy · TV {tv}", { tv: number(tv, 3) });
    if (this.lossy.textContent !== text) this.lossy.textContent = text;
  }

  append(rounds) {
    if (!rounds.length) return;
    this.settle();
    for (const round of rounds) {
      round[2].forEach((token, position) => this.add(token, round, position));
    }
    this.settling = setTimeout(() => this.settle(), FRESH);
    if (this.follows && !this.scrolling) this.scrolling = requestAnimationFrame(() => this.scroll());
  }

  // A draft is first seen as what it is, a guess; then it gets its verdict's look.
  settle() {
    clearTimeout(this.settling);
    for (const span of this.fresh) span.classList.remove("fresh");
    this.fresh = [];
  }

  // Along with the text, unless the reader has scrolled up. Once a frame: each time costs a layout.
  scroll() {
    this.scrolling = null;
    if (this.follows) this.box.scrollTop = this.box.scrollHeight;
  }

  add(token, round, position) {
    if (!this.block || this.inBlock >= LONGEST_BLOCK) this.openBlock();
    const verdict = verdictOf(token);
    const span = document.createElement("span");
    span.className = `t ${verdict}`;
    if (DRAFTED.has(verdict)) {
      span.classList.add("fresh");
      this.fresh.push(span);
    }
    span.tabIndex = -1;
    span.setAttribute("role", "button");
    this.write(span, this.completed(token[T.text], verdict), verdict);
    if (token[T.text] && !REFUSED.has(verdict)) this.last = span;
    span.playground = { token, round, position };
    this.block.append(span);
    this.inBlock += 1;
    if (this.inBlock >= FULL_BLOCK && !REFUSED.has(verdict) && token[T.text].endsWith("\n")) this.block = null;
  }

  write(span, text, verdict) {
    span.written = { text, verdict };
    this.label(span);
    span.textContent = laneText(text, verdict);
  }

  label(span) {
    const { text, verdict } = span.written;
    span.setAttribute("aria-label", `${spokenText(text)}, ${t(verdict)}`);
  }

  // A character is shown whole, in the token that completes it: what an earlier one holds of it moves there.
  completed(text, verdict) {
    if (!text || !this.last || REFUSED.has(verdict)) return text;
    const before = this.last.written;
    const begun = sharedCharacter(before.text, text);
    if (begun) this.write(this.last, before.text.slice(0, -begun.length), before.verdict);
    return begun + text;
  }

  openBlock() {
    this.block = document.createElement("div");
    this.block.className = "sp-block";
    this.inBlock = 0;
    this.box.append(this.block);
  }

  numbers([seconds, emitted]) {
    this.seconds = [seconds, emitted];
    this.clock.textContent = `${number(seconds, 2)} s`;
    this.speed.textContent = seconds > 0 ? t("{n} tok/s", { n: number(emitted / seconds, 1) }) : "";
  }

  finish(emitted, why, tail) {
    this.settle();
    if (tail) {
      if (!this.block) this.openBlock();
      this.block.append(document.createTextNode(tail));
    }
    this.ending = [emitted, why];
    this.sayEnd();
  }

  sayEnd() {
    const [n, why] = this.ending;
    this.end.textContent = n === 1 ? t("1 token: {why}.", { why: t(why) }) : t("{n} tokens: {why}.", { n, why: t(why) });
  }

  choose(span) {
    this.unchoose();
    this.chosen = span;
    span.classList.add("chosen");
    for (const other of this.ofRound(span)) other.classList.add("round");
    span.focus({ preventScroll: true });
    this.reveal(span);
    this.onChoose(this, span.playground);
  }

  unchoose() {
    if (!this.chosen) return;
    this.chosen.classList.remove("chosen");
    for (const other of this.ofRound(this.chosen)) other.classList.remove("round");
    this.chosen = null;
  }

  // The tokens of the same round; a round may go over the end of a block.
  ofRound(span) {
    const { round } = span.playground;
    const near = [span.parentElement.previousSibling, span.parentElement, span.parentElement.nextSibling];
    return near.flatMap((block) => [...(block?.children ?? [])]).filter((t) => t.playground?.round === round);
  }

  // Scroll inside the box only, so that the page stays where it is.
  reveal(span) {
    const box = this.box.getBoundingClientRect();
    const at = span.getBoundingClientRect();
    if (at.top < box.top) this.box.scrollTop -= box.top - at.top + 8;
    else if (at.bottom > box.bottom) this.box.scrollTop += at.bottom - box.bottom + 8;
  }

  walk(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1, Home: -Infinity, End: Infinity };
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    const hiding = this.root.closest(".sp-hiding") !== null;
    const spans = [...this.box.querySelectorAll(hiding ? ".t:not(.rejected, .discarded)" : ".t")];
    if (!spans.length) return;
    event.preventDefault();
    const now = this.chosen ? spans.indexOf(this.chosen) : -1;
    const byRound = event.key === "ArrowUp" || event.key === "ArrowDown";
    let next = now < 0 ? (step < 0 ? spans.length - 1 : 0) : now + step;
    if (now >= 0 && byRound) {
      const round = this.chosen.playground.round;
      while (spans[next] && spans[next].playground.round === round) next += step;
    }
    this.choose(spans[Math.max(0, Math.min(spans.length - 1, next))]);
  }
}
