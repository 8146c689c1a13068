"""The page: controls on the left, prompt and live view in the middle, and how a run gets from one to the other."""

import json
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from playground.html import heading
from playground.models import ASSETS, Library
from playground.trace import InvalidRequest
from playground.ui import code, compare, history, lessons, prove, reckon, share
from playground.ui.controls import Controls, controls
from playground.ui.form import Form
from playground.ui.language import language_control, speak_everywhere
from playground.ui.live import live_component, serve_files
from playground.ui.parts import Page
from playground.ui.presets import apply_presets, preset_control
from playground.ui.runs import Runs
from playground.ui.theme import CSS_PATHS, theme
from playground.ui.warmup import WarmUp
from playground.view import dump

EXAMPLES = ASSETS / "prompts" / "examples.json"
QUEUE_PAUSE = 0.02  # seconds
MOST_RUNS = 16  # at the server, of which one decodes: the others wait where they can be stopped
TITLE = "Speculative decoding playground"
ICON = ASSETS / "icons" / "icon.png"


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt to try, and the short name on its button."""

    name: str
    prompt: str


def examples() -> list[Example]:
    """The bundled examples."""
    return [Example(**one) for one in json.loads(EXAMPLES.read_text(encoding="utf-8"))]


def build(
    library: Library, defaults: Form | None = None, *, runs: Runs | None = None, warm_up: WarmUp | None = None
) -> gr.Blocks:
    """The page over these models. `defaults` are the controls' first values; a prompt is taken from the examples
    where it has none."""
    serve_files()
    offered = examples()
    start = defaults or Form(prompt="")
    start = start if start.prompt else replace(start, prompt=offered[0].prompt)
    runs = runs or Runs(library)
    warm_up = warm_up or WarmUp(library, start)
    # No gr.Sidebar: its style sheet makes the browser look through the whole page at every token.
    with gr.Blocks(title=TITLE, analytics_enabled=False, fill_width=True) as demo, gr.Row(elem_id="sp-page"):
        with gr.Column(scale=0, min_width=280, elem_id="sp-side"), gr.Accordion("Settings", elem_id="sp-settings"):
            picked = preset_control()
            language = language_control()
            chosen = controls(start, language)
        with gr.Column(scale=1, min_width=300, elem_id="sp-main"):
            _main(library, runs, warm_up, chosen, picked, start, offered, language)
            speak_everywhere(demo, language, picked, chosen.fields)
    # Left to itself the queue wakes a thousand times a second, each time in the way of whoever decodes.
    demo._queue.sleep_when_free = QUEUE_PAUSE
    return demo


def _main(
    library: Library,
    runs: Runs,
    warm_up: WarmUp,
    chosen: Controls,
    picked: gr.Dropdown,
    start: Form,
    offered: list[Example],
    language: gr.Dropdown,
) -> None:
    with gr.Row(elem_id="sp-head"):
        gr.HTML(heading(), apply_default_css=False, elem_id="sp-top")
        language.render()
        link = share.link_button()
    lessons_place = gr.Column(elem_id="sp-lessons-place")
    with gr.Tabs(selected="run", elem_id="sp-tabs") as tabs:
        with gr.Tab("Run", id="run", elem_id="sp-tab-run"):
            prompt, baseline = _run_tab(runs, warm_up, chosen, picked, start, offered, language)
            page = Page(library, runs, chosen, prompt, baseline, language, tabs)
            history.build(page)
            code.build(page)
        for name, title, part in (
            ("compare", "Compare", compare),
            ("reckon", "Reckon", reckon),
            ("prove", "Prove it", prove),
        ):
            with gr.Tab(title, id=name, elem_id=f"sp-tab-{name}"):
                part.build(page)
    with lessons_place:
        lessons.build(page)
    share.build(page, link, Form(prompt=offered[0].prompt))


def _run_tab(
    runs: Runs,
    warm_up: WarmUp,
    chosen: Controls,
    picked: gr.Dropdown,
    start: Form,
    offered: list[Example],
    language: gr.Dropdown,
) -> tuple[gr.Textbox, gr.Checkbox]:
    with gr.Row(elem_id="sp-ask", equal_height=True):
        prompt = gr.Textbox(
            start.prompt, label="Prompt", lines=3, max_lines=3, show_label=False, container=False, scale=1,
            placeholder="Type something for the target to answer", elem_id="sp-prompt",
        )  # fmt: skip
        with gr.Column(scale=0, min_width=120, elem_id="sp-buttons"):
            # Whether they can be pressed is up to the scripts: they know at once that a run begins.
            run = gr.Button("Run", variant="primary", elem_id="sp-run")
            with gr.Row(elem_id="sp-halt"):
                step = gr.Button("Step", elem_id="sp-step", min_width=40)
                stop = gr.Button("Stop", elem_id="sp-stop", min_width=40)
    with gr.Row(elem_id="sp-under"):
        gr.Examples(
            [[e.prompt] for e in offered], [prompt], label="Examples", cache_examples=False,
            example_labels=[e.name for e in offered], elem_id="sp-examples", api_visibility="private",
        )  # fmt: skip
        with gr.Row(elem_id="sp-switches"):
            baseline = gr.Checkbox(
                start.baseline, label="compare with plain decoding", container=False, elem_id="sp-baseline"
            )
            hide = gr.Checkbox(False, label="hide rejected and discarded", container=False, elem_id="sp-hide")
    view = live_component(_server_functions(runs, warm_up), elem_id="sp-view")
    hide.change(None, hide, js="(on) => { window.playground.hide(on); }", api_visibility="private")
    _connect(runs, chosen, prompt, baseline, (run, step, stop), view)
    apply_presets(picked, prompt, chosen, language)
    return prompt, baseline


def _server_functions(runs: Runs, warm_up: WarmUp) -> list[Any]:
    # What the page's scripts call. Gradio hands each one value: what the script passed.
    def backfill(request: list[Any]) -> list[str]:
        return runs.backfill(str(request[0]), int(request[1]))

    def stop_run(run_id: str) -> None:
        runs.stop(run_id)

    def machine_status(_: object) -> dict[str, object]:
        return warm_up.status()

    return [backfill, stop_run, machine_status]


def _connect(
    runs: Runs, chosen: Controls, prompt: Any, baseline: Any, buttons: Sequence[gr.Button], view: gr.HTML
) -> None:
    run, step, stop = buttons
    run_id = gr.Textbox(visible=False)

    def start(name: str, text: str, compare: bool, *values: Any) -> Iterator[str]:
        yield from runs.stream(name, chosen.form(text, compare, values))

    begin = "(...values) => { values[0] = window.playground.begin(); return values; }"
    running = run.click(
        start, [run_id, prompt, baseline, *chosen.inputs], view, js=begin, api_visibility="private",
        show_progress="hidden", concurrency_limit=MOST_RUNS, concurrency_id="run",
    )  # fmt: skip
    running.then(None, js="() => { window.playground.ended(); }", api_visibility="private")
    stop.click(None, js="() => { window.playground.stop(); }", api_visibility="private")
    step.click(None, js="() => { window.playground.step(); }", api_visibility="private")

    def api(
        prompt: str, strategy: str = "assistant", target: str = "", assistant: str = "", k: int = 3,
        temperature: float = 0.0, max_new_tokens: int = 128, seed: int = 0, baseline: bool = True,
        more: dict[str, Any] | None = None,
    ) -> Iterator[str]:  # fmt: skip
        """Run a prompt; yields the page's messages, each a JSON string of what is new.

        `more` holds further fields of the form (top_k, top_p, min_p, repetition_penalty, verifier, stop_strings,
        banned, chat), `settings`, those of the strategy, and `verifier_settings`, those of the verifier.
        """
        named: dict[str, Any] = {name: value for name, value in (("target", target), ("assistant", assistant)) if value}
        fixed = Form(
            prompt=prompt, strategy=strategy, k=k, temperature=temperature, max_new_tokens=max_new_tokens, seed=seed,
            baseline=baseline, **named,
        )  # fmt: skip
        try:
            form = fixed.with_more(more or {})
        except InvalidRequest as error:
            yield dump({"run": "", "seq": 0, "error": str(error), "field": "", "done": True})
            return
        yield from runs.stream(uuid.uuid4().hex, form)

    gr.api(api, api_name="run", concurrency_limit=MOST_RUNS, concurrency_id="run")


def launch_options() -> dict[str, Any]:
    """What `launch` needs for the page to look and work as it should."""
    return {
        "theme": theme(),
        "css_paths": CSS_PATHS,
        "pwa": True,
        "favicon_path": str(ICON),
        "footer_links": ["api"],
        "run_history": False,
        "ssr_mode": False,
        "quiet": True,
        "app_kwargs": {"middleware": [Middleware(share.ShortAddresses)]},
    }
