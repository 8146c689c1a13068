// The runs of this session: listed, shown again, saved as a trace, exported as a page; and traces of others, opened.
// Their texts are kept here, so that the server need not remember them.

import { pack, unpack } from "./packed.js";
import { number } from "./text.js";
import { skeletonOf, t, tell } from "./words.js";

const MOST_RUNS = 12;

export class History {
  constructor(root, { server, mostBytes }) {
    this.root = root;
    const skeleton = skeletonOf(root);
    document.addEventListener("playground:language", () => {
      skeleton();
      this.update();
    });
    skeleton();
    this.server = server;
    this.mostBytes = mostBytes;
    this.runs = []; // newest first: { prompt, title, numbers, kept, opened, packed }
    this.shown = null;
    const part = (name) => root.querySelector(`.sp-history-${name}`);
    this.list = part("list");
    this.empty = part("empty");
    this.error = part("error");
    this.note = part("note");
    this.file = part("file");
    this.buttons = { save: part("save"), export: part("export"), open: part("open") };
    this.buttons.save.addEventListener("click", () => this.attempt(() => this.save()));
    this.buttons.export.addEventListener("click", () => this.attempt(() => this.export()));
    this.buttons.open.addEventListener("click", () => this.file.click());
    this.file.addEventListener("change", () => {
      const files = [...this.file.files];
      this.file.value = ""; // the same file may be chosen again
      this.attempt(() => this.open(files));
    });
    this.catchDrops();
    document.addEventListener("playground:ended", ({ detail }) => this.take(detail));
    this.watchRuns();
    this.update();
  }

  // A live run has ended. What it was in full is fetched now, while the server still has it.
  take({ run, title, prompt, numbers, kept }) {
    const entry = { prompt: prompt ?? "", title, numbers, kept, opened: false, run, packed: null };
    entry.packed = this.fetch(entry).catch(() => null);
    this.add(entry);
    this.shown = entry;
    this.update();
  }

  async fetch(entry) {
    const { packed, error } = await this.server.recorded_run(entry.run);
    if (error) throw new Error(tell(error));
    return packed;
  }

  add(entry) {
    this.runs.unshift(entry);
    this.runs.length = Math.min(this.runs.length, MOST_RUNS);
  }

  // While another run is being decoded, none of these is on the page.
  watchRuns() {
    const live = document.querySelector(".sp-live");
    if (!live) {
      setTimeout(() => this.watchRuns(), 50);
      return;
    }
    new MutationObserver(() => {
      if (window.playground?.running && this.shown) {
        this.shown = null;
        this.update();
      }
    }).observe(live, { attributeFilter: ["class"] });
  }

  // Errors of whatever the reader asked for are said here; what was open stays.
  async attempt(action) {
    this.say("");
    this.complain("");
    try {
      await action();
    } catch (error) {
      this.say("");
      this.complain(error.message || String(error));
    }
  }

  complain(text) {
    this.error.textContent = text;
    this.error.hidden = !text;
  }

  say(text) {
    this.note.textContent = text;
  }

  show(entry) {
    if (window.playground.running) throw new Error(t("A run is going on: stop it first, or wait for its end."));
    window.playground.replay({ ...entry.kept, title: entry.title });
    this.shown = entry;
    this.update();
  }

  // The text of the trace of what is shown.
  async textOfShown() {
    const entry = this.shown;
    if (!entry) throw new Error(t("There is no finished run to keep: run something, or choose a run of the list."));
    const packed = (await entry.packed) ?? (await this.fetch(entry));
    entry.packed = packed;
    return { entry, packed };
  }

  async save() {
    const { entry, packed } = await this.textOfShown();
    download(await unpack(packed), "application/json", `${fileName(entry)}.json`);
    this.say(t("The trace was saved."));
  }

  async export() {
    const { entry, packed } = await this.textOfShown();
    this.say(t("Making the page"));
    const language = document.documentElement.lang || "en";
    const { page, error } = await this.server.exported_page([packed, language]);
    if (error) throw new Error(tell(error));
    download(await unpack(page), "text/html", `${fileName(entry)}.html`);
    this.say(t("The page was saved: it opens in any browser, without a network."));
  }

