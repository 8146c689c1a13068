// The lessons: a button in the page's head, a panel above the tabs, outlines round the parts that a step is about.

import { t } from "./words.js";

const POINTED = "data-sp-point"; // on a part that is pointed at: its number in the step's text
const LOOK_AGAIN = 400; // ms: controls come and go with the strategy, tokens with a run
const MARGIN = 16; // px, round a part that is brought into sight
const STOP_PAUSE = 50; // ms, while a run in progress ends
const STOP_LIMIT = 15000; // ms

class Lessons {
  constructor(panel, { server, apply }) {
    this.server = server;
    this.apply = apply;
    this.language = window.playgroundTexts ? document.documentElement.lang : "en";
    this.lessons = [];
    this.at = null; // [lesson, step], by number; null: the list of all
    this.pending = null;
    this.panel = panel;
    this.fill();
    this.opener = button("sp-lessons-open", () => this.toggle());
    this.opener.id = "sp-lessons-open";
    this.opener.setAttribute("aria-controls", panel.id);
    this.name();
    this.show(false);
  }

  // The panel's own skeleton.
  fill() {
    this.all = button("sp-lessons-all", () => this.go(null));
    this.title = make("h2", "sp-lessons-title");
    this.title.tabIndex = -1;
    this.progress = make("span", "sp-lessons-progress");
    this.closer = button("sp-lessons-close", () => this.toggle());
    this.closer.textContent = "×";
    const head = make("header", "", [this.all, this.title, this.progress, this.closer]);
    this.index = make("ol", "sp-lessons-index");
    this.text = make("div", "sp-lesson-text");
    this.text.tabIndex = 0; // it scrolls
    this.text.setAttribute("role", "group");
    this.text.setAttribute("aria-live", "polite");
    this.runs = button("sp-lesson-run", () => this.setUp(true));
    this.sets = button("sp-lesson-set", () => this.setUp(false));
    this.back = button("sp-lesson-back", () => this.move(-1));
    this.next = button("sp-lesson-next", () => this.move(1));
    this.said = make("p", "sp-lesson-said");
    this.said.setAttribute("role", "status");
    const buttons = make("div", "sp-lesson-buttons", [this.runs, this.sets, this.back, this.next, this.said]);
    this.lesson = make("div", "sp-lesson", [this.text, buttons]);
    this.panel.append(head, this.index, this.lesson);
    this.text.addEventListener("click", (event) => this.follow(event));
    this.panel.addEventListener("keydown", (event) => this.key(event));
  }

  // What stays, in the page's language.
  name() {
    this.opener.textContent = t("Lessons");
    this.panel.setAttribute("aria-label", t("Lessons"));
    this.closer.setAttribute("aria-label", t("Close the lessons"));
    this.all.textContent = t("All lessons");
    this.sets.textContent = t("Set this up");
    this.runs.textContent = t("Set this up and run");
    this.back.textContent = t("Back");
  }

  // In another language, at the same step.
  async speak(code) {
    this.language = code;
    this.lessons = [];
    this.name();
    if (this.open) {
      await this.load();
      this.draw();
    }
  }

  async load() {
    const language = this.language;
    const found = await this.server.lessons_in(language);
    if (language === this.language) this.lessons = found;
  }

  async toggle() {
    this.show(!this.open);
    if (!this.open) {
      this.opener.focus();
      this.mark();
      return;
    }
    if (!this.lessons.length) await this.load();
    this.draw();
    this.title.focus({ preventScroll: true });
    this.scroll();
  }

  show(open) {
    this.open = open;
    this.panel.hidden = !open;
    this.opener.setAttribute("aria-expanded", String(open));
    document.getElementById("sp-lessons-place")?.classList.toggle("sp-open", open);
    document.body.classList.toggle("sp-learning", open);
    clearInterval(this.looking);
    if (open) this.looking = setInterval(() => this.mark(), LOOK_AGAIN);
  }

  key(event) {
    if (event.key !== "Escape" || window.playground?.running || window.playground?.card.open) return;
    event.stopPropagation();
    this.toggle();
  }

