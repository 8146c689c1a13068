// The stage: one round in slow motion. The drafter proposes, the target scores all in one pass, each guess is tested,
// a refused one is replaced from the residual. It lies over the numbers, so that nothing moves.

import { make } from "./card.js";
import { DRAFTED, T, namedText, probability, verdictOf } from "./text.js";
import { t } from "./words.js";

const PHASE = 900; // ms
export class Stage {
  constructor(root) {
    this.root = root;
    const part = (name) => root.querySelector(`.sp-stage-${name}`);
    this.parts = {
      title: part("title"), phases: part("phases"), row: part("row"), text: part("text"), bars: part("bars"),
      back: part("back"), next: part("next"),
    };
    this.parts.back.addEventListener("click", () => this.walk(-1));
    this.parts.next.addEventListener("click", () => this.walk(1));
    root.querySelector(".sp-stage-close").addEventListener("click", () => this.close());
    this.timer = null;
  }

  get open() {
    return !this.root.hidden;
  }

  close() {
    clearTimeout(this.timer);
    if (!this.open) return;
    this.root.hidden = true;
    this.reach();
    this.root.dispatchEvent(new CustomEvent("stage:closed"));
  }

  // The same in the page's language, which has changed.
  speak() {
    if (!this.open) return;
    this.phases = phasesOf(this.round, this.law);
    this.name();
    this.show(this.phase);
  }

  name() {
    const { parts } = this;
    parts.title.textContent = t("Round {n}", { n: this.round[1] + 1 });
    parts.phases.replaceChildren(...STAGES.map(([key, name]) => {
      const item = make("li", "", t(name));
      item.dataset.stage = key;
      return item;
    }));
  }

  // Walk through a round. `reached()` is called once its last phase is on the stage, `over()` when
  // it has stood there for a while. Without motion wanted, all phases are there at once.
  play(round, law, reached, over) {
    clearTimeout(this.timer);
    Object.assign(this, { round, law, reached, over, phase: 0 });
    this.phases = phasesOf(round, law);
    this.root.hidden = false;
    this.name();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.show(still ? this.phases.length - 1 : 0);
    if (!still) this.timer = setTimeout(() => this.advance(), PHASE);
  }

  advance() {
    if (this.phase < this.phases.length - 1) this.show(this.phase + 1);
    const last = this.phase === this.phases.length - 1;
    this.timer = setTimeout(() => (last ? this.finish() : this.advance()), last ? 1.5 * PHASE : PHASE);
  }

  // By hand: the clock stops.
  walk(by) {
    clearTimeout(this.timer);
    this.show(Math.max(0, Math.min(this.phases.length - 1, this.phase + by)));
  }

  finish() {
    clearTimeout(this.timer);
    this.over?.();
  }

  reach() {
    const { reached } = this;
    this.reached = null;
    reached?.();
  }

  show(phase) {
    this.phase = phase;
    const { stage, tested, text } = this.phases[phase];
    const order = STAGES.findIndex(([key]) => key === stage);
    [...this.parts.phases.children].forEach((item, i) => {
      item.classList.toggle("now", i === order);
      item.classList.toggle("past", i < order);
      if (i === order) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    });
    this.parts.row.replaceChildren(...this.round[2].map((token, i) => this.chip(token, i, order, tested)).filter(Boolean));
    this.parts.text.textContent = text;
    this.bars(order === 3);
    this.parts.back.disabled = phase === 0;
    this.parts.next.disabled = phase === this.phases.length - 1;
    if (phase === this.phases.length - 1) this.reach();
  }

  // A token as it is known in this phase: a guess, then with p, then with its verdict; the target's own comes last.
  chip(token, place, order, tested) {
    const verdict = verdictOf(token);
    const own = !DRAFTED.has(verdict);
    if (own && order < 3) return null;
    const judged = own || place < tested || (order === 3);
    const box = make("div", "sp-chip");
    box.append(make("span", judged ? `t ${verdict}` : "t guess", namedText(token[T.text])));
    box.append(make("span", "sp-chip-verdict", judged ? t(verdict) : order === 0 ? t("guessed") : t("scored")));
    const numbers = [];
    if (!own) numbers.push(`q ${token[T.q] === null ? "1" : probability(token[T.q])}`);
    if (order > 0 && token[T.p] !== null) numbers.push(`p ${probability(token[T.p])}`);
    if (judged && token[T.drawn] !== null && token[T.drawn] !== undefined && !own) {
      const sign = token[T.drawn] < token[T.accept] ? "<" : "≥";
      numbers.push(`${probability(token[T.drawn])} ${sign} ${probability(token[T.accept])}`);
    }
    box.append(make("span", "sp-chip-numbers", numbers.join(" · ")));
    return box;
  }