  async open(files) {
    if (!files.length) return;
    if (files.length > 1) throw new Error(t("Open one file at a time; there are {n}.", { n: files.length }));
    const [file] = files;
    const most = Math.floor(this.mostBytes / 1e6);
    if (file.size > this.mostBytes) {
      const size = number(file.size / 1e6, 1);
      const text = t("{name} was not opened: it has {size} MB, and a trace has at most {most} MB.", { name: file.name, size, most });
      throw new Error(text);
    }
    this.say(t("Opening {name}", { name: file.name }));
    let packed;
    try {
      packed = await pack(new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer()));
    } catch {
      throw new Error(t("{name} was not opened: it is no UTF-8 text.", { name: file.name }));
    }
    const { replay, error } = await this.server.opened_run(packed);
    if (error) throw new Error(t("{name} was not opened. {reason}", { name: file.name, reason: tell(error) }));
    const { prompt, ...kept } = JSON.parse(await unpack(replay));
    const entry = { prompt, title: kept.title, numbers: kept.steps.at(-1)?.numbers ?? {}, kept, opened: true, packed };
    this.add(entry);
    this.update();
    this.say("");
    this.show(entry);
  }

  catchDrops() {
    const carriesFile = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
    const mark = (on) => this.root.classList.toggle("sp-dropping", on);
    document.addEventListener("dragover", (event) => {
      if (!carriesFile(event) || !this.root.offsetParent) return;
      event.preventDefault();
      mark(true);
    });
    document.addEventListener("dragleave", (event) => event.relatedTarget ?? mark(false));
    document.addEventListener("drop", (event) => {
      mark(false);
      if (!carriesFile(event) || !this.root.offsetParent) return;
      event.preventDefault();
      this.attempt(() => this.open([...event.dataTransfer.files]));
    });
  }

  update() {
    this.buttons.save.disabled = this.buttons.export.disabled = !this.shown;
    this.empty.hidden = this.runs.length > 0;
    const focused = this.list.contains(document.activeElement);
    this.list.replaceChildren(...this.runs.map((entry) => this.row(entry)));
    if (focused) this.list.querySelector("[aria-current]")?.focus();
  }

  row(entry) {
    const { numbers, prompt, title, opened } = entry;
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    if (entry === this.shown) button.setAttribute("aria-current", "true");
    const cells = [
      ["prompt", prompt.trim().replace(/\s+/g, " ").slice(0, 200) || t("(no prompt text)")],
      ["title", opened ? t("{title} (opened)", { title: tell(title) }) : tell(title)],
      ["speedup", speedupText(numbers)],
      ["rate", rateText(numbers)],
      ["tokens", t("{n} tokens", { n: numbers.emitted ?? 0 })],
    ];
    for (const [name, text] of cells) {
      const cell = document.createElement("span");
      cell.className = `sp-history-${name}`;
      cell.textContent = text; // of a stranger's file: never parsed as HTML
      button.append(cell, " ");
    }
    button.addEventListener("click", () => this.attempt(() => this.show(entry)));
    item.append(button);
    return item;
  }
}

function speedupText({ measured_speedup: measured, predicted_speedup: predicted }) {
  const known = (value) => value !== null && value !== undefined;
  if (known(measured)) return t("{x}× measured", { x: number(measured, 2) });
  return known(predicted) ? t("{x}× predicted", { x: number(predicted, 2) }) : t("no speedup");
}

function rateText({ acceptance_rate: rate }) {
  return rate === null || rate === undefined ? t("nothing drafted") : t("{n} % accepted", { n: number(100 * rate, 0) });
}

function fileName({ title }) {
  const plain = title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60);
  const now = new Date().toISOString().slice(0, 19).replace(/[:T]/g, "-");
  return `speculation-${plain || "run"}-${now}`;
}

function download(text, type, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function mount(element, { html, mostBytes, server }) {
  const root = document.createElement("section");
  root.className = "sp-history";
  root.innerHTML = html; // the page's own skeleton
  element.replaceChildren(root);
  window.playgroundHistory = new History(root, { server, mostBytes });
}
