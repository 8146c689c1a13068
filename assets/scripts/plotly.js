// The plotting library, fetched once for all parts of the page.

export function loadPlotly(url) {
  if (window.Plotly) return Promise.resolve(); // another part has it, or an exported page
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = url;
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${url} could not be loaded`));
    document.head.append(script);
  });
}
