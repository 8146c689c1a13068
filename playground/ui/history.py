"""The runs of the session: listed, saved, exported, opened. The list and the texts are the page's; here a text is
checked, made of a run that the server still has, or made a page."""

import json
from typing import Any

import gradio as gr

from playground.export import export_page
from playground.opening import MOST_BYTES, opened
from playground.packing import packed, unpacked
from playground.replay import replay_of
from playground.scripts import bundle
from playground.trace import InvalidRequest, InvalidTrace
from playground.ui.parts import Page
from playground.ui.runs import Runs
from playground.view import dump
from playground.words import ENGLISH

MODULES = ("words.js", "text.js", "packed.js", "history.js")
NOT_KEPT = "The server no longer has this run: run it again to save it."

_MOUNT = "mount(element, { ...PARTS, server });"


def build(page: Page) -> None:
    """The panel under the live view."""
    parts = {"html": panel(), "mostBytes": MOST_BYTES}

    def recorded_run(run_id: object) -> dict[str, str]:
        return recorded(page.runs, run_id)

    gr.HTML(
        value=None,
        html_template="<div></div>",
        js_on_load=f"{bundle(MODULES)}\nconst PARTS = {json.dumps(parts)};\n{_MOUNT}",
        apply_default_css=False,
        server_functions=[recorded_run, opened_run, exported_page],
        elem_id="sp-history",
    )


def panel() -> str:
    """The panel before any run."""
    return (
        '<header><h2>Runs of this session</h2><p class="sp-history-note" role="status"></p>'
        '<button type="button" class="sp-history-save" disabled>Save trace</button>'
        '<button type="button" class="sp-history-export" disabled>Export page</button>'
        '<button type="button" class="sp-history-open">Open trace</button>'
        '<input type="file" class="sp-history-file" accept=".json,application/json" aria-label="Trace file" hidden>'
        '</header><p class="sp-history-error" role="alert" hidden></p>'
        '<p class="sp-history-empty">Runs that have ended are listed here, to be shown again, saved as a JSON trace or '
        "exported as a page that replays offline. A saved trace opens with the button, or dropped on the page.</p>"
        '<ol class="sp-history-list" aria-label="Runs of this session"></ol>'
    )


def recorded(runs: Runs, run_id: object) -> dict[str, str]:
    """`packed`: the text of a run that has ended; or `error`."""
    run = runs.find(run_id) if isinstance(run_id, str) else None
    if run is None or run.record is None:
        return {"error": NOT_KEPT}
    try:
        return {"packed": packed(run.record.recorded(run.text_of).to_json())}
    except InvalidRequest as error:
        return {"error": str(error)}


def opened_run(text: object) -> dict[str, str]:
    """`replay`: what the page shows of a packed trace, packed; or `error`."""
    try:
        return {"replay": packed(dump(replay_of(opened(unpacked(text)))))}
    except InvalidTrace as error:
        return {"error": str(error)}


def exported_page(request: Any) -> dict[str, str]:
    """`page`: the HTML file of [packed trace, language], packed; or `error`."""
    if not (isinstance(request, list) and len(request) == 2):
        return {"error": "The page sent no trace."}
    text, language = request
    try:
        return {"page": packed(export_page(opened(unpacked(text)), language if isinstance(language, str) else ENGLISH))}
    except InvalidTrace as error:
        return {"error": str(error)}
