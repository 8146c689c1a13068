"""The same run as plain transformers code, always in step with the controls."""

from typing import Any

import gradio as gr

from playground.snippet import snippet
from playground.ui.parts import Page


def build(page: Page) -> None:
    """The panel, closed at first."""

    def write(language: str, *values: Any) -> str:
        return snippet(page.form(values), language, page.library.dtype_of)

    with gr.Accordion("As transformers code", open=False, elem_id="sp-code") as panel:
        code = gr.Code(
            write(page.language.value, *(one.value for one in page.inputs)), language="python", interactive=False,
            label="The same run in plain transformers", lines=8, max_lines=40, wrap_lines=True, buttons=["copy"],
            elem_id="sp-snippet",
        )  # fmt: skip
    changes: list[Any] = [one.change for one in (page.language, *page.inputs)]
    gr.on(
        [panel.expand, *changes], write, [page.language, *page.inputs], code, queue=False, trigger_mode="always_last",
        show_progress="hidden", api_visibility="private",
    )  # fmt: skip
