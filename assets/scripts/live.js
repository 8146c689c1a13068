// The live view: takes the messages of a run in their order, fills gaps, and hands them to lanes, numbers and plots.

import { Card } from "./card.js";
import { Charts } from "./charts.js";
import { Lane } from "./lane.js";
import { Player } from "./player.js";
import { Stage } from "./stage.js";
import { namedText, number } from "./text.js";
import { skeletonOf, t, tell } from "./words.js";

const PLACEHOLDERS = [
  "The target alone will write here, one pass for every token.",
  "Here the same text, with a drafter guessing ahead: every guess is shown, kept or struck.",
];
const TITLES = ["Plain decoding", "Speculative decoding"];
const ROUNDING = 0.5; // logits of some tens are 0.125 apart in bfloat16
const FEW_ROUNDS = 5;
const STATUS_PAUSE = 1000; // ms, while models are being loaded

class LiveView {
  constructor(root, { server, skeletons, plotlyUrl }) {
    this.root = root;
    const skeleton = skeletonOf(root);
    this.server = server;
    this.status = root.querySelector(".sp-status");
    this.machine = root.querySelector(".sp-machine");
    this.error = root.querySelector(".sp-error");
    this.lanesBox = root.querySelector(".sp-lanes");
    this.lanes = [...root.querySelectorAll(".sp-lane")].map(
      (lane) => new Lane(lane, (from, chosen) => this.openCard(from, chosen)),
    );
    this.card = new Card(root.querySelector(".sp-card"), () => this.lanes.forEach((lane) => lane.unchoose()));
    this.charts = new Charts(root, skeletons, plotlyUrl);
    this.lanes.forEach((lane, i) => {
      lane.name(TITLES[i]);
      lane.reset(PLACEHOLDERS[i]);
    });
    this.stage = new Stage(root.querySelector(".sp-stage"));
    this.player = new Player(root.querySelector(".sp-player"), {
      show: (step) => this.advance(step),
      restart: () => this.start(this.head.begin, this.head.dtype),
      explain: (step, reached, over) => {
        this.stage.play(step.rounds[0], this.law, reached, over);
      },
      leave: () => this.stage?.close(),
    });
    this.stage.root.addEventListener("stage:closed", () => this.player.finishRound());
    this.run = null;
    this.running = false;
    this.replaying = false;
    this.head = null; // of the run that is shown: begin, dtype, machine
    this.active = this.lanes;
    this.costs = []; // ms of drawing, a message each: what a test looks at
    document.addEventListener("playground:language", () => {
      skeleton();
      this.speak();
    });
    skeleton();
    if (server) this.watchMachine();
  }

  // All that stands here, in the page's language, which has changed.
  speak() {
    this.lanes.forEach((lane) => lane.speak());
    this.charts.speak();
    this.card.speak();
    this.stage.speak();
    this.player.update();
    if (this.numbers) this.showNumbers(this.numbers);
    if (this.saying) this.say(this.saying);
    this.nameMachine(this.machineName ?? "");
    if (!this.error.hidden) this.sayError();
  }

