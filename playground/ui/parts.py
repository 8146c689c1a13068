"""What a tab of the page may use of the others: the models, the runs, and what the controls say."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from playground.models import Library
from playground.ui.controls import Controls
from playground.ui.form import Form
from playground.ui.runs import Runs


@dataclass(frozen=True, slots=True)
class Page:
    """The parts that tabs share. `language` is a component that holds the code of the page's language, `tabs` the row
    of tabs."""

    library: Library
    runs: Runs
    controls: Controls
    prompt: gr.Textbox
    baseline: gr.Checkbox
    language: gr.components.Component
    tabs: gr.Tabs

    @property
    def inputs(self) -> list[gr.components.Component]:
        """Everything that decides a run, in the order that `form` expects the values in."""
        return [self.prompt, self.baseline, *self.controls.inputs]

    def form(self, values: Sequence[Any]) -> Form:
        """The Form that the values of `inputs` make."""
        prompt, baseline, *rest = values
        return self.controls.form(prompt, baseline, rest)

    def values(self, form: Form) -> list[Any]:
        """What `inputs` are to hold for `form`."""
        return [form.prompt, form.baseline, *self.controls.values(form)]
