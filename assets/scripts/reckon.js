// The tab Reckon: puts what the server reckoned into the page. All numbers and texts come with the value; this script
// knows the figures' colours and where things stand.

import { loadPlotly } from "./plotly.js";
import { t, tell } from "./words.js";

const PAPER = "https://arxiv.org/abs/2211.17192";
const WIDTHS = [860, 700, 420]; // px of the tab, below which things stand in fewer columns
const KEYS = [
  // of the figures, in their order: look of the key, colour
  [["line", "ink"], ["line", "muted"], ["star", "accepted"], ["ring", "ink"], ["diamond", "bonus"]],
  [["cell", "bonus"], ["cell", "rejected"], ["dashed", "ink"], ["ring", "ink"], ["diamond", "ink"]],
  [["cell", "draft"], ["cell", "target"], ["cell", "sampling"]],
];
const names = () => [
  [t("your alpha"), t("alpha ± 0.1"), t("best K"), t("your sliders"), t("your run, measured")],
  [t("faster"), t("slower"), t("as fast: 1×"), t("your sliders"), t("your run, measured")],
  [t("draft"), t("target pass"), t("sampling")],
];

class Reckoning {
  constructor(root, plotlyUrl) {
    this.root = root;
    this.found = (selector) => root.querySelector(selector);
    this.plots = [...root.querySelectorAll(".sp-plot")];
    this.value = null;
    new MutationObserver(() => this.draw()).observe(document.body, { attributeFilter: ["class"] });
    this.loaded = loadPlotly(plotlyUrl);
    this.loaded.then(() => this.draw());
  }

  receive(text) {
    if (!text) return;
    const value = JSON.parse(text);
    const problem = value.error ?? value.problem;
    put(this.found(".sp-reckon-error"), problem && tell(problem));
    this.root.classList.toggle("sp-wrong-value", Boolean(value.error));
    if (value.error) return; // what is drawn stays
    this.value = value;
    put(this.found(".sp-reckon-costs"), value.costs);
    this.showStrip(value.strip);
    this.found(".sp-reckon-said h3").textContent = value.said.title;
    this.found(".sp-reckon-said ul").replaceChildren(...value.said.lines.map((line) => made("li", line)));
    this.showFormulas(value.formulas);
    names().forEach((row, i) => this.showKeys(i, row));
    this.draw();
  }

  showStrip(cells) {
    const strip = this.found(".sp-strip");
    while (strip.children.length < cells.length) {
      const cell = made("div", "", "sp-number");
      const label = made("dt", "");
      label.append(made("span", "", "sp-name"), " ", made("span", "", "sp-kind"));
      cell.append(made("dd", ""), label);
      cell.tabIndex = 0;
      strip.append(cell);
    }
    cells.forEach(({ value, name, kind, tip }, i) => {
      const cell = strip.children[i];
      cell.dataset.tip = tip;
      put(cell.querySelector("dd"), value);
      put(cell.querySelector(".sp-name"), name);
      put(cell.querySelector(".sp-kind"), kind);
    });
  }

  showFormulas({ title, head, rows }) {
    this.found(".sp-reckon-formulas caption").textContent = title;
    this.found(".sp-reckon-formulas").setAttribute("aria-label", title);
    const line = made("tr", "");
    for (const one of head) {
      const cell = made("th", one);
      cell.scope = "col";
      line.append(cell);
    }
    this.found(".sp-reckon-formulas thead").replaceChildren(line);
    this.found(".sp-reckon-formulas tbody").replaceChildren(...rows.map(formulaRow));
  }

  showKeys(i, texts) {
    const keys = texts.map((text, j) => {
      const [look, colour] = KEYS[i][j];
      const key = made("li", text, `sp-key-${look}`);
      key.style.setProperty("--key", `var(--sp-${colour})`);
      return key;
    });
    this.plots[i].parentElement.querySelector(".sp-keys").replaceChildren(...keys);
  }

  draw() {
    if (!this.value || !window.Plotly) return;
    const style = getComputedStyle(this.root);
    this.value.figures.forEach(({ title, alt, data, layout }, i) => {
      const plot = this.plots[i];
      put(plot.parentElement.querySelector("figcaption"), title);
      const figure = structuredClone({ data, layout });
      dress(figure, style);
      plot.setAttribute("aria-label", `${title}: ${alt}`);
      window.Plotly.react(plot, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    });
    this.root.classList.add("sp-drawn");
  }
}

function formulaRow({ name, formula, value, source }) {
  const row = made("tr", "");
  const head = made("th", name);
  head.scope = "row";
  const written = made("td", "", "sp-formula");
  formula.split(/\^\(([^)]*)\)/).forEach((part, i) => written.append(i % 2 ? made("sup", part) : part));
  row.append(head, written, made("td", value, "sp-value"), made("td", source));
  return row;
}