  // A new run, named here: returns the name that its messages will carry.
  begin() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    this.run = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
    this.next = 0;
    this.waiting = new Map();
    this.filling = null;
    this.costs = [];
    this.decoding = false;
    this.stopping = false;
    this.written = [0];
    this.replaying = false;
    this.head = {};
    this.prompt = document.querySelector("#sp-prompt textarea")?.value ?? "";
    this.player.begin();
    this.setRunning(true);
    this.card.close();
    this.clearError();
    this.say(() => t("Waiting for a free place"));
    return this.run;
  }

  setRunning(running) {
    this.running = running;
    this.root.classList.toggle("sp-running", running);
    for (const [id, off] of [["sp-run", running], ["sp-stop", !running], ["sp-step", false]]) {
      const button = document.getElementById(id);
      if (button) button.disabled = off;
    }
  }

  hide(on) {
    this.root.classList.toggle("sp-hiding", on);
  }

  // One round at a time: of the run that is shown, or of a new one that begins paused.
  step() {
    if (this.running || this.player.behind || this.player.explaining) {
      this.player.step();
      return;
    }
    this.player.startPaused = true;
    document.getElementById("sp-run")?.click();
  }

  // A finished run, shown again without any model: { title, begin, dtype, machine, steps }. False while a run goes on.
  replay({ title, begin, dtype, machine, steps }) {
    if (this.running) {
      this.say(() => t("A run is going on: stop it first, or wait for its end."));
      return false;
    }
    this.run = null;
    this.replaying = true;
    this.stopping = false;
    this.card.close();
    this.clearError();
    this.head = { title, begin, dtype, machine };
    this.start(begin, dtype);
    this.nameMachine(machine ?? "");
    this.player.load(steps);
    this.charts.drawAll().then(() => this.root.classList.add("sp-drawn"));
    this.root.scrollIntoView({ block: "nearest" });
    return true;
  }

  stop() {
    if (!this.running) return;
    const { decoding } = this;
    this.say(() => (decoding ? t("Stopping after this round") : t("Stopping")));
    this.stopping = true;
    this.server.stop_run(this.run);
  }

  // The event of the run is over, with or without its last message.
  async ended() {
    if (!this.running) return;
    await this.filling;
    if (this.running) await this.backfill();
    if (!this.running) return;
    this.showError("The connection to the run was lost. Press Run to start again.", ""); // English, as the server's
    this.setRunning(false);
  }

  receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    if (message.run !== this.run || message.seq < this.next) return;
    this.waiting.set(message.seq, message);
    this.drain();
    if (this.waiting.size) this.backfill();
  }

  drain() {
    let message;
    while ((message = this.waiting.get(this.next))) {
      this.waiting.delete(this.next);
      this.next += 1;
      this.apply(message);
    }
  }

  // Ask for what is missing; one question at a time.
  backfill() {
    this.filling ??= this.askAgain(this.run).finally(() => {
      this.filling = null;
    });
    return this.filling;
  }

  async askAgain(run) {
    const texts = await this.server.backfill([run, this.next]);
    if (run !== this.run) return;
    for (const text of texts) {
      const message = JSON.parse(text);
      if (message.seq >= this.next) this.waiting.set(message.seq, message);
    }
    this.drain();
  }

  apply(message) {
    const begin = performance.now();
    if (message.begin) {
      this.head = { begin: message.begin, dtype: message.dtype, machine: message.machine ?? "" };
      this.start(message.begin, message.dtype);
    }
    if (message.machine) this.nameMachine(message.machine);
    if (message.status && !this.stopping) this.say(() => tell(message.status));
    const steps = message.steps ?? [];
    const done = message.done || steps.at(-1)?.done || false;
    if (steps.length) {
      this.decoding = true;
      if (!this.stopping) this.say(() => t("Decoding"));
      this.player.push(steps);
    }
    if (message.error) this.showError(message.error, message.field);
    if (done) this.finish(message);
    this.costs.push([performance.now() - begin, steps.length]);
  }

  start({ lanes, greedy, verifier, lossless, one_text: oneText, verdicts }, dtype) {
    this.verdicts = verdicts;
    this.law = { greedy, verifier, lossless, oneText };
    this.tv = null;
    this.dtype = dtype;
    this.active = this.lanes.slice(-lanes.length);
    this.lanesBox.classList.toggle("sp-single", lanes.length === 1);
    this.lanes.forEach((lane) => lane.reset(""));
    lanes.forEach((lane, i) => this.active[i].begin(lane.title));
    if (!lossless && lanes.at(-1).drafts) this.active.at(-1).showLossy(null);
    this.charts.reset(lanes.map((lane) => lane.title));
    this.showNumbers({});
  }

  // Put one step on the page.
  advance(message) {
    this.active.forEach((lane, i) => {
      lane.append(message.rounds.filter((round) => round[0] === i));
      lane.numbers(message.clocks[i]);
    });
    this.done = message.done ?? false;
    this.showNumbers(message.numbers);
    this.tv = message.numbers.tv ?? null;
    if (this.tv !== null) this.active.at(-1).showLossy(this.tv);
    this.charts.take(message);
    this.agreement = message.agree;
    this.written = message.clocks.map(([, emitted]) => emitted);
    for (const [lane, , why, emitted, tail] of message.ended ?? []) this.active[lane].finish(emitted, why, tail);
    if (message.done) this.shown();
  }

  showNumbers(n) {
    this.numbers = n;
    const measured = n.measured_speedup ?? null;
    const predicted = n.predicted_speedup ?? null;
    // The quotient of a few rounds is noise: it is no headline while more are to come.
    const few = measured !== null && !this.done && n.emitted / n.tokens_per_pass < FEW_ROUNDS;
    const shown = few ? null : (measured ?? predicted);
    const kind = few
      ? t("measured after {n} rounds", { n: FEW_ROUNDS })
      : shown === null && n.emitted ? t("not defined") : speedupKind(measured, predicted);
    this.cell("speedup", shown === null ? "–" : `${number(shown, 2)}×`, kind);
    this.explainSpeedup(measured, predicted);
    const rate = n.acceptance_rate ?? null;
    this.cell("acceptance_rate", rate === null ? "–" : `${number(100 * rate, 0)} %`, besideAcceptance(n, this.law));
    this.cell("tokens_per_pass", number(n.tokens_per_pass ?? null, 2));
    this.cell("tokens_per_second", number(n.tokens_per_second ?? null, 1));
    this.cell("passes_saved", n.emitted ? t("{part} of {whole}", { part: n.passes_saved, whole: n.emitted }) : "–");
  }

  cell(name, text, kind = t("measured")) {
    const cell = this.root.querySelector(`[data-number="${name}"]`);
    const [value, label] = [cell.querySelector("dd"), cell.querySelector(".sp-kind")];
    if (value.textContent !== text) value.textContent = text;
    if (label.textContent !== kind) label.textContent = kind;
  }

  // The definition of what the label says.
  explainSpeedup(measured, predicted) {
    const data = this.root.querySelector('[data-number="speedup"]').dataset;
    const [ofMeasured, ofPredicted] = [t(data.measured), t(data.predicted)];
    const both = t("Measured: {measured} Predicted: {predicted}", { measured: ofMeasured, predicted: ofPredicted });
    const tip = predicted === null ? ofMeasured : measured === null ? ofPredicted : both;
    if (data.tip !== tip) data.tip = tip;
  }

  // The engine has ended; what the player holds back is yet to be shown.
  finish(message) {
    this.setRunning(false);
    this.player.end();
    const { steps } = this.player;
    if (!steps.length) {
      if (!message.error) this.say(() => t("Stopped before anything was written."));
      return;
    }
    const detail = {
      run: this.run,
      title: this.head.begin.lanes.at(-1).title,
      prompt: this.prompt,
      numbers: steps.at(-1).numbers,
      kept: { ...this.head, steps },
    };
    document.dispatchEvent(new CustomEvent("playground:ended", { detail }));
    const n = this.player.behind;
    if (n) this.say(() => t("The run has ended; {n} rounds wait to be shown.", { n }));
  }

  // All of the run is on the page.
  shown() {
    this.say(() => (this.replaying ? t("Replayed. {what}", { what: this.conclusion() }) : this.conclusion()));
    this.charts.drawAll().then(() => this.root.classList.add("sp-drawn"));
  }

  // What the two texts say about exactness.
  conclusion() {
    const { agreement, dtype, written } = this;
    if (!Math.max(...written)) return t("Stopped before anything was written.");
    if (!this.law.lossless) return this.lossyConclusion(agreement?.parted);
    if (!agreement) return t("Done.");
    if (!this.law.greedy && !this.law.oneText) {
      return dtype === "float32" ? t(SAMPLED) : t(SAMPLED_ROUNDED, { dtype });
    }
    const { tokens, parted } = agreement;
    if (!parted) return sameTexts(tokens, written, this.law.greedy);
    const [plain, ours] = parted.texts.map(namedText);
    const where = { where: t("The lanes part at token {n}: plain wrote “{plain}”, the other “{ours}”.", { n: parted.index, plain, ours }) };
    // The noise decides between any two tokens: how far the logits are apart says nothing of how near the draw was.
    if (!this.law.greedy) return t(PARTED_NOISE, { ...where, dtype });
    const margin = Math.min(...parted.margins.filter((m) => m !== null));
    const gap = Number.isFinite(margin) ? margin.toPrecision(2) : "?";
    if (dtype === "float32") return t(PARTED_FAULT, { ...where, gap, dtype });
    if (margin === 0) return t(PARTED_EQUAL, { ...where, dtype });
    // A gap of a few steps of the number format is a tie; a larger one would be a fault, and is not excused.
    return margin <= ROUNDING ? t(PARTED_TIE, { ...where, gap, dtype }) : t(PARTED_FAR, { ...where, gap, dtype });
  }

  lossyConclusion(parted) {
    const { verifier } = this.law;
    const values = { verifier, tv: number(this.tv, 3), n: parted?.index };
    if (this.tv === null) return t("Lossy: the verifier {verifier} does not write what the target would: no guess was tested.", values);
    return parted
      ? t("Lossy: the verifier {verifier} does not write what the target would: TV {tv} on average where a guess was tested. The lanes part at token {n}.", values)
      : t("Lossy: the verifier {verifier} does not write what the target would: TV {tv} on average where a guess was tested.", values);
  }

  openCard(lane, chosen) {
    for (const other of this.lanes) if (other !== lane) other.unchoose();
    this.card.show(lane, chosen, this.law);
  }

  // `saying()` gives the text in the page's language: it is asked again when that changes.
  say(saying) {
    this.saying = saying;
    const text = saying();
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  // The target, its number format and its threads, as the server says it.
  nameMachine(text) {
    this.machineName = text;
    this.machine.textContent = tell(text);
  }

  showError(text, field) {
    this.wrong = text;
    this.error.hidden = false;
    this.say(() => "");
    const control = field && document.getElementById(`sp-${field}`);
    if (control) {
      control.classList.add("sp-wrong");
      const note = document.createElement("p");
      note.className = "sp-field-error";
      control.append(note);
    }
    this.sayError();
  }

  sayError() {
    for (const place of [this.error, ...document.querySelectorAll(".sp-field-error")]) place.textContent = tell(this.wrong);
  }

  clearError() {
    this.error.hidden = true;
    document.querySelectorAll(".sp-field-error").forEach((note) => note.remove());
    document.querySelectorAll(".sp-wrong").forEach((control) => control.classList.remove("sp-wrong"));
  }

  // Until a run says something else: what is loaded, in which number format, and what that means.
  async watchMachine() {
    for (;;) {
      const { text, machine, ready } = await this.server.machine_status(null);
      if (this.run !== null || this.replaying) return;
      this.nameMachine(machine);
      this.say(() => tell(text));
      if (ready) return;
      await new Promise((resolve) => setTimeout(resolve, STATUS_PAUSE));
    }
  }
}

