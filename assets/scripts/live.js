// The live view: takes the messages of a run in their order, fills gaps, and hands them to lanes, numbers and plots.

import { Card } from "./card.js";
import { Charts } from "./charts.js";
import { Lane } from "./lane.js";
import { namedText, number } from "./text.js";

const PLACEHOLDERS = [
  "The target alone will write here, one pass for every token.",
  "Here the same text, with a drafter guessing ahead: every guess is shown, kept or struck.",
];
const ROUNDING = 0.5; // logits of some tens are 0.125 apart in bfloat16
const STATUS_PAUSE = 1000; // ms, while models are being loaded

class LiveView {
  constructor(root, { server, skeletons, plotlyUrl }) {
    this.root = root;
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
    this.lanes[0].title.textContent = "Plain decoding";
    this.lanes[1].title.textContent = "Speculative decoding";
    this.lanes.forEach((lane, i) => lane.reset(PLACEHOLDERS[i]));
    this.run = null;
    this.running = false;
    this.active = this.lanes;
    this.costs = []; // ms of drawing, a message each: what a test looks at
    this.watchMachine();
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
    this.setRunning(true);
    this.card.close();
    this.clearError();
    this.say("Waiting for a free place");
    return this.run;
  }

  setRunning(running) {
    this.running = running;
    this.root.classList.toggle("sp-running", running);
    for (const [id, off] of [["sp-run", running], ["sp-stop", !running]]) {
      const button = document.getElementById(id);
      if (button) button.disabled = off;
    }
  }

  hide(on) {
    this.root.classList.toggle("sp-hiding", on);
  }

  stop() {
    if (!this.running) return;
    this.say(this.decoding ? "Stopping after this round" : "Stopping");
    this.stopping = true;
    this.server.stop_run(this.run);
  }

