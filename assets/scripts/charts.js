// The plots: plotly figures from their skeletons, filled with the numbers of the messages.
// While a run goes on they take a small, fixed share of the processor; at its end all are drawn.

import { loadPlotly } from "./plotly.js";
import { t, tell } from "./words.js";

const MOST_POINTS = 300; // of a line; more are thinned out to every second
const RECENT_ROUNDS = 14; // of the speculating lane, in the time line
const UNSETTLED_ROUNDS = 5; // whose speedup is noise, and is not drawn once there are more
const QUIET = 15; // pause after a drawing, in multiples of the time that it took
const SHORTEST_PAUSE = 250; // ms

export class Charts {
  constructor(root, skeletons, plotlyUrl) {
    this.root = root;
    this.skeletons = skeletons;
    this.panels = [...root.querySelectorAll(".sp-panel")];
    this.visible = new Set();
    this.dirty = new Set();
    this.timer = null;
    this.titles = [];
    this.reset([]);
    this.speak();
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) this.visible[entry.isIntersecting ? "add" : "delete"](entry.target);
      this.schedule();
    });
    this.panels.forEach((panel) => watcher.observe(panel));
    new MutationObserver(() => this.redraw()).observe(document.body, { attributeFilter: ["class"] });
    this.costs = []; // ms of each drawing
    this.loaded = loadPlotly(plotlyUrl).then(() => this.prepare());
  }

  reset(titles) {
    this.titles = titles;
    this.stride = 1;
    this.seen = 0;
    this.points = [];
    this.last = null;
    this.settledAt = 0; // emitted tokens
    this.ended = new Set();
    this.bars = titles.map(() => []);
    this.clocks = titles.map(() => 0);
    this.message = null;
    this.panels.forEach((panel) => panel.classList.remove("sp-filled"));
    this.redraw();
  }

  take(message) {
    this.message = message;
    for (const point of message.points) {
      if (this.seen % this.stride === 0) this.points.push(point);
      this.last = point;
      if (this.seen === UNSETTLED_ROUNDS) this.settledAt = point[0];
      this.seen += 1;
    }
    if (this.points.length > MOST_POINTS) {
      this.points = this.points.filter((_, i) => i % 2 === 0);
      this.stride *= 2;
    }
    for (const [lane, , , draft, verify] of message.rounds) this.addBars(lane, draft, verify);
    for (const [lane] of message.ended ?? []) this.ended.add(lane);
    this.panels.forEach((panel) => this.dirty.add(panel));
    this.schedule();
  }

  addBars(lane, draft, verify) {
    const start = this.clocks[lane];
    this.bars[lane].push([start, draft, verify]);
    this.clocks[lane] = start + draft + verify;
    // The window of the time line ends with the last lane: what another does afterwards is not in it.
    const last = this.clocks.length - 1;
    if (lane !== last && this.ended.has(last) && start > this.clocks[last]) return;
    if (this.bars[lane].length > 12 * RECENT_ROUNDS) this.bars[lane].splice(0, 6 * RECENT_ROUNDS);
  }

  // The same in the page's language, which has changed.
  speak() {
    this.panels.forEach((panel) => showKeys(panel, this.skeletons[panel.dataset.panel].data));
    this.redraw();
  }

  // The first drawing of a plot costs several times what a later one does: not to be paid during a run.
  async prepare() {
    for (const panel of this.panels) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      this.draw(panel);
    }
  }

  redraw() {
    this.panels.forEach((panel) => this.dirty.add(panel));
    this.schedule();
  }

  schedule() {
    if (this.timer === null && window.Plotly) this.timer = setTimeout(() => this.drawNext(), SHORTEST_PAUSE);
  }

  drawNext() {
    this.timer = null;
    const panel = this.panels.find((p) => this.dirty.has(p) && this.visible.has(p));
    if (!panel) return;
    const begin = performance.now();
    this.draw(panel);
    const cost = performance.now() - begin;
    this.costs.push(cost);
    const pause = Math.max(SHORTEST_PAUSE, QUIET * cost);
    // The panel goes to the end of the row, so that each has its turn.
    this.panels = [...this.panels.filter((p) => p !== panel), panel];
    this.timer = setTimeout(() => this.drawNext(), pause);
  }

  // Everything at once, seen or not: the end of a run.
  async drawAll() {
    await this.loaded;
    this.panels.forEach((panel) => this.draw(panel));
  }

  draw(panel) {
    this.dirty.delete(panel);
    const name = panel.dataset.panel;
    const figure = structuredClone(this.skeletons[name]);
    const filled = this.message !== null && FILL[name](figure, this);
    panel.classList.toggle("sp-filled", filled);
    dress(figure, getComputedStyle(this.root));
    const plot = panel.querySelector(".sp-plot");
    window.Plotly.react(plot, figure.data, figure.layout, { displayModeBar: false, responsive: true });
  }

  series() {
    const points = [...this.points];
    if (this.last && points.at(-1) !== this.last) points.push(this.last);
    return points;
  }
}

