// What the scripts say, in the reader's language: English is the source, looked up by itself. The page's switch puts the
// texts of a language into window.playgroundTexts and then tells the document ("playground:language").

export const words = { language: "en", texts: {} };
const TOLD = ["title", "aria-label", "data-tip", "placeholder"]; // attributes that a person reads or hears
const compiled = new WeakMap(); // of a language's texts: those with a {name}, as patterns

const texts = () => window.playgroundTexts ?? words.texts;

// `text`, which is English, in the page's language, with {name} in it replaced by the values of these names.
export function t(text, values = {}) {
  const spoken = texts()[text] ?? text;
  return spoken.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

// A finished English sentence of the server's: the text that it was made from is found again, with its values.
export function tell(sentence) {
  if (sentence === "" || texts()[sentence] !== undefined) return t(sentence);
  const labelled = /^(.+?) \((\w+)\)( is .*)$/s.exec(sentence);
  if (labelled) {
    const [, label, name, rest] = labelled;
    return tell(name + rest).replace(name, () => `${t(label)} (${name})`);
  }
  for (const { template, names, pattern } of patterns()) {
    const found = pattern.exec(sentence);
    if (found) return t(template, Object.fromEntries(names.map((name, i) => [name, valueOf(found[i + 1])])));
  }
  return sentence;
}

// A value inside a sentence: what is quoted is somebody's own.
const valueOf = (value) => (/^['"“]/.test(value) ? value : tell(value));

// Those with most words of their own first.
function patterns() {
  const all = texts();
  if (!compiled.has(all)) {
    const templates = Object.keys(all).filter((text) => /\{\w+\}/.test(text));
    const own = (text) => text.replace(/\{\w+\}/g, "").length;
    compiled.set(all, templates.sort((a, b) => own(b) - own(a)).map((template) => {
      const parts = template.split(/\{(\w+)\}/);
      const literal = parts.filter((_, i) => i % 2 === 0).map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
      return { template, names: parts.filter((_, i) => i % 2), pattern: new RegExp(`^${literal.join("(.*?)")}$`, "s") };
    }));
  }
  return compiled.get(all);
}

// The texts of a part's own skeleton, before anything else is written into it. The result says them in the page's
// language; what was written over meanwhile is left alone.
export function skeletonOf(root) {
  const places = [];
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT);
  for (let node = walker.currentNode; node; node = walker.nextNode()) {
    if (node.nodeType === Node.TEXT_NODE) places.push(textPlace(node));
    else for (const name of TOLD) if (node.getAttribute(name)) places.push(attributePlace(node, name));
  }
  return () => {
    for (const place of places) {
      if (place.get() !== place.said) continue;
      place.said = place.around(t(place.english));
      if (place.get() !== place.said) place.set(place.said);
    }
  };
}

function textPlace(node) {
  const [, before, english, after] = /^(\s*)(.*?)(\s*)$/s.exec(node.nodeValue);
  return {
    english, said: node.nodeValue, around: (text) => before + text + after,
    get: () => node.nodeValue, set: (text) => { node.nodeValue = text; },
  };
}

function attributePlace(node, name) {
  const english = node.getAttribute(name);
  return {
    english, said: english, around: (text) => text,
    get: () => node.getAttribute(name), set: (text) => node.setAttribute(name, text),
  };
}