  // The event of the run is over, with or without its last message.
  async ended() {
    if (!this.running) return;
    await this.filling;
    if (this.running) await this.backfill();
    if (!this.running) return;
    this.showError("The connection to the run was lost. Press Run to start again.", "");
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
    if (message.begin) this.start(message.begin, message.dtype);
    if (message.machine) this.machine.textContent = message.machine;
    if (message.status && !this.stopping) this.say(message.status);
    if (message.rounds) this.advance(message);
    for (const [lane, , why, emitted, tail] of message.ended ?? []) this.active[lane].finish(emitted, why, tail);
    if (message.error) this.showError(message.error, message.field);
    if (message.done) this.finish(message);
    this.costs.push([performance.now() - begin, (message.rounds ?? []).length]);
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

  advance(message) {
    this.decoding ||= message.rounds.length > 0;
    if (message.rounds.length && !this.stopping) this.say("Decoding");
    this.active.forEach((lane, i) => {
      lane.append(message.rounds.filter((round) => round[0] === i));
      lane.numbers(message.clocks[i]);
    });
    this.showNumbers(message.numbers);
    this.tv = message.numbers.tv ?? null;
    if (this.tv !== null) this.active.at(-1).showLossy(this.tv);
    this.charts.take(message);
    this.agreement = message.agree;
    this.written = message.clocks.map(([, emitted]) => emitted);
  }

  showNumbers(n) {
    const measured = n.measured_speedup ?? null;
    const predicted = n.predicted_speedup ?? null;
    const shown = measured ?? predicted;
    const kind = shown === null && n.emitted ? "not defined" : speedupKind(measured, predicted);
    this.cell("speedup", shown === null ? "–" : `${number(shown, 2)}×`, kind);
    this.explainSpeedup(measured, predicted);
    const rate = n.acceptance_rate ?? null;
    this.cell("acceptance_rate", rate === null ? "–" : `${number(100 * rate, 0)} %`, besideAcceptance(n, this.law));
    this.cell("tokens_per_pass", number(n.tokens_per_pass ?? null, 2));
    this.cell("tokens_per_second", number(n.tokens_per_second ?? null, 1));
    this.cell("passes_saved", n.emitted ? `${n.passes_saved} of ${n.emitted}` : "–");
  }

  cell(name, text, kind = "measured") {
    const cell = this.root.querySelector(`[data-number="${name}"]`);
    const [value, label] = [cell.querySelector("dd"), cell.querySelector(".sp-kind")];
    if (value.textContent !== text) value.textContent = text;
    if (label.textContent !== kind) label.textContent = kind;
  }

  // The definition of what the label says.
  explainSpeedup(measured, predicted) {
    const data = this.root.querySelector('[data-number="speedup"]').dataset;
    data.measured ??= data.tip;
    const both = `Measured: ${data.measured} Predicted: ${data.predicted}`;
    const tip = predicted === null ? data.measured : measured === null ? data.predicted : both;
    if (data.tip !== tip) data.tip = tip;
  }

  finish(message) {
    this.setRunning(false);
    if (!message.error) this.say(this.conclusion());
    this.charts.drawAll().then(() => this.root.classList.add("sp-drawn"));
  }

  // What the two texts say about exactness.
  conclusion() {
    const { agreement, dtype, written } = this;
    if (!Math.max(...written)) return "Stopped before anything was written.";
    if (!this.law.lossless) return this.lossyConclusion(agreement?.parted);
    if (!agreement) return "Done.";
    if (!this.law.greedy && !this.law.oneText) {
      const bound = dtype === "float32" ? "" : ` up to ${dtype} rounding`;
      return (
        "Sampling: each lane draws its own random numbers, so the texts differ; their distribution is the same" +
        `${bound}.`
      );
    }
    const { tokens, parted } = agreement;
    if (!parted) return sameTexts(tokens, written, this.law.greedy ? "at temperature 0" : "with shared noise");
    const [plain, ours] = parted.texts.map(namedText);
    const where = `The lanes part at token ${parted.index}: plain wrote “${plain}”, the other “${ours}”. `;
    // The noise decides between any two tokens: how far the logits are apart says nothing of how near the draw was.
    if (!this.law.greedy) return `${where}Both drew with the same noise: ${dtype} rounding moved one of them across.`;
    const gap = Math.min(...parted.margins.filter((m) => m !== null));
    const apart = gap === 0 ? "exactly equal there" : `${Number.isFinite(gap) ? gap.toPrecision(2) : "?"} apart there`;
    return `${where}The target's two best logits are ${apart}${cause(gap, dtype)}`;
  }

  lossyConclusion(parted) {
    const far = this.tv === null ? "no guess was tested" : `TV ${number(this.tv, 3)} on average where a guess was tested`;
    const where = parted ? ` The lanes part at token ${parted.index}.` : "";
    return `Lossy: the verifier ${this.law.verifier} does not write what the target would: ${far}.${where}`;
  }

  openCard(lane, chosen) {
    for (const other of this.lanes) if (other !== lane) other.unchoose();
    this.card.show(lane, chosen, this.law);
  }

  say(text) {
    if (this.status.textContent !== text) this.status.textContent = text;
  }

  showError(text, field) {
    this.error.textContent = text;
    this.error.hidden = false;
    this.say("");
    const control = field && document.getElementById(`sp-${field}`);
    if (!control) return;
    control.classList.add("sp-wrong");
    const note = document.createElement("p");
    note.className = "sp-field-error";
    note.textContent = text;
    control.append(note);
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
      if (this.run !== null) return;
      this.machine.textContent = machine;
      this.say(text);
      if (ready) return;
      await new Promise((resolve) => setTimeout(resolve, STATUS_PAUSE));
    }
  }
}

// A gap of a few steps of the number format is a tie; a larger one would be a fault, and is not excused.
function cause(gap, dtype) {
  if (dtype === "float32") return ": in float32 that should not happen.";
  return gap <= ROUNDING ? `, a tie within the rounding of ${dtype}.` : `: more than the rounding of ${dtype} explains.`;
}

// A lane that was stopped early has less to compare.
function sameTexts(tokens, written, when) {
  if (!tokens) return "Stopped before both lanes had written anything: there is nothing to compare.";
  const counted = `${tokens} token${tokens === 1 ? "" : "s"}`;
  return Math.max(...written) === tokens
    ? `Both lanes wrote the same ${counted}, as they must ${when}.`
    : `Both lanes begin with the same ${counted}, as they must ${when}.`;
}

function speedupKind(measured, predicted) {
  if (predicted === null) return "measured";
  return measured === null ? "predicted" : `measured · ${number(predicted, 2)}× predicted`;
}

// Where the verifier is not `exact`: of the tested guesses, beside what p and q predict, or what `exact` would keep.
function besideAcceptance(n, law) {
  const share = (value) => `${number(100 * value, 0)} %`;
  const [name, other] = law?.oneText ? ["exact", n.alpha] : ["predicted", n.predicted_acceptance];
  if (!law || law.verifier === "exact" || (other ?? null) === null) return "measured";
  return `tested ${share(n.tested_acceptance_rate)}, ${name} ${share(other)}`;
}

// Ctrl+Enter runs, Esc closes the card or stops.
function listenToKeys(view) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      document.getElementById("sp-run")?.click();
    } else if (event.key === "Escape") {
      if (view.card.open) view.card.close();
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
  if (missing) {
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
