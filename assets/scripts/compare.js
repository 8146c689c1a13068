// The tab Compare: progress, a table, a heat map and two plots of what the server measured. Every message says how far
// the comparison is; results come whole, so that a missed message costs nothing. All texts are written as text.

import { loadPlotly } from "./plotly.js";
import { t, tell } from "./words.js";

const COLUMNS = [
  // key, heading, what it means, how its value is written
  ["measured_speedup", "speedup", "Measured: plain seconds per token / speculative seconds per token.", (v) => `${v.toFixed(2)}×`],
  ["tested_acceptance_rate", "tested acceptance", "accepted / (accepted + rejected)", (v) => `${(100 * v).toFixed(0)} %`],
  ["tokens_per_pass", "tokens per pass", "Emitted tokens / target passes.", (v) => v.toFixed(2)],
  ["cost_ratio", "c", "Seconds to draft one token / seconds of a one-token target pass.", (v) => v.toFixed(3)],
  ["tokens_per_second", "tokens per second", "Reading the prompt is left out.", (v) => v.toFixed(1)],
  ["tv", "TV", "Of lossy verifiers: total variation between what is written and the target's distribution.", (v) => v.toFixed(3)],
];
const SIGNS = {
  circle: "●", square: "■", diamond: "◆", "triangle-up": "▲", "triangle-down": "▼", cross: "✚", x: "✖", pentagon: "⬟",
};
const STRONGEST = 46; // per cent of colour in a cell: the text on it keeps its contrast
const FULL = 1; // |log2 of the speedup| that has the strongest colour

class Compare {
  constructor(root, { server, plotlyUrl }) {
    this.root = root;
    this.server = server;
    this.run = null; // the last that was started
    this.shown = null; // the one whose results are shown
    this.running = false;
    this.version = 0;
    this.results = null;
    this.asking = false;
    this.build();
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
    this.loaded = loadPlotly(plotlyUrl);
    this.loaded.then(() => this.draw());
  }

  build() {
    const make = (tag, name, ...children) => create(tag, { className: name }, ...children);
    this.error = create("p", { className: "sp-compare-error", role: "alert", hidden: true });
    this.status = create("p", { className: "sp-compare-status", role: "status" }, t("Nothing was compared yet."));
    this.left = make("p", "sp-compare-left");
    this.bar = create("progress", { max: 1, value: 0, ariaLabel: t("Progress of the comparison") });
    this.heat = this.box(t("Speedup by kind of prompt"), t("Here the measured speedup of every strategy and K on each kind of prompt will appear, slower ones in a colour of their own."));
    this.table = this.box(t("Medians over prompts, with 95 % intervals"), t("Here a row for every combination will appear: speedup, acceptance, tokens per pass, c and more, each with its interval."));
    this.curves = this.box(t("Speedup against K"), t("Here the speedup at each K will appear, with the best K of each strategy marked by a star."));
    this.places = this.box(t("Acceptance by position"), t("Here you will see how well the first, second, third … guess of a draft fares."));
    this.which = create("select", { ariaLabel: t("Which acceptance is shown") },
      new Option(t("of all drafts"), "unconditional"), new Option(t("where all before were kept"), "conditional"));
    this.which.addEventListener("change", () => this.draw());
    this.places.querySelector("h2").after(this.which);
    this.skipped = create("div", { className: "sp-compare-skipped", hidden: true });
    const files = [["csv", t("Download CSV")], ["json", t("Download JSON")]].map(([kind, label]) => {
      const button = create("button", { type: "button", className: "sp-compare-save", disabled: true }, label);
      button.addEventListener("click", () => this.save(kind));
      return button;
    });
    this.files = files;
    this.legend = make("p", "sp-compare-legend",
      make("span", "sp-compare-key slower", t("slower than plain")), make("span", "sp-compare-key same", "1.00×"), make("span", "sp-compare-key faster", t("faster")));
    this.heat.querySelector("h2").after(this.legend);
    this.root.replaceChildren(
      make("div", "sp-compare-head", make("div", "sp-compare-says", this.error, this.status, this.left), make("div", "sp-compare-files", ...files)),
      this.bar, this.heat, this.skipped,
      make("div", "sp-compare-plots", this.curves, this.places), this.table,
    );
  }

