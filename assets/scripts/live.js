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
    this.say("Stopping after this round");
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
    if (message.status) this.say(message.status);
    if (message.rounds) this.advance(message);
    for (const [lane, , why, emitted, tail] of message.ended ?? []) this.active[lane].finish(emitted, why, tail);
    if (message.error) this.showError(message.error, message.field);
    if (message.done) this.finish(message);
    this.costs.push([performance.now() - begin, (message.rounds ?? []).length]);
  }

  start({ lanes, greedy, verdicts }, dtype) {
    this.verdicts = verdicts;
    this.greedy = greedy;
    this.dtype = dtype;
    this.active = this.lanes.slice(-lanes.length);
    this.lanesBox.classList.toggle("sp-single", lanes.length === 1);
    this.lanes.forEach((lane) => lane.reset(""));
    lanes.forEach((lane, i) => this.active[i].begin(lane.title));
    this.charts.reset(lanes.map((lane) => lane.title));
    this.showNumbers({});
  }

  advance(message) {
    if (message.rounds.length) this.say("Decoding");
    this.active.forEach((lane, i) => {
      lane.append(message.rounds.filter((round) => round[0] === i));
      lane.numbers(message.clocks[i]);
    });
    this.showNumbers(message.numbers);
    this.charts.take(message);
    this.agreement = message.agree;
  }

  showNumbers(n) {
    const measured = n.measured_speedup ?? null;
    const predicted = n.predicted_speedup ?? null;
    const shown = measured ?? predicted;
    this.cell("speedup", shown === null ? "–" : `${number(shown, 2)}×`, speedupKind(measured, predicted));
    const rate = n.acceptance_rate ?? null;
    this.cell("acceptance_rate", rate === null ? "–" : `${number(100 * rate, 0)} %`);
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

  finish(message) {
    this.setRunning(false);
    if (!message.error) this.say(this.conclusion());
    this.charts.drawAll().then(() => this.root.classList.add("sp-drawn"));
  }

  // What the two texts say about exactness.
  conclusion() {
    const { agreement, greedy, dtype } = this;
    if (!agreement) return "Done.";
    if (!greedy) {
      return "Sampling: each lane draws its own random numbers, so the texts differ; their distribution is the same.";
    }
    const { tokens, parted } = agreement;
    if (!parted) return `Both lanes wrote the same ${tokens} tokens, as they must at temperature 0.`;
    const [plain, ours] = parted.texts.map(namedText);
    const gap = Math.min(...parted.margins.filter((m) => m !== null));
    const apart = gap === 0 ? "exactly equal there" : `${Number.isFinite(gap) ? gap.toPrecision(2) : "?"} apart there`;
    return (
      `The lanes part at token ${parted.index}: plain wrote “${plain}”, the other “${ours}”. The target's two best ` +
      `logits are ${apart}${cause(gap, dtype)}`
    );
  }

  openCard(lane, chosen) {
    for (const other of this.lanes) if (other !== lane) other.unchoose();
    this.card.show(lane, chosen, this.greedy);
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

function speedupKind(measured, predicted) {
  if (measured === null) return "predicted";
  return predicted === null ? "measured" : `measured · ${number(predicted, 2)}× predicted`;
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