// Colours and type from the page's CSS variables, so that light and dark need one figure.
function dress({ data, layout }, style) {
  const colour = (name) => style.getPropertyValue(`--sp-${name}`).trim();
  const font = { family: style.fontFamily, size: 11, color: colour("muted") };
  for (const trace of data) {
    const own = colour(trace.meta.colour);
    if (trace.meta.below) {
      trace.marker.colorscale = scale(own, colour(trace.meta.below), colour("paper"));
      trace.marker.colorbar.tickfont = font;
    } else if (trace.type === "bar") {
      trace.marker = { color: own, line: { width: 0.5, color: colour("paper") } };
    } else if (trace.mode === "lines") {
      trace.line = { ...trace.line, color: own };
    } else {
      const edge = trace.marker.symbol.endsWith("-open") ? own : colour("paper");
      trace.marker = { ...trace.marker, color: own, line: { ...trace.marker.line, color: edge } };
    }
  }
  layout.margin = { l: 44, r: 8, t: 8, b: 36 };
  layout.paper_bgcolor = layout.plot_bgcolor = "rgba(0,0,0,0)";
  layout.font = font;
  layout.hoverlabel = { font: { family: style.fontFamily, size: 11 } };
  for (const axis of [layout.xaxis, layout.yaxis]) {
    axis.gridcolor = axis.linecolor = colour("line");
    axis.automargin = true;
  }
  for (const shape of layout.shapes ?? []) {
    shape.fillcolor = colour(shape.name);
    shape.line = { ...shape.line, color: colour(shape.name) };
  }
  for (const note of layout.annotations ?? []) {
    note.font = { ...font, color: colour(note.name) };
    if (note.bgcolor) note.bgcolor = colour(note.bgcolor);
  }
}

// From half as fast to eight times: one hue below 1, which lies at a quarter, and another above.
function scale(above, below, paper) {
  return [
    [0, mix(below, paper, 0.9)],
    [0.25, mix(below, paper, 0.45)],
    [0.25, mix(above, paper, 0.08)],
    [1, above],
  ];
}

function mix(a, b, share) {
  const [x, y] = [a, b].map((text) => [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16)));
  return `rgb(${x.map((value, i) => Math.round(share * value + (1 - share) * y[i])).join(",")})`;
}

function made(tag, text, name = "") {
  const one = document.createElement(tag);
  one.textContent = text;
  if (name) one.className = name;
  return one;
}

function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const panel = (name) =>
  `<figure class="sp-panel sp-filled" data-panel="${name}"><figcaption></figcaption><ul class="sp-keys"></ul>` +
  '<div class="sp-plot" role="img"></div></figure>';

export function mount(element, { plotlyUrl, watch, value }) {
  const root = document.createElement("div");
  root.className = "sp-live sp-reckoning";
  // The page's own skeleton: what the value says is put into it as text.
  root.innerHTML =
    '<p class="sp-reckon-line" role="status"><span class="sp-reckon-error"></span> <span class="sp-reckon-costs"></span></p>' +
    `<dl class="sp-strip"></dl><div class="sp-plots">${["over-k", "map", "time"].map(panel).join("")}` +
    '<section class="sp-reckon-said"><h3></h3><ul></ul></section></div>' +
    '<div class="sp-reckon-formulas" role="region" tabindex="0"><table><caption></caption><thead></thead><tbody></tbody></table>' +
    `<p><a href="${PAPER}" target="_blank" rel="noopener">` +
    "Leviathan, Kalman, Matias 2023: Fast Inference from Transformers via Speculative Decoding, arXiv 2211.17192</a></p></div>";
  element.replaceChildren(root);
  const fit = () => WIDTHS.forEach((px) => root.classList.toggle(`sp-below-${px}`, root.clientWidth < px));
  new ResizeObserver(fit).observe(root);
  fit();
  const view = new Reckoning(root, plotlyUrl);
  watch("value", () => view.receive(value()));
  view.receive(value());
}