  box(title, empty) {
    const body = create("div", { className: "sp-compare-body" });
    return create("section", { className: "sp-compare-box", ariaLabel: title },
      create("h2", {}, title), create("div", { className: "sp-compare-keys" }), body, create("p", { className: "sp-compare-empty" }, empty));
  }

  // A new comparison, named here: returns the name that its messages will carry.
  begin() {
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    this.run = [...bytes].map((b) => b.toString(16).padStart(2, "0")).join("");
    this.version = 0;
    this.setRunning(true);
    this.show({ status: t("Waiting for a free place"), done: 0, left: null, error: "" });
    return this.run;
  }

  setRunning(running) {
    this.running = running;
    this.root.classList.toggle("sp-running", running);
    for (const [id, off] of [["sp-compare-start", running], ["sp-compare-stop", !running]]) {
      const button = document.getElementById(id);
      if (button) button.disabled = off;
    }
  }

  stop() {
    if (!this.running) return;
    this.stopping = this.run;
    this.status.textContent = t("Stopping after this round");
    this.server.compare_stop(this.run);
  }

  // The event is over, with or without its last message.
  ended() {
    if (!this.running) return;
    this.setRunning(false);
    this.show({ status: "", done: this.bar.value, left: null, error: t("The connection to the comparison was lost. What was measured is kept; press Start to begin again.") });
  }

  receive(text) {
    if (!text) return;
    const message = JSON.parse(text);
    this.run ??= message.run; // the tab was built anew while a comparison went on
    if (message.run !== this.run || message.version < this.version) return;
    // Choices that are refused leave what is shown as it is.
    if (message.running && this.shown !== message.run) this.take({ version: 0, results: null });
    if (message.results) this.take(message);
    else if (message.version > this.version) this.ask();
    if (this.stopping !== this.run || !message.running) this.show(message);
    this.setRunning(message.running);
  }

  take({ version, results }) {
    Object.assign(this, { version, results, shown: this.run });
    this.render();
  }

  // Results that were missed.
  async ask() {
    if (this.asking) return;
    this.asking = true;
    try {
      const text = await this.server.compare_latest(this.run);
      const message = text ? JSON.parse(text) : null;
      if (message && message.run === this.run && message.version > this.version) this.take(message);
    } finally {
      this.asking = false;
    }
  }

  show({ status, done, left, error }) {
    write(this.status, status ?? "");
    write(this.left, left === null || left === undefined ? "" : timeLeft(left));
    this.bar.value = done ?? 0;
    this.error.hidden = !error;
    write(this.error, tell(error ?? ""));
  }

  render() {
    const { results } = this;
    const some = Boolean(results?.heat.length); // what will be measured, if nothing was yet
    const measured = Boolean(results?.curves.data.length);
    for (const box of [this.heat, this.table]) box.classList.toggle("sp-filled", some);
    for (const box of [this.curves, this.places]) box.classList.toggle("sp-filled", measured);
    for (const button of this.files) button.disabled = !measured;
    this.heat.querySelector(".sp-compare-body").replaceChildren(...(some ? [this.heatMap(results)] : []));
    this.table.querySelector(".sp-compare-body").replaceChildren(...(some ? [this.rows(results)] : []));
    this.showSkipped(results?.skipped ?? []);
    this.draw();
  }

  nameOf({ strategy, k, verifier }, results) {
    const plain = strategy === "plain";
    const several = new Set(results.rows.filter((r) => r.strategy !== "plain").map((r) => r.verifier)).size > 1;
    const name = plain ? t(results.titles[strategy]) : t("{strategy}, K = {k}", { strategy: t(results.titles[strategy]), k });
    return several && !plain ? `${name} · ${short(results.verifiers[verifier])}` : name;
  }