  get step() {
    return this.at && this.lessons[this.at[0]]?.steps[this.at[1]];
  }

  go(at) {
    this.at = at;
    this.said.textContent = "";
    if (this.step) openTabOf(this.step.point);
    this.draw();
    this.text.scrollTop = 0;
    if (at === null || at[1] === 0) this.title.focus({ preventScroll: true });
    this.scroll();
  }

  // A step on or back; from a lesson's question to the next lesson, from the last to the list.
  move(by) {
    const [lesson, step] = this.at;
    const to = step + by;
    if (to >= 0 && to < this.lessons[lesson].steps.length) this.go([lesson, to]);
    else if (to > 0) this.go(lesson + 1 < this.lessons.length ? [lesson + 1, 0] : null);
  }

  draw() {
    const step = this.step;
    this.index.hidden = Boolean(step);
    this.lesson.hidden = this.all.hidden = this.progress.hidden = !step;
    if (step) this.drawStep(step);
    else this.drawIndex();
    this.mark();
  }

  drawIndex() {
    this.title.textContent = t("Lessons");
    const entries = this.lessons.map((lesson, i) => {
      const one = button("sp-lessons-entry", () => this.go([i, 0]));
      const minutes = t("{minutes} min", { minutes: lesson.minutes });
      one.append(make("b", "", [`${i + 1}`]), make("span", "", [lesson.title]), make("small", "", [minutes]));
      return make("li", "", [one]);
    });
    this.index.replaceChildren(...entries);
  }

  drawStep(step) {
    const [lesson, number] = this.at;
    const { title, steps } = this.lessons[lesson];
    this.title.textContent = `${lesson + 1}. ${title}`;
    this.progress.textContent = t("Step {n} of {all}", { n: number + 1, all: steps.length });
    const body = make("div", "sp-lesson-body");
    body.innerHTML = step.html; // made from Markdown by the server, with no HTML of the file's own
    this.text.replaceChildren(make("h3", "", [step.title]), body);
    if (step.answer !== null) this.text.append(answer(step.answer));
    this.text.setAttribute("aria-label", step.title);
    this.sets.hidden = !step.sets;
    this.runs.hidden = !step.run;
    this.back.disabled = number === 0;
    const last = number + 1 === steps.length;
    this.next.textContent = !last ? t("Next") : lesson + 1 < this.lessons.length ? t("Next lesson") : t("All lessons");
  }

  // A link in a text shows the part that it names.
  follow(event) {
    const link = event.target.closest("a");
    if (!link) return;
    event.preventDefault();
    const part = find(this.step.point[Number(link.hash.slice(1)) - 1]);
    if (!part) return;
    this.reveal([part]);
    part.classList.remove("sp-here");
    void part.offsetWidth; // so that the animation begins anew
    part.classList.add("sp-here");
  }

  setUp(run) {
    const [lesson, step] = this.at;
    this.pending = { run };
    this.apply({ lesson: this.lessons[lesson].name, step });
  }

  // The controls hold what the step sets.
  async applied() {
    const { run } = this.pending ?? {};
    this.pending = null;
    this.said.textContent = run ? t("The settings are made, and the run begins.") : t("The settings are made.");
    await pause(STOP_PAUSE);
    this.mark();
    this.scroll();
    if (run) await this.start();
  }

  async start() {
    const start = document.getElementById("sp-run");
    if (start.disabled) window.playground.stop(); // the run before
    for (let waited = 0; start.disabled && waited < STOP_LIMIT; waited += STOP_PAUSE) await pause(STOP_PAUSE);
    if (start.disabled) this.said.textContent = t("The run before has not ended yet: press Run when it has.");
    else start.click();
  }

  // Outline the parts that the step is about, each with its number.
  mark() {
    const parts = new Map();
    (this.open && this.step ? this.step.point : []).forEach((selector, i) => {
      const part = find(selector);
      if (part) parts.set(part, [...(parts.get(part) ?? []), i + 1]);
    });
    for (const old of document.querySelectorAll(`[${POINTED}]`)) if (!parts.has(old)) unmark(old);
    for (const [part, numbers] of parts) markAs(part, numbers.join(" "));
  }

