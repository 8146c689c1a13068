// What the scripts say, in the reader's language: English is the source, looked up by itself.

export const words = { language: "en", texts: {} };

// `text`, which is English, in the page's language, with {name} in it replaced by the values of these names.
export function t(text, values = {}) {
  const spoken = (window.playgroundTexts ?? words.texts)[text] ?? text;
  return spoken.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}