  heatMap(results) {
    const head = create("tr", {}, create("th", { scope: "col" }, t("strategy")),
      ...results.kinds.map((kind) => create("th", { scope: "col" }, t(kind))), create("th", { scope: "col", className: "sp-compare-all" }, t("all")));
    const body = results.heat.map((row) => create("tr", {},
      create("th", { scope: "row", title: row.assistant ? t("Assistant: {name}", { name: row.assistant }) : "" }, this.nameOf(row, results)),
      ...row.cells.map((cell, i) => heatCell(cell, i === results.kinds.length))));
    return scrolling(t("Speedup by kind of prompt"), create("table", { className: "sp-compare-heat" }, create("thead", {}, head), create("tbody", {}, ...body)));
  }

  rows(results) {
    const head = create("tr", {}, create("th", { scope: "col" }, t("strategy")), create("th", { scope: "col" }, "K"),
      create("th", { scope: "col" }, t("verifier")),
      ...COLUMNS.map(([, name, meaning]) => create("th", { scope: "col", title: t(meaning) }, t(name))), create("th", { scope: "col", title: t("Prompts measured.") }, "n"));
    const body = results.rows.map((row) => {
      const plain = row.strategy === "plain";
      return create("tr", {},
        create("th", { scope: "row", title: row.assistant ? t("Assistant: {name}", { name: row.assistant }) : "" }, t(results.titles[row.strategy])),
        create("td", {}, plain ? "–" : String(row.k)),
        create("td", { className: "sp-compare-word" }, plain ? "–" : short(results.verifiers[row.verifier]), ...(row.lossless || plain ? [] : [create("span", { className: "sp-compare-lossy" }, t("lossy"))])),
        ...COLUMNS.map(([key, , , written]) => estimate(key === "measured_speedup" && plain ? null : row.cells[key], written)),
        create("td", {}, String(row.n)));
    });
    return scrolling(t("Medians over prompts, with 95 % intervals"), create("table", { className: "sp-compare-rows" }, create("thead", {}, head), create("tbody", {}, ...body)));
  }

  showSkipped(list) {
    this.skipped.hidden = !list.length;
    const lines = list.map(([name, reason]) => create("li", {}, create("strong", {}, `${name}:`), ` ${reason}`));
    this.skipped.replaceChildren(create("h2", {}, t("Not measured")), create("ul", {}, ...lines));
  }

  draw() {
    if (!window.Plotly || !this.results?.curves.data.length) return;
    const style = getComputedStyle(this.root);
    this.plot(this.curves, this.results.curves, style, (meta) => this.seriesOf(meta));
    this.plot(this.places, this.results.positions[this.which.value], style, (meta) => t("{strategy}, K = {k}", { strategy: this.seriesOf(meta), k: meta.k }));
  }

  seriesOf({ strategy, verifier }) {
    const { titles, verifiers, curves } = this.results;
    const several = new Set(curves.data.map((trace) => trace.meta.verifier)).size > 1;
    return several ? `${t(titles[strategy])} · ${short(verifiers[verifier])}` : t(titles[strategy]);
  }

  plot(box, figure, style, name) {
    const { data, layout } = structuredClone(figure);
    const colour = (token) => style.getPropertyValue(`--sp-${token}`).trim();
    for (const trace of data) {
      const own = colour(trace.meta.colour);
      trace.name = name(trace.meta);
      trace.line.color = trace.marker.color = own;
      if (trace.error_y) trace.error_y.color = own;
    }
    layout.annotations = data.filter((trace) => trace.meta.best).map((trace) => ({
      text: t("best K = {k}", { k: trace.meta.best }), x: trace.meta.best, y: trace.y[trace.x.indexOf(trace.meta.best)],
      yshift: 16, showarrow: false, font: { color: trace.line.color, size: 11 },
    }));
    layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
    layout.font = { family: style.fontFamily, size: 11, color: colour("muted") };
    layout.hoverlabel = { font: { family: style.fontFamily, size: 11 } };
    for (const axis of [layout.xaxis, layout.yaxis]) {
      axis.gridcolor = axis.linecolor = colour("line");
      axis.title.text = t(axis.title.text);
    }
    for (const shape of layout.shapes ?? []) shape.line.color = colour("strong-line");
    showKeys(box.querySelector(".sp-compare-keys"), data);
    const place = box.querySelector(".sp-compare-body");
    window.Plotly.react(place, data, layout, { displayModeBar: false, responsive: true });
  }

