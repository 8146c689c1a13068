"""The tab Compare: what to measure on which prompts, and the view of what came out."""

from collections.abc import Iterator, Sequence
from typing import Any

import gradio as gr

from playground.compare_prompts import ALL_KINDS, FILE, KINDS, OPENINGS, PASTED
from playground.sampling import VERIFIERS
from playground.scripts import bundle, plotly_url
from playground.trace import InvalidRequest
from playground.ui.comparisons import MOST_NEW_TOKENS, Choices, Comparisons, FormOf
from playground.ui.form import Form
from playground.ui.parts import Page
from playground.view import dump
from strategies import STRATEGIES

SETS = [
    ("All eight kinds", ALL_KINDS),
    *((kind[0].upper() + kind[1:], kind) for kind in KINDS),
    ("Story openings (for a story teller)", OPENINGS),
    ("Your own, pasted", PASTED),
    ("Your own, from a file", FILE),
]
MOST_AT_ONCE = 8
FIXED = 2  # of page.inputs: the prompt and the baseline, which a comparison has of its own

_MOUNT = """
mountCompare(element, { plotlyUrl, server, watch, value: () => props.value });
"""


def build(page: Page) -> None:
    """Fill the tab."""
    comparisons = Comparisons(page.library, page.runs)
    with gr.Row(elem_id="sp-compare-controls"):
        with gr.Column(min_width=200, scale=3):
            strategies = gr.CheckboxGroup(
                [(s.title, s.name) for s in STRATEGIES.values() if s.drafts], value=["assistant", "prompt-lookup"],
                label="Strategies", info="Plain decoding runs along with them.", elem_id="sp-compare-strategies",
            )  # fmt: skip
        with gr.Column(min_width=200, scale=3):
            verifiers = gr.CheckboxGroup(
                [(v.title, name) for name, v in VERIFIERS.items()], value=["exact"], label="Verifiers",
                info="A lossy one does not write what the target would.", elem_id="sp-compare-verifiers",
            )  # fmt: skip
        with gr.Column(min_width=200, scale=3, elem_id="sp-compare-set"):
            prompt_set = gr.Dropdown(
                SETS, value=ALL_KINDS, label="Prompt set", filterable=False, elem_id="sp-compare-prompts"
            )
            with gr.Row(elem_id="sp-compare-sizes"):
                ks = gr.Textbox(
                    "1, 3, 6", label="K", max_lines=1, min_width=60, placeholder="1-6 or 2, 4, 8",
                    elem_id="sp-compare-k",
                )  # fmt: skip
                per_kind = gr.Number(
                    1, label="Prompts per kind", minimum=1, precision=None, min_width=60, elem_id="sp-compare-per-kind"
                )
            new_tokens = gr.Slider(
                8, MOST_NEW_TOKENS, value=64, step=8, label="New tokens, at most", elem_id="sp-compare-tokens"
            )
    pasted = gr.Textbox(
        label="Your prompts", lines=4, max_lines=8, visible=False, elem_id="sp-compare-pasted",
        info='One a line. Or one object a line: {"kind": "chat", "prompt": "Hello"}.',
    )  # fmt: skip
    file = gr.File(
        label="Your file: text, 1 MB at most, one prompt a line or one object a line", visible=False, height=110,
        elem_id="sp-compare-file",
    )  # fmt: skip
    with gr.Row(elem_id="sp-compare-buttons"):
        start = gr.Button("Start", variant="primary", min_width=100, scale=0, elem_id="sp-compare-start")
        stop = gr.Button("Stop", min_width=100, scale=0, elem_id="sp-compare-stop")
        view = _view(comparisons)
    prompt_set.change(
        lambda chosen: [gr.update(visible=chosen == PASTED), gr.update(visible=chosen == FILE)], prompt_set,
        [pasted, file], queue=False, api_visibility="private", show_progress="hidden",
    )  # fmt: skip
    _connect(
        page, comparisons, (start, stop), view,
        [strategies, ks, verifiers, prompt_set, pasted, file, per_kind, new_tokens],
    )  # fmt: skip


def _view(comparisons: Comparisons) -> gr.HTML:
    """Progress, table, heat map and plots. What its script calls: the latest results, a file, Stop."""

    def compare_latest(name: str) -> str:
        session = comparisons.find(name)
        return "" if session is None else session.last

    def compare_file(asked: list[Any]) -> str:
        session = comparisons.find(asked[0])
        if session is None:
            return ""
        return session.exported().to_csv() if asked[1] == "csv" else session.exported().to_json()

    def compare_stop(name: str) -> None:
        comparisons.stop(name)

    return gr.HTML(
        value=None,
        html_template="<div></div>",
        js_on_load=f"{bundle(('words.js', 'plotly.js', 'compare.js'))}\n{plotly_url()}\n{_MOUNT}",
        apply_default_css=False,
        server_functions=[compare_latest, compare_file, compare_stop],
        elem_id="sp-compare-view",
    )


def _connect(
    page: Page, comparisons: Comparisons, buttons: Sequence[gr.Button], view: gr.HTML, chosen: list[Any]
) -> None:
    start, stop = buttons
    name = gr.Textbox(visible=False)
    count = len(chosen)

    def begin(run: str, language: str, *values: Any) -> Iterator[str]:
        try:
            yield from comparisons.stream(run, language, Choices(*values[:count]), form_of(page, values[count:]))
        except InvalidRequest as error:  # its name was used before
            yield dump({"run": run, "version": 0, "running": False, "error": str(error)})

    named = "(...values) => { values[0] = window.playgroundCompare.begin(); return values; }"
    running = start.click(
        begin, [name, page.language, *chosen, *page.inputs], view, js=named, api_visibility="private",
        show_progress="hidden", concurrency_limit=MOST_AT_ONCE, concurrency_id="compare",
    )  # fmt: skip
    running.then(None, js="() => { window.playgroundCompare.ended(); }", api_visibility="private")
    stop.click(None, js="() => { window.playgroundCompare.stop(); }", api_visibility="private")


def form_of(page: Page, values: Sequence[Any]) -> FormOf:
    """The form that the controls on the left make, whose values these are, with another strategy or verifier chosen."""
    fields = list(page.controls.fields)
    places = {name: FIXED + fields.index(name) for name in ("strategy", "verifier")}

    def make(strategy: str | None, verifier: str | None) -> Form:
        changed = list(values)
        for name, value in (("strategy", strategy), ("verifier", verifier)):
            if value is not None:
                changed[places[name]] = value
        return page.form(changed)

    return make