  bars(shown) {
    const refused = this.round[2].find((token) => verdictOf(token) === "rejected");
    const rows = (shown && refused?.[T.residual]) || [];
    const { bars } = this.parts;
    bars.hidden = !rows.length;
    if (!rows.length) return;
    const own = this.round[2].find((token) => verdictOf(token) === "corrected");
    const head = make("tr");
    for (const name of ["", "p", "q", "max(p − q, 0)"]) head.append(make("th", "", name));
    bars.querySelector("thead").replaceChildren(head);
    bars.querySelector("tbody").replaceChildren(...rows.map(([text, p, q]) => {
      const row = make("tr", own && text === own[T.text] ? "own" : "");
      row.append(make("th", "", namedText(text)));
      for (const [name, value] of [["p", p], ["q", q], ["rest", Math.max(0, p - q)]]) {
        const cell = make("td", `sp-cell-${name}`);
        const bar = make("span", "sp-bar");
        bar.style.setProperty("--share", String(value));
        cell.append(bar, make("span", "sp-chance", probability(value)));
        row.append(cell);
      }
      return row;
    }));
  }
}

const STAGES = [
  ["draft", "The drafter guesses"],
  ["score", "One target pass scores all"],
  ["test", "Guesses are tested in order"],
  ["own", "The target adds its own"],
];

// The phases of a round: which stage, how many guesses are judged, what to say.
function phasesOf(round, law) {
  const [, , tokens] = round;
  const drafted = tokens.filter((token) => DRAFTED.has(verdictOf(token)));
  const own = tokens.find((token) => !DRAFTED.has(verdictOf(token)));
  const last = { stage: "own", tested: drafted.length, text: ownText(own, law) };
  if (!drafted.length) {
    return [{ stage: "score", tested: 0, text: t("Nothing was guessed: this target pass is for one token.") }, last];
  }
  const milliseconds = (seconds) => Math.round(1000 * seconds);
  const phases = [
    { stage: "draft", tested: 0, text: t("The drafter proposes {n} tokens, which took {ms} ms. q is how likely it held each.", { n: drafted.length, ms: milliseconds(round[3]) }) },
    { stage: "score", tested: 0, text: t("The target reads all of them in one pass of {ms} ms: p is how likely each is to the target, given the ones before it.", { ms: milliseconds(round[4]) }) },
  ];
  drafted.forEach((token, i) => {
    const verdict = verdictOf(token);
    if (verdict === "discarded") return;
    phases.push({ stage: "test", tested: i + 1, text: testText(token, verdict, law) });
  });
  if (drafted.some((token) => verdictOf(token) === "discarded")) {
    phases.at(-1).tested = drafted.length;
  }
  return [...phases, last];
}

function testText(token, verdict, law) {
  const text = namedText(token[T.text]);
  if (law.greedy || token[T.drawn] === null || token[T.drawn] === undefined) {
    return verdict === "accepted"
      ? t("“{text}” is what the target takes here itself: kept.", { text })
      : t("“{text}” is not what the target takes here: refused, and what was guessed after it is never tested.", { text });
  }
  const values = { text, drawn: probability(token[T.drawn]), chance: probability(token[T.accept]) };
  return verdict === "accepted"
    ? t("“{text}”: the number drawn, {drawn}, is below its chance to be kept, {chance}: kept.", values)
    : t("“{text}”: the number drawn, {drawn}, is not below its chance to be kept, {chance}: refused, and what was guessed after it is never tested.", values);
}

function ownText(own, law) {
  if (!own) return t("The text ends inside the draft: nothing is added.");
  const text = namedText(own[T.text]);
  switch (verdictOf(own)) {
    case "corrected":
      return !law.greedy && law.verifier === "exact"
        ? t("“{text}” takes the place of the refused one. It was drawn in proportion to what p has beyond q.", { text })
        : t("“{text}”, the target's own, takes the place of the refused one.", { text });
    case "bonus":
      return t("All guesses were kept, and the same pass gives one token more: “{text}”, the bonus.", { text });
    default:
      return t("The target's own token: “{text}”.", { text });
  }
}