  async save(kind) {
    const text = await this.server.compare_file([this.shown, kind]);
    if (!text) {
      this.show({ status: "", done: this.bar.value, left: null, error: t("The server no longer has this comparison.") });
      return;
    }
    const url = URL.createObjectURL(new Blob([text], { type: kind === "csv" ? "text/csv" : "application/json" }));
    create("a", { href: url, download: `comparison.${kind}` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  }
}

function heatCell(cell, all) {
  if (!cell) return create("td", { className: all ? "sp-compare-all" : "" }, "–");
  const [median, low, high, n] = cell;
  const strength = Math.min(1, Math.abs(Math.log2(median)) / FULL) * STRONGEST;
  const made = create("td", {
    className: `${median < 1 ? "slower" : "faster"}${all ? " sp-compare-all" : ""}`,
    title: t("{low}× to {high}×, {n} prompts", { low: low.toFixed(2), high: high.toFixed(2), n }),
  }, `${median.toFixed(2)}×`);
  made.style.setProperty("--strength", `${strength.toFixed(1)}%`);
  return made;
}

function estimate(cell, written) {
  if (!cell) return create("td", {}, "–");
  const [median, low, high] = cell;
  return create("td", {}, written(median), create("span", { className: "sp-compare-interval" }, `${written(low)} – ${written(high)}`));
}

function scrolling(label, table) {
  return create("div", { className: "sp-compare-scroll", tabIndex: 0, role: "region", ariaLabel: label }, table);
}

function showKeys(place, traces) {
  place.replaceChildren(...traces.map((trace) => {
    const key = create("span", { className: `sp-compare-line ${trace.meta.dash}` }, create("i", {}, SIGNS[trace.meta.symbol]), trace.name);
    key.style.setProperty("--key", `var(--sp-${trace.meta.colour})`);
    return key;
  }));
}

// "Ensemble (lossy)" has its mark beside it already.
const short = (title) => t(title).replace(/ \(.*\)$/, "");

function timeLeft(seconds) {
  if (seconds < 60) return t("about {n} s left", { n: Math.max(1, Math.round(seconds)) });
  return t("about {n} min left", { n: Math.round(seconds / 60) });
}

function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

function create(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// While this tab is open, Ctrl+Enter starts and Esc stops a comparison, not a run.
function listenToKeysOf(compare) {
  window.playgroundCompareKeys?.abort();
  window.playgroundCompareKeys = new AbortController();
  const listen = (event) => {
    if (!compare.root.checkVisibility()) return;
    const pressed = event.key === "Enter" && (event.ctrlKey || event.metaKey) ? "sp-compare-start" : event.key === "Escape" ? "sp-compare-stop" : null;
    if (pressed === null || (pressed === "sp-compare-stop" && !compare.running)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    document.getElementById(pressed)?.click();
  };
  document.addEventListener("keydown", listen, { capture: true, signal: window.playgroundCompareKeys.signal });
}

export function mountCompare(place, { server, watch, value, plotlyUrl }) {
  const root = create("div", { className: "sp-compare" });
  place.replaceChildren(root);
  const compare = new Compare(root, { server, plotlyUrl });
  window.playgroundCompare = compare;
  listenToKeysOf(compare);
  watch("value", () => compare.receive(value()));
  compare.receive(value());
  compare.setRunning(compare.running);
  const whole = () => {
    compare.setRunning(compare.running);
    if (!document.getElementById("sp-compare-stop")) setTimeout(whole, 20);
  };
  whole();
}
