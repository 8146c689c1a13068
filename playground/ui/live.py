"""The live view as a gradio component: one value, a JSON string of what is new; its DOM belongs to the scripts."""

import json
from collections.abc import Callable
from typing import Any

import gradio as gr

from playground.html import live_view
from playground.models import ASSETS
from playground.plots import skeletons

SCRIPTS = ASSETS / "scripts"
VENDOR = ASSETS / "vendor"
PLOTLY = VENDOR / "plotly" / "plotly-basic.min.js"

# Kept small: gradio evaluates the template at every update, and runs this once.
_ON_LOAD = """
const parts = {parts};
const root = (window.gradio_config?.root ?? "").replace(/[/]$/, "");
const file = (path) => new URL(`${{root}}/gradio_api/file=${{path}}`, document.baseURI).href;
import(file(parts.script)).then((module) => module.mount(element, {{
  html: parts.html, skeletons: parts.skeletons, plotlyUrl: file(parts.plotly), server, watch,
  value: () => props.value,
}}));
"""


class LiveView(gr.HTML):
    """Lanes, numbers, plots and the token card. `server_functions` are what its scripts may call."""

    def __init__(self, server_functions: list[Callable[..., Any]], **options: Any) -> None:
        parts = {
            "html": live_view(),
            "skeletons": skeletons(),
            "script": (SCRIPTS / "live.js").as_posix(),
            "plotly": PLOTLY.as_posix(),
        }
        super().__init__(
            value=None,
            html_template="<div></div>",
            js_on_load=_ON_LOAD.format(parts=json.dumps(parts)),
            apply_default_css=False,
            server_functions=server_functions,
            **options,
        )

    def api_info(self) -> dict[str, Any]:
        """A message: one JSON string."""
        return {"type": "string"}


def serve_files() -> None:
    """Let the page read its scripts and the vendored library; nothing else of the folder is served."""
    gr.set_static_paths([SCRIPTS, VENDOR])
