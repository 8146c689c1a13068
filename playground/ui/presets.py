"""The presets on the page: a choice that sets all controls and the prompt, and says when such a run wins."""

from typing import Any

import gradio as gr

from playground.presets import PRESETS, Preset
from playground.sampling import verifier_settings
from playground.ui.controls import Controls
from playground.ui.form import Form
from playground.words import ENGLISH, say
from strategies import strategy

ABOUT = "Sets everything below, and a prompt that suits it."


def preset_control() -> gr.Dropdown:
    """The choice, empty at first."""
    return gr.Dropdown(
        preset_choices(ENGLISH), value=None, label="Preset", info=ABOUT, filterable=False, elem_id="sp-preset",
    )  # fmt: skip


def preset_choices(language: str) -> list[tuple[str, str]]:
    """Every preset's title, with its name."""
    return [(_title(language, p), p.name) for p in PRESETS.values()]


def preset_info(language: str, name: str | None) -> str:
    """When the chosen preset wins; where none is chosen, what a choice does."""
    return say(language, PRESETS[name].when if name in PRESETS else ABOUT)


def apply_presets(picked: gr.Dropdown, prompt: gr.Textbox, controls: Controls, language: gr.Dropdown) -> None:
    """Let a choice set the controls and the prompt."""

    def apply(name: str | None, code: str) -> list[Any]:
        if name is None:
            return [gr.skip()] * (2 + len(controls.inputs))
        form = form_of(PRESETS[name])
        return [gr.update(info=preset_info(code, name)), form.prompt, *controls.values(form)]

    picked.input(
        apply, [picked, language], [picked, prompt, *controls.inputs], queue=False, api_visibility="private",
        show_progress="hidden",
    )  # fmt: skip


def form_of(preset: Preset) -> Form:
    """The controls' values for a preset."""
    settled: dict[str, Any] = {
        "settings": dict(strategy(preset.strategy).settled(preset.settings)),
        "verifier_settings": dict(verifier_settings(preset.verifier, preset.verifier_settings)),
    }
    return Form(
        prompt=preset.prompt,
        target=preset.target,
        strategy=preset.strategy,
        assistant=preset.assistant,
        k=preset.k,
        temperature=preset.temperature,
        max_new_tokens=preset.max_new_tokens,
        verifier=preset.verifier,
        **settled,
    )


def _title(language: str, preset: Preset) -> str:
    title = say(language, preset.title)
    if preset.bundled:
        return title
    return say(language, "{title} (from the Hub, needs {memory})", title=title, memory=preset.memory)
