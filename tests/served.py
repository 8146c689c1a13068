"""A page on tiny models, served for a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gradio as gr
import torch
from fakes import byte_tokenizer, tiny_llama

from playground.models import Library
from playground.ui.form import Form
from playground.ui.page import build, launch_options
from playground.ui.runs import Runs

Folders = tuple[Path | str, Path | str]


def endless_pair(root: Path, noise: float = 0.03) -> tuple[Path, Path]:
    """A tiny target that never stops by itself, and an assistant that often agrees with it: the same weights with
    noise on them."""
    target, assistant = root / "target", root / "assistant"
    for folder, strength in ((target, 0.0), (assistant, noise)):
        model = tiny_llama(seed=0, eos=None)
        torch.manual_seed(1)
        with torch.no_grad():
            for weight in model.parameters():
                weight += strength * torch.randn_like(weight)
        model.save_pretrained(folder)
        byte_tokenizer().save_pretrained(folder)
    return target, assistant


@contextmanager
def served(folders: Folders, **options: Any) -> Iterator[tuple[str, Runs]]:
    """The page's address and its runs. `options` are fields of the Form, and `budget_seconds`."""
    target, assistant = map(str, folders)
    library = Library(options.pop("dtype", "float32"))
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
