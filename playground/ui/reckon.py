"""The tab Reckon: sliders for alpha, c, v and K, or the numbers of the last run; what theory makes of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.reckon import MOST_K, OWN, STEP, WHAT_IFS, Measured, Setting, measured, what_if
from playground.reckon_figures import OVER_C, OVER_K, round_time, speedup_map, speedup_over_k
from playground.reckon_words import costs_sentence, formulas, sentences, strip
from playground.scripts import bundle, plotly_url
from playground.trace import InvalidRequest
from playground.ui.parts import Page
from playground.view import dump
from playground.words import ENGLISH, say

MODULES = ("words.js", "plotly.js", "reckon.js")
_MOUNT = """
mount(element, { plotlyUrl, watch, value: () => props.value });
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """What was taken from the last run, or why nothing could be."""

    run: Measured | None = None
    problem: str = ""


def build(page: Page) -> None:
    """Fill the tab."""
    start = Setting()
    with gr.Column(elem_id="sp-reckon"):
        with gr.Row(elem_id="sp-reckon-sliders"):
            sliders = _sliders(start)
        with gr.Row(elem_id="sp-reckon-more"):
            take = gr.Button("Take them from my last run", elem_id="sp-reckon-take", scale=0, min_width=210)
            assumed = gr.Dropdown(
                [(one.title, name) for name, one in WHAT_IFS.items()], value=OWN, label="What if it were",
                filterable=False, elem_id="sp-reckon-if", min_width=200,
            )  # fmt: skip
            over = gr.Radio(
                [("alpha and K", OVER_K), ("alpha and c", OVER_C)], value=OVER_K, label="Map over",
                elem_id="sp-reckon-over", min_width=160,
            )  # fmt: skip
        view = gr.HTML(
            value=reckoning(ENGLISH, start),
            html_template="<div></div>",  # small: gradio evaluates it at every update, the script below once
            js_on_load=f"{bundle(MODULES)}\n{plotly_url()}\n{_MOUNT}",
            apply_default_css=False,
            elem_id="sp-reckon-view",
        )
        taken = gr.State(Taken())
    _connect(page, sliders, take, assumed, over, taken, view)


def _sliders(start: Setting) -> list[gr.Slider]:
    common: dict[str, Any] = {"min_width": 150, "buttons": []}
    return [
        gr.Slider(
            0, 1, value=start.alpha, step=STEP["alpha"], label="alpha", info="Chance that a guess passes",
            elem_id="sp-reckon-alpha", **common,
        ),
        gr.Slider(
            0, 1, value=start.c, step=STEP["c"], label="c", info="Cost of a drafted token, in target passes",
            elem_id="sp-reckon-c", **common,
        ),
        gr.Slider(
            0, 1, value=start.v, step=STEP["v"], label="v",
            info="Cost of a wider pass, for each further token", elem_id="sp-reckon-v", **common,
        ),
        gr.Slider(
            1, MOST_K, value=start.k, step=1, label="K", info="Tokens drafted in each round", elem_id="sp-reckon-k",
            **common,
        ),
    ]  # fmt: skip


def _connect(
    page: Page, sliders: list[gr.Slider], take: gr.Button, assumed: gr.Dropdown, over: gr.Radio, taken: gr.State,
    view: gr.HTML,
) -> None:  # fmt: skip
    quiet: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private"}

    def draw(alpha: Any, c: Any, v: Any, k: Any, name: str, wanted: str, got: Taken, language: str) -> str:
        try:
            return reckoning(language, Setting(alpha, c, v, k), got, name, wanted)
        except InvalidRequest as error:
            return dump({"error": str(error)})

    def from_run(run_id: Any, got: Taken, language: str) -> tuple[Any, ...]:
        try:
            run = measured(page.runs.backfill(run_id, 0) if isinstance(run_id, str) else [], language)
        except InvalidRequest as error:
            return Taken(got.run, str(error)), gr.skip(), *[gr.skip()] * len(sliders)
        now = run.setting()
        return Taken(run), OWN, now.alpha, now.c, now.v, now.k

    def costs(name: str, got: Taken) -> tuple[Any, Any]:
        return (gr.skip(), gr.skip()) if name == OWN else what_if(name, got.run)

    inputs = [*sliders, assumed, over, taken, page.language]
    triggers: list[Callable[..., Any]] = [one.change for one in inputs]
    # While a slider is dragged one drawing is on its way and the newest waits.
    gr.on(triggers, draw, inputs, view, trigger_mode="always_last", **quiet)
    last_run = gr.Textbox(visible=False)
    take.click(
        from_run, [last_run, taken, page.language], [taken, assumed, *sliders],
        js="(_, ...rest) => [window.playground?.run ?? null, ...rest]", **quiet,
    )  # fmt: skip
    _, c, v, _ = sliders
    assumed.input(costs, [assumed, taken], [c, v], **quiet)
    gr.on([c.input, v.input], lambda: OWN, None, assumed, **quiet)


def reckoning(language: str, now: Setting, got: Taken | None = None, name: str = OWN, over: str = OVER_K) -> str:
    """All that the tab shows of these numbers, as one JSON string."""
    got = got or Taken()
    run = got.run
    said = sentences(language, now, run)
    best, chosen, even, *_ = said
    figures = (
        (say(language, "Speedup against K"), speedup_over_k(language, now, run), best),
        (say(language, "Where it pays"), speedup_map(language, now, run, over), even),
        (say(language, "The time of a round"), round_time(language, now, run), chosen),
    )
    return dump(
        {
            "problem": got.problem,
            "costs": costs_sentence(language, name, now, run),
            "strip": strip(language, now, run),
            "figures": [{"title": title, "alt": alt, **figure} for title, figure, alt in figures],
            "said": {"title": say(language, "What this says"), "lines": said},
            "formulas": {
                "title": say(language, "Formulas and their sources"),
                "head": [
                    say(language, "What"), say(language, "Formula"), say(language, "Here"), say(language, "Source"),
                ],
                "rows": formulas(language, now, run),
            },
        }
    )  # fmt: skip
