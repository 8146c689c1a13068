"""The live view as a gradio component: one value, a JSON string of what is new; its DOM belongs to the scripts."""

import json
from collections.abc import Callable
from typing import Any

import gradio as gr

from playground.html import live_view
from playground.plots import skeletons
from playground.scripts import VENDOR, bundle, plotly_url

_MOUNT = """
mount(element, { ...PARTS, plotlyUrl, server, watch, value: () => props.value });
"""


def live_component(server_functions: list[Callable[..., Any]], **options: Any) -> gr.HTML:
    """Lanes, numbers, plots and the token card. `server_functions` are what its scripts may call.

    No subclass: gradio would write a stub file beside this one.
    """
    parts = {"html": live_view(), "skeletons": skeletons()}
    return gr.HTML(
        value=None,
        html_template="<div></div>",  # small: gradio evaluates it at every update, the script below once
        js_on_load=f"{bundle()}\n{plotly_url()}\nconst PARTS = {json.dumps(parts)};\n{_MOUNT}",
        apply_default_css=False,
        server_functions=server_functions,
        **options,
    )


def serve_files() -> None:
    """Let the page read the vendored library; nothing else of the folder is served."""
    gr.set_static_paths([VENDOR])