  // Bring what is pointed at into sight, beside the panel.
  scroll() {
    if (this.open && this.step) this.reveal(this.step.point.map(find).filter(Boolean));
  }

  reveal(parts) {
    const side = document.getElementById("sp-side");
    const scrolls = side && getComputedStyle(side).position === "sticky";
    const beside = parts.filter((part) => scrolls && side.contains(part));
    if (beside.length) bring(beside, side, 0, window.innerHeight);
    const rest = parts.filter((part) => !beside.includes(part));
    const { height } = this.panel.getBoundingClientRect();
    const atFoot = getComputedStyle(this.panel.closest("#sp-lessons-place")).position === "fixed";
    const [top, bottom] = atFoot ? [0, window.innerHeight - height] : [height, window.innerHeight];
    if (rest.length) bring(rest, window, top, bottom);
  }
}

// The tab that holds what is pointed at, where another one is open.
function openTabOf(selectors) {
  const tabs = selectors.map((s) => document.querySelector(s)?.closest("[role=tabpanel]")).filter(Boolean);
  if (!tabs.length || tabs.some((tab) => tab.getClientRects().length)) return;
  document.querySelector(`[role=tab][aria-controls="${tabs[0].id}"]`)?.click();
}

// The part that a selector names; where the controls are folded away, what unfolds them.
function find(selector) {
  const part = selector && document.querySelector(selector);
  if (!part) return null;
  if (part.getClientRects().length) return part;
  const fold = part.closest("#sp-settings") && document.querySelector("#sp-settings > button.label-wrap");
  return fold && fold.getClientRects().length ? fold : null;
}

function markAs(part, numbers) {
  if (part.getAttribute(POINTED) === numbers) return;
  part.setAttribute(POINTED, numbers);
  const { position, overflowY } = getComputedStyle(part);
  part.toggleAttribute("data-sp-static", position === "static");
  part.toggleAttribute("data-sp-scrolls", overflowY === "auto" || overflowY === "scroll");
}

function unmark(part) {
  for (const name of [POINTED, "data-sp-static", "data-sp-scrolls"]) part.removeAttribute(name);
  part.classList.remove("sp-here");
}

// Scroll as little as it takes to have all parts between `top` and `bottom`; the first, where there is no room for all.
function bring(parts, scroller, top, bottom) {
  const boxes = parts.map((part) => part.getBoundingClientRect());
  const from = Math.min(...boxes.map((box) => box.top)) - MARGIN;
  const to = Math.max(...boxes.map((box) => box.bottom)) + MARGIN;
  if (parts.length > 1 && to - from > bottom - top) return bring(parts.slice(0, -1), scroller, top, bottom);
  const by = from < top ? from - top : to > bottom ? Math.min(to - bottom, from - top) : 0;
  const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (by) scroller.scrollBy({ top: by, behavior: still ? "auto" : "smooth" });
}

function answer(html) {
  const body = make("div", "sp-lesson-answer");
  body.innerHTML = html; // as the step's text
  const made = make("details", "", [make("summary", "", [t("Compare with what we saw")]), body]);
  made.addEventListener("toggle", () => {
    const { top } = made.getBoundingClientRect();
    if (made.open) made.parentElement.scrollTop += top - made.parentElement.getBoundingClientRect().top;
  });
  return made;
}

function make(name, className, children = []) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function button(className, pressed) {
  const made = make("button", className);
  made.type = "button";
  made.addEventListener("click", pressed);
  return made;
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

// The page's head may come after this part.
function placeOpener(opener) {
  const head = document.getElementById("sp-head");
  if (head) head.append(opener);
  else setTimeout(() => placeOpener(opener), 20);
}

export function mountLessons(element, { server, apply }) {
  const panel = make("section", "");
  panel.id = "sp-lessons";
  element.replaceChildren(panel);
  document.getElementById("sp-lessons-open")?.remove();
  const lessons = new Lessons(panel, { server, apply });
  document.addEventListener("playground:language", (event) => lessons.speak(event.detail));
  window.playgroundLessons = lessons;
  placeOpener(lessons.opener);
}