const SAMPLED = "Sampling: each lane draws its own random numbers, so the texts differ; their distribution is the same.";
const SAMPLED_ROUNDED =
  "Sampling: each lane draws its own random numbers, so the texts differ; their distribution is the same up to {dtype} rounding.";
const PARTED_NOISE = "{where} Both drew with the same noise: {dtype} rounding moved one of them across.";
const PARTED_FAULT = "{where} The target's two best logits are {gap} apart there: in float32 that should not happen.";
const PARTED_EQUAL = "{where} The target's two best logits are exactly equal there, a tie within the rounding of {dtype}.";
const PARTED_TIE = "{where} The target's two best logits are {gap} apart there, a tie within the rounding of {dtype}.";
const PARTED_FAR = "{where} The target's two best logits are {gap} apart there: more than the rounding of {dtype} explains.";

// A lane that was stopped early has less to compare.
function sameTexts(n, written, greedy) {
  if (!n) return t("Stopped before both lanes had written anything: there is nothing to compare.");
  const values = { tokens: n === 1 ? t("1 token") : t("{n} tokens", { n }) };
  if (Math.max(...written) === n) {
    return greedy
      ? t("Both lanes wrote the same {tokens}, as they must at temperature 0.", values)
      : t("Both lanes wrote the same {tokens}, as they must with shared noise.", values);
  }
  return greedy
    ? t("Both lanes begin with the same {tokens}, as they must at temperature 0.", values)
    : t("Both lanes begin with the same {tokens}, as they must with shared noise.", values);
}

