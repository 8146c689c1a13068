"""A page on tiny models, served for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr

from playground.models import Library
from playground.ui.form import Form
from playground.ui.page import build, launch_options
from playground.ui.runs import Runs


@contextmanager
def served(folders: tuple[Path, Path], **options: Any) -> Iterator[tuple[str, Runs]]:
    """The page's address and its runs. `options` are fields of the Form, and `budget_seconds`."""
    target, assistant = map(str, folders)
    library = Library("float32")
    runs = Runs(library, options.pop("budget_seconds", 60.0))
    values: dict[str, Any] = {
        "prompt": "Once upon a time", "target": target, "assistant": assistant, "max_new_tokens": 48, "chat": False,
    } | options  # fmt: skip
    demo: gr.Blocks = build(library, Form(**values), runs=runs)
    _, url, _ = demo.launch(prevent_thread_lock=True, server_name="127.0.0.1", **launch_options())
    try:
        yield url, runs
    finally:
        demo.close()
