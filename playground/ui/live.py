"""The live view as a gradio component: one value, a JSON string of what is new; its DOM belongs to the scripts."""

import json
from collections.abc import Callable
from typing import Any

import gradio as gr

from playground.html import live_view
from playground.plots import skeletons
from playground.scripts import PLOTLY as PLOTLY  # for whoever else shows plots
from playground.scripts import SCRIPTS as SCRIPTS
from playground.scripts import VENDOR
from playground.scripts import bundle as bundle

_MOUNT = """
const root = (window.gradio_config?.root ?? "").replace(/[/]$/, "");
const plotlyUrl = new URL(`${root}/gradio_api/file=${PARTS.plotly}`, document.baseURI).href;
mount(element, { ...PARTS, plotlyUrl, server, watch, value: () => props.value });
"""


def live_component(server_functions: list[Callable[..., Any]], **options: Any) -> gr.HTML:
    """Lanes, numbers, plots and the token card. `server_functions` are what its scripts may call.

    No subclass: gradio would write a stub file beside this one.
    """
    plotly = f"{PLOTLY.as_posix()}?v={PLOTLY.stat().st_size}"
    parts = {"html": live_view(), "skeletons": skeletons(), "plotly": plotly}
    return gr.HTML(
        value=None,
        html_template="<div></div>",  # small: gradio evaluates it at every update, the script below once
        js_on_load=f"{bundle()}\nconst PARTS = {json.dumps(parts)};\n{_MOUNT}",
        apply_default_css=False,
        server_functions=server_functions,
        **options,
    )


def serve_files() -> None:
    """Let the page read the vendored library; nothing else of the folder is served."""
    gr.set_static_paths([VENDOR])