function speedupKind(measured, predicted) {
  if (predicted === null) return t("measured");
  return measured === null ? t("predicted") : t("measured · {x}× predicted", { x: number(predicted, 2) });
}

// Where the verifier is not `exact`: of the tested guesses, beside what p and q predict, or what `exact` would keep.
function besideAcceptance(n, law) {
  const share = (value) => `${number(100 * value, 0)} %`;
  const other = law?.oneText ? n.alpha : n.predicted_acceptance;
  if (!law || law.verifier === "exact" || (other ?? null) === null) return t("measured");
  const values = { tested: share(n.tested_acceptance_rate), other: share(other) };
  return law.oneText ? t("tested {tested}, exact {other}", values) : t("tested {tested}, predicted {other}", values);
}

// Ctrl+Enter runs, Esc closes the card or stops.
function listenToKeys(view) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      document.getElementById("sp-run")?.click();
    } else if (event.key === "Escape") {
      if (view.card.open) view.card.close();
      else if (view.stage.open) view.stage.close();
      else view.stop();
    }
  });
  document.addEventListener("pointerdown", (event) => {
    if (view.card.open && !event.target.closest(".sp-card, .sp-text")) view.card.close();
  });
}

// The page's other parts may come after this one.
function finishWhenWhole(view) {
  const missing = ["sp-run", "sp-stop", "sp-settings"].some((id) => !document.getElementById(id));
  if (missing && view.server) {
    setTimeout(() => finishWhenWhole(view), 20);
    return;
  }
  view.setRunning(view.running);
  foldControls();
  view.root.classList.add("sp-ready");
}

// On a phone the controls would fill the first screen.
function foldControls() {
  const label = document.querySelector("#sp-settings > button.label-wrap.open");
  if (window.innerWidth <= 768) label?.click();
}

export function mount(element, { html, skeletons, plotlyUrl, server, watch, value }) {
  const root = document.createElement("div");
  root.className = "sp-live";
  root.innerHTML = html; // the page's own skeleton, no text of a model or a user
  element.replaceChildren(root);
  const view = new LiveView(root, { server, skeletons, plotlyUrl });
  watch("value", () => view.receive(value()));
  listenToKeys(view);
  window.playground = view;
  finishWhenWhole(view);
}
