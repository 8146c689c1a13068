// The card of a token: what decided its verdict. It floats over the page, so that nothing moves.

import { DRAFTED, T, namedText, probability, verdictOf } from "./text.js";
import { t } from "./words.js";

export const make = (tag, className, text) => {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
};

export class Card {
  constructor(root, onClose) {
    this.root = root;
    this.onClose = onClose;
    root.querySelector(".sp-card-close").addEventListener("click", () => this.close());
  }

  get open() {
    return !this.root.hidden;
  }

  close() {
    if (!this.open) return;
    this.root.hidden = true;
    this.onClose();
  }

  // The same in the page's language, which has changed.
  speak() {
    if (this.open) this.show(...this.shown);
  }

  show(lane, { token, round, position }, law) {
    this.shown = [lane, { token, round, position }, law];
    const verdict = verdictOf(token);
    const part = (name) => this.root.querySelector(`.sp-card-${name}`);
    part("token").textContent = namedText(token[T.text]);
    part("verdict").textContent = t(verdict);
    part("verdict").className = `sp-card-verdict t ${verdict}`;
    part("where").textContent = t("id {id} · round {round}, place {place}", {
      id: token[T.id], round: round[1] + 1, place: placeInDraft(round, position),
    });
    part("why").textContent = reason(token, verdict, law);
    this.values(part("values"), token, law);
    const [p, q] = part("bars").querySelectorAll("section");
    bars(p, t("p, target: five likeliest"), token[T.pTop], token[T.text], emptyP(verdict));
    bars(q, t("q, drafter: five likeliest"), token[T.qTop], token[T.text], emptyQ(token, verdict));
    const notes = token[T.text] === "" ? [t("◌ is part of a character; a later token completes it.")] : [];
    const pieces = round[5] ?? [];
    if (pieces.length && DRAFTED.has(verdict)) {
      notes.push(t("Drafted as: {pieces}.", { pieces: pieces.map((piece) => `'${namedText(piece)}'`).join(" + ") }));
    }
    if (law.greedy) notes.push(t("At temperature 0, p and q are one-hot; the bars show temperature 1."));
    part("note").textContent = notes.join(" ");
    this.root.hidden = false;
    this.place(lane.box.getBoundingClientRect(), lane.chosen.getBoundingClientRect());
  }

  values(list, token, { greedy, verifier }) {
    const chance = (RULES[verifier] ?? RULES.exact).chance;
    const drawn = greedy || !(RULES[verifier] ?? RULES.exact).draws
      ? t("nothing is drawn to test a guess here")
      : t("the number it was tested with: kept if below");
    const rows = [
      ["p", t("the target's probability of it"), probability(token[T.p])],
      ["q", t("the drafter's probability of it"), probability(token[T.q])],
      [t(chance), t("chance to be kept"), probability(token[T.accept])],
      [t("drawn"), drawn, probability(token[T.drawn])],
    ];
    list.replaceChildren(
      ...rows.map(([name, meaning, value]) => {
        const row = make("div");
        row.title = meaning;
        row.append(make("dt", "", name), make("dd", "", value));
        return row;
      }),
    );
  }

  // Under its lane where there is room, else as low as the window allows; on a phone, where the token is not.
  place(box, token) {
    this.root.classList.toggle("sp-above", token.top > window.innerHeight / 2);
    if (window.innerWidth <= 700) {
      this.root.style.cssText = "";
      return;
    }
    const gap = 8;
    const zoom = this.root.currentCSSZoom ?? 1; // in projector mode
    const card = this.root.getBoundingClientRect();
    const top = Math.min(box.bottom + gap, window.innerHeight - card.height - gap);
    // Where it would hide what it is about, it goes over the other lane.
    const hides = box.bottom - Math.max(gap, top) > box.height / 2;
    const beside = box.left > card.width / 2 ? box.left - card.width - gap : box.right + gap;
    const left = Math.min(hides ? Math.max(gap, beside) : box.left, window.innerWidth - card.width - gap);
    this.root.style.top = `${Math.max(gap, top) / zoom}px`;
    this.root.style.left = `${Math.max(gap, left) / zoom}px`;
  }
}

