// Plays the steps of a run: as they come, later, slower, one round at a time. It never asks the engine for anything:
// while it waits, what comes is kept.

import { t } from "./words.js";

const FRAME_BUDGET = 12; // ms of a frame that showing steps may take

// The seconds of the lane whose step this is, at the end of it.
const clockOf = (step) => {
  const lane = step.rounds[0]?.[0] ?? step.ended?.[0]?.[0] ?? 0;
  return step.clocks[lane][0];
};

export class Player {
  // `show(step)` puts a step on the page, `restart()` empties it, `explain(step, done)` walks through a round and calls
  // `done` where it is to be shown; `changed()` is told of every change of the state.
  constructor(root, { show, restart, explain, leave }) {
    Object.assign(this, { root, show, restart, explain, leave });
    const part = (name) => root.querySelector(`[data-player=${name}]`);
    this.parts = {
      play: part("play"), step: part("step"), speed: part("speed"), scrub: part("scrub"), place: part("place"),
    };
    this.parts.play.addEventListener("click", () => (this.playing ? this.pause() : this.play()));
    this.parts.step.addEventListener("click", () => this.step());
    this.parts.speed.addEventListener("change", () => this.setSpeed(this.parts.speed.value));
    this.parts.scrub.addEventListener("input", () => this.seek(Number(this.parts.scrub.value)));
    this.dropped = 0; // steps that had to share a frame although each had a frame of its own to come
    this.begin();
  }

  get behind() {
    return this.steps.length - this.at;
  }

  // A run begins: nothing of it is known yet. It is shown as it comes, unless it was to begin paused.
  begin() {
    this.steps = [];
    this.times = [];
    this.at = 0;
    this.whole = false; // there will be no more steps
    this.live = this.parts.speed.value === "1" || Number(this.parts.speed.value) > 1;
    this.playing = !this.startPaused;
    this.wanted = Boolean(this.startPaused); // a round was asked for that is not there yet
    this.startPaused = false;
    this.time = 0; // seconds of the lanes' clocks that have been played
    this.explaining = false;
    this.leave();
    this.update();
  }

  push(steps) {
    for (const step of steps) {
      this.times.push(Math.max(clockOf(step), this.times.at(-1) ?? 0));
      this.steps.push(step);
    }
    if (this.playing && this.live) this.showUpTo(this.steps.length);
    else if (this.playing) this.schedule();
    else if (this.wanted && this.nextRound() !== null) this.step();
    this.update();
  }

  // No more will come.
  end() {
    this.whole = true;
    if (this.wanted && !this.explaining) this.showUpTo(this.steps.length);
    if (this.at === this.steps.length) this.playing = this.live = false;
    this.update();
  }

  // A finished run, all of it shown.
  load(steps) {
    this.begin();
    this.playing = false;
    this.push(steps);
    this.showUpTo(this.steps.length);
    this.end();
  }

  play() {
    if (this.at === this.steps.length && this.whole) this.seek(0);
    this.finishRound();
    this.wanted = false;
    this.playing = true;
    this.time = this.times[this.at - 1] ?? 0;
    this.live = !this.whole && Number(this.parts.speed.value) >= 1;
    if (this.live) this.showUpTo(this.steps.length);
    else this.schedule();
    this.update();
  }

  pause() {
    this.playing = false;
    this.live = false;
    this.update();
  }

  setSpeed(value) {
    this.parts.speed.value = value;
    if (!this.playing) return;
    const slow = value === "inside" || Number(value) < 1;
    this.finishRound();
    this.live = !slow && !this.whole;
    this.time = this.times[this.at - 1] ?? 0;
    if (this.live) this.showUpTo(this.steps.length);
    else this.schedule();
    this.update();
  }

  // One round of the lane that speculates, phase by phase; what the other lane did meanwhile is shown with it.
  step() {
    this.pause();
    if (this.finishRound()) return;
    const next = this.nextRound();
    this.wanted = next === null && !this.whole;
    if (next === null) {
      this.showUpTo(this.steps.length);
      this.update();
      return;
    }
    this.showUpTo(next);
    this.explainNext();
  }

  // Where the next round of the speculating lane is among the steps; null: not known yet, or there is none.
  nextRound() {
    for (let i = this.at; i < this.steps.length; i += 1) {
      const [round] = this.steps[i].rounds;
      if (round && round[0] === this.steps[i].clocks.length - 1) return i;
    }
    return null;
  }

  explainNext() {
    this.explaining = true;
    const step = this.steps[this.at];
    this.update();
    this.explain(step, () => {
      if (!this.explaining || this.steps[this.at] !== step) return;
      this.explaining = false;
      this.showUpTo(this.at + 1);
      this.update();
    }, () => {
      if (this.playing) this.schedule();
    });
  }

  // Whether a round was being walked through, which is shown whole now.
  finishRound() {
    if (!this.explaining) return false;
    this.explaining = false;
    this.leave();
    this.showUpTo(this.at + 1);
    this.update();
    return true;
  }

  // Show exactly the first `count` steps.
  seek(count) {
    this.explaining = false;
    this.leave();
    this.live = false;
    if (count < this.at) {
      this.at = 0;
      this.restart();
    }
    this.showUpTo(Math.min(count, this.steps.length));
    this.time = this.times[this.at - 1] ?? 0;
    this.update();
  }

  showUpTo(count) {
    while (this.at < count) {
      this.at += 1;
      this.show(this.steps[this.at - 1]);
    }
  }

  schedule() {
    if (this.frame) return;
    let before = performance.now();
    const tick = (now) => {
      this.frame = null;
      if (!this.playing || this.live || this.explaining) return;
      if (this.parts.speed.value === "inside") {
        const next = this.nextRound();
        if (next === null) {
          this.showUpTo(this.steps.length);
          if (this.whole) this.pause();
          return;
        }
        this.showUpTo(next);
        this.explainNext();
        return;
      }
      this.time += (Math.max(0, now - before) / 1000) * Number(this.parts.speed.value);
      before = now;
      const begin = performance.now();
      while (this.at < this.steps.length && this.times[this.at] <= this.time) {
        this.showUpTo(this.at + 1);
        if (performance.now() - begin > FRAME_BUDGET) {
          this.dropped += 1;
          break;
        }
      }
      if (this.at === this.steps.length) {
        this.time = Math.min(this.time, this.times.at(-1) ?? 0);
        if (this.whole) this.pause();
      }
      this.update();
      if (this.playing && (this.at < this.steps.length || !this.whole)) this.frame = requestAnimationFrame(tick);
    };
    this.frame = requestAnimationFrame(tick);
  }

  update() {
    const { play, step, scrub, place } = this.parts;
    const some = this.steps.length > 0;
    this.root.classList.toggle("sp-off", !some && this.playing);
    const finished = this.whole && this.at === this.steps.length;
    const label = this.playing ? t("Pause") : finished ? t("Play again") : t("Play");
    if (play.textContent !== label) play.textContent = label;
    play.disabled = !some && this.playing && this.whole;
    step.disabled = this.whole && this.at === this.steps.length;
    scrub.max = String(this.steps.length);
    scrub.value = String(this.at);
    const text = this.wanted ? t("waiting") : some ? `${this.at} / ${this.steps.length}` : "";
    if (place.textContent !== text) place.textContent = text;
    scrub.setAttribute("aria-valuetext", t("{at} of {all} rounds shown", { at: this.at, all: this.steps.length }));
  }
}
