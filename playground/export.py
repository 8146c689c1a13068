"""A recorded run as one HTML file that replays it: no server, no network, no model, a double-click.

The file holds the live view's own scripts and style, plotly, and the run's steps. Whatever a run says reaches the page
as text: packed (no `<` in it) and set by the scripts as text, or escaped here. The file's own policy lets it load
nothing from anywhere.
"""

import json
import re
from html import escape

from playground.html import live_view
from playground.packing import packed
from playground.plots import skeletons
from playground.recorded import RecordedRun
from playground.replay import replay_of
from playground.scripts import ASSETS, MODULES, PLOTLY, bundle
from playground.view import dump
from playground.words import ENGLISH, dictionary

STYLES = ("tokens.css", "live.css", "export.css")
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
LONGEST_TITLE = 80

# First of all, so that nothing is drawn in the colours of the other half of the day.
_SHADE = """
const dark = matchMedia("(prefers-color-scheme: dark)");
const shade = () => document.body.classList.toggle("dark", dark.matches);
dark.addEventListener("change", shade);
shade();
"""

_MOUNT = """
(async () => {
  const read = (id) => document.getElementById(id).textContent;
  window.playgroundTexts = JSON.parse(read("sp-texts"));
  mount(document.getElementById("sp-replay"), { ...JSON.parse(read("sp-parts")), watch: () => {}, value: () => null });
  document.dispatchEvent(new CustomEvent("playground:language"));
  window.playground.replay(JSON.parse(await unpack(read("sp-run"))));
})();
"""


def export_page(run: RecordedRun, language: str = ENGLISH) -> str:
    """The file's text; its scripts speak `language`, where there is a dictionary of it."""
    last = run.lanes[-1]
    request = last.trace.request
    prompt = " ".join(request.prompt.split()) or last.title
    title = prompt if len(prompt) <= LONGEST_TITLE else f"{prompt[: LONGEST_TITLE - 1]}…"
    models = " · ".join(filter(None, (request.target, request.assistant)))
    when = run.created[:10] if run.created else ""
    about = " · ".join(filter(None, (last.title, models, when)))
    style = "\n".join((ASSETS / "style" / name).read_text(encoding="utf-8") for name in STYLES)
    script = f"(() => {{\n{bundle((*MODULES, 'packed.js'))}\n{_MOUNT}}})();"
    parts = {"html": live_view(), "skeletons": skeletons(), "plotlyUrl": None, "server": None}
    return f"""<!doctype html>
<html lang="{escape(language)}">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<script>{_SHADE}</script>
<header><h1>{escape(title)}</h1><p>{escape(about)}</p></header>
<main id="sp-replay"></main>
<script>{_in_script(PLOTLY.read_text(encoding="utf-8"))}</script>
<script type="application/json" id="sp-texts">{_data(json.dumps(dictionary(language)))}</script>
<script type="application/json" id="sp-parts">{_data(json.dumps(parts))}</script>
<script type="text/plain" id="sp-run">{packed(dump(replay_of(run)), level=9)}</script>
<script>{_in_script(script)}</script>
</body>
</html>
"""


def _data(text: str) -> str:
    """JSON that ends no script and breaks no line of one."""
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _in_script(text: str) -> str:
    """A script of our own that holds no tag which ends it or opens another: such stand in its strings alone."""
    return re.sub(r"<(?=/?script|!--)", r"\\x3c", text, flags=re.IGNORECASE)