// Where in its draft a token stands; the target's own comes after the accepted ones.
function placeInDraft([, , tokens], position) {
  if (DRAFTED.has(verdictOf(tokens[position]))) return position + 1;
  return tokens.filter((token) => verdictOf(token) === "accepted").length + 1;
}

// What each verifier calls a guess's chance, whether it draws a number to test it, and how it explains a verdict.
const RULES = {
  exact: {
    chance: "min(1, p/q)",
    draws: true,
    corrected: "The target's token in the place of the refused guess, drawn from what p has beyond q.",
  },
  match: {
    chance: "chance kept",
    accepted: "Kept: the target drew the same token.",
    rejected: "Refused: the target drew another token.",
    corrected: "The target drew another token than the guess.",
  },
  coupled: {
    chance: "chance kept",
    accepted: "Kept: with the same noise the target drew the same token.",
    rejected: "Refused: with the same noise the target drew another token.",
    corrected: "With the same noise the target drew another token than the guess.",
  },
  ensemble: {
    chance: "min(1, r/q)",
    draws: true,
    corrected: "In the place of the refused guess, drawn from what the mixture r of p and q has beyond q.",
    greedy: {
      accepted: "Kept: it is the first choice of the mixture of both models.",
      rejected: "Refused: the first choice of the mixture of both models is another token.",
      corrected: "The first choice of the mixture of both models, in the place of the refused guess.",
    },
  },
  typical: {
    chance: "p high enough",
    accepted: "Kept: p is above the threshold, min(ε, δ exp(-entropy)).",
    rejected: "Refused: p is not above the threshold, min(ε, δ exp(-entropy)).",
    corrected: "The target's token in the place of the refused guess, drawn from p.",
  },
};

const GREEDY = {
  accepted: "Kept: it is the target's own first choice.",
  rejected: "Refused: the target's first choice is another token.",
  corrected: "The target's first choice, in the place of the refused guess.",
};

function reason(token, verdict, { greedy, verifier }) {
  const rule = RULES[verifier] ?? RULES.exact;
  const values = {
    drawn: probability(token[T.drawn]), chance: t(rule.chance), bound: probability(token[T.accept]),
  };
  switch (verdict) {
    case "accepted":
    case "rejected":
    case "corrected": {
      if (greedy) return t((rule.greedy ?? GREEDY)[verdict]);
      if (rule[verdict]) return t(rule[verdict]);
      return verdict === "accepted"
        ? t("Kept: the number drawn, {drawn}, is below {chance} = {bound}.", values)
        : t("Refused: the number drawn, {drawn}, is not below {chance} = {bound}.", values);
    }
    case "discarded":
      return t("Never tested: it was guessed after a refusal or past the end.");
    case "bonus":
      return t("The whole draft was kept, and the same pass gave the target's next token as well.");
    default:
      return t("Nothing was guessed in this round: a target pass for one token.");
  }
}

const emptyP = (verdict) => (verdict === "discarded" ? t("Never tested.") : t("Not recorded."));

function emptyQ(token, verdict) {
  if (token[T.q] === null) return verdict === "plain" ? t("Nothing was drafted.") : t("The target's own token.");
  return t("No distribution: this drafter makes one guess, so q is one-hot.");
}

function bars(section, title, top, own, empty) {
  section.querySelector("h3").textContent = title;
  const list = section.querySelector("ol");
  if (!top.length) {
    list.replaceChildren(make("li", "sp-none", empty));
    return;
  }
  list.replaceChildren(
    ...top.map(([text, chance]) => {
      const row = make("li", text === own ? "own" : "");
      const bar = make("span", "sp-bar");
      bar.style.setProperty("--share", String(chance));
      row.append(make("code", "", namedText(text)), bar, make("span", "sp-chance", probability(chance)));
      return row;
    }),
  );
}