// Each puts the numbers into its skeleton, and says whether there were any.
const FILL = {
  acceptance(figure, charts) {
    const points = charts.series();
    for (const [trace, column] of [[0, 1], [1, 2]]) {
      figure.data[trace].x = points.map((p) => p[0]);
      figure.data[trace].y = points.map((p) => (p[column] === null ? null : 100 * p[column]));
    }
    return points.some((p) => p[2] !== null);
  },
  speedup(figure, charts) {
    const points = charts.series().filter((p) => p[0] >= charts.settledAt);
    for (const [trace, column] of [[0, 4], [1, 3]]) {
      figure.data[trace].x = points.map((p) => p[0]);
      figure.data[trace].y = points.map((p) => p[column]);
    }
    const drawn = points.flatMap((p) => [p[3] ?? 0, p[4] ?? 0]);
    figure.layout.yaxis.range = [0, Math.max(1.5, 1.1 * Math.max(0, ...drawn))];
    return points.some((p) => p[3] !== null || p[4] !== null);
  },
  timeline(figure, charts) {
    const main = charts.bars.at(-1) ?? [];
    if (!main.length) return false;
    const from = main.at(-Math.min(RECENT_ROUNDS, main.length))[0];
    const [draft, target] = figure.data;
    for (const trace of [draft, target]) Object.assign(trace, { x: [], y: [], base: [] });
    const rows = shortTitles(charts.titles);
    charts.bars.forEach((bars, lane) => {
      for (const [start, drafting, verifying] of bars) {
        if (start < from) continue;
        if (drafting > 0) put(draft, rows[lane], start, drafting);
        put(target, rows[lane], start + drafting, verifying);
      }
    });
    rowAxis(figure, rows);
    const to = charts.clocks.at(-1);
    figure.layout.xaxis.range = [from, to];
    figure.layout.annotations = rows.flatMap((_, lane) => {
      if (!charts.ended.has(lane) || charts.clocks[lane] > from) return [];
      const text = t("ended at {seconds} s", { seconds: charts.message.clocks[lane][0].toFixed(1) });
      return [{ text, x: (from + to) / 2, y: rows.length - 1 - lane, showarrow: false }];
    });
    return true;
  },
  lengths(figure, charts) {
    const counts = charts.message.lengths;
    Object.assign(figure.data[0], { x: counts.map((_, i) => i), y: counts });
    return counts.length > 0;
  },
  positions(figure, charts) {
    charts.message.positions.forEach((values, trace) => {
      figure.data[trace].x = values.map((_, i) => i + 1);
      figure.data[trace].y = values.map((v) => (v === null ? null : 100 * v));
    });
    return charts.message.positions[0].length > 0;
  },
  time(figure, charts) {
    const rows = shortTitles(charts.titles);
    figure.data.forEach((trace, part) => {
      trace.y = rows;
      trace.x = charts.message.seconds.map((parts) => parts[part]);
    });
    rowAxis(figure, rows);
    return true;
  },
};

// What each colour and line is: beside the title, where it takes no room from the plot.
function showKeys(panel, traces) {
  if (traces.length < 2) return;
  const keys = traces.map((trace) => {
    const key = document.createElement("li");
    key.className = trace.type === "bar" ? "bar" : `line ${trace.line.dash}`;
    key.style.setProperty("--key", `var(--sp-${trace.meta.colour})`);
    key.textContent = t(trace.name);
    return key;
  });
  panel.querySelector(".sp-keys").replaceChildren(...keys);
}

// "Prompt lookup, K = 4" on two short lines.
const shortTitles = (titles) => titles.map((title) => tell(title).split(",")[0].replace(" ", "<br>"));

// The first lane on top; a lane without bars keeps its row.
function rowAxis(figure, rows) {
  const range = [-0.5, rows.length - 0.5];
  Object.assign(figure.layout.yaxis, { categoryarray: rows.toReversed(), categoryorder: "array", range });
}

function put(trace, row, start, length) {
  trace.y.push(row);
  trace.base.push(start);
  trace.x.push(length);
}

// Colours and type from the page's CSS variables, so that light and dark need one figure.
function dress(figure, style) {
  const colour = (name) => style.getPropertyValue(`--sp-${name}`).trim();
  for (const trace of figure.data) {
    trace.name = t(trace.name);
    const own = colour(trace.meta.colour);
    if (trace.type === "bar") trace.marker = { color: own, line: { width: 0.5, color: colour("paper") } };
    else trace.line = { ...trace.line, color: own };
  }
  const { layout } = figure;
  layout.showlegend = false;
  layout.margin = { l: 44, r: 8, t: 8, b: 36 };
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = { family: style.fontFamily, size: 11, color: colour("muted") };
  layout.hoverlabel = { font: { family: style.fontFamily, size: 11 } };
  for (const axis of [layout.xaxis, layout.yaxis]) {
    if (axis.title?.text) axis.title.text = t(axis.title.text);
    axis.gridcolor = axis.linecolor = colour("line");
    axis.automargin = true;
  }
  for (const shape of layout.shapes ?? []) shape.line = { ...shape.line, color: colour("strong-line") };
}

