"""The controls on the left: one for every field of the Form, those of the strategies straight from the registry."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import gradio as gr

from playground.catalogue import usual_assistant
from playground.models import CATALOGUE, DEFAULT_TARGET, layer_count
from playground.sampling import VERIFIERS
from playground.trace import MAX_K
from playground.ui.form import LABELS, Form
from playground.words import ENGLISH, say
from strategies import STRATEGIES, Choice, strategy


@dataclass(frozen=True, slots=True)
class Controls:
    """The components by the Form's field, those of the strategies by (strategy, setting), those of the verifiers by
    (verifier, setting)."""

    fields: dict[str, gr.components.Component]
    settings: dict[tuple[str, str], gr.components.Component]
    verifier_settings: dict[tuple[str, str], gr.components.Component]

    @property
    def inputs(self) -> list[gr.components.Component]:
        """All of them, in the order that `form` expects their values in."""
        return [*self.fields.values(), *self.settings.values(), *self.verifier_settings.values()]

    def values(self, form: Form) -> list[Any]:
        """What `inputs` are to hold for `form`; settings of other strategies and verifiers stay as they are."""
        fixed = [getattr(form, name) for name in self.fields]
        settings = [_held(form.strategy, form.settings, key) for key in self.settings]
        return [
            *fixed,
            *settings,
            *(_held(form.verifier, form.verifier_settings, key) for key in self.verifier_settings),
        ]

    def form(self, prompt: str, baseline: bool, values: Sequence[Any]) -> Form:
        """The Form that these values make, with the settings of the chosen strategy and verifier only."""
        fields = dict(zip(self.fields, values, strict=False))
        rest = values[len(self.fields) :]
        settings = _of(fields["strategy"], self.settings, rest[: len(self.settings)])
        rule = _of(fields["verifier"], self.verifier_settings, rest[len(self.settings) :])
        return Form(prompt=prompt, baseline=baseline, settings=settings, verifier_settings=rule, **fields)


def _held(chosen: str, values: Mapping[str, object], key: tuple[str, str]) -> Any:
    owner, name = key
    return values[name] if owner == chosen and name in values else gr.skip()


def _of(
    chosen: str, settings: dict[tuple[str, str], gr.components.Component], values: Sequence[Any]
) -> dict[str, object]:
    named = zip(settings, values, strict=True)
    return {name: value for (owner, name), value in named if owner == chosen}


def strategy_choices(language: str) -> list[tuple[str, str]]:
    """Every strategy as its title, and under it what it is and when it wins, with its name."""
    return [
        (f"{say(language, s.title)}\n{say(language, s.about)} {say(language, s.wins)}", s.name)
        for s in STRATEGIES.values()
    ]


def verifier_info(language: str, name: str) -> str:
    """What a verifier does, in a sentence."""
    return say(language, VERIFIERS[name].about)


def controls(defaults: Form, language: gr.Dropdown) -> Controls:
    """Build them, and what shows and hides them. `language` holds the code of the page's language."""
    fields: dict[str, gr.components.Component] = {}
    fields["target"] = _models(
        "target", "Target", "The model whose text you get. A catalogue name or a local folder.", defaults.target
    )
    fields["strategy"] = gr.Radio(
        strategy_choices(ENGLISH), value=defaults.strategy, label="Strategy", info="Who guesses the next tokens.",
        elem_id="sp-strategy",
    )  # fmt: skip
    chosen = strategy(defaults.strategy)
    fields["assistant"] = _models(
        "assistant",
        "Assistant",
        "The model that guesses, much smaller than the target. What both must share is up to the strategy.",
        defaults.assistant,
        visible=chosen.needs_assistant,
    )
    fields["k"] = gr.Slider(
        1, MAX_K, value=defaults.k, step=1, label="K", info="The most tokens that a round guesses.",
        elem_id="sp-k", visible=chosen.drafts,
    )  # fmt: skip
    fields["temperature"] = gr.Slider(
        0, 2, value=defaults.temperature, step=0.05, label="Temperature",
        info="0 is greedy: always the likeliest token. Above, tokens are drawn at random.", elem_id="sp-temperature",
    )  # fmt: skip
    with gr.Group(visible=bool(defaults.temperature), elem_classes="sp-group") as sampling:
        fields |= _sampling(defaults)
    fields["verifier"] = gr.Dropdown(
        [(v.title, name) for name, v in VERIFIERS.items()], value=defaults.verifier, filterable=False,
        label="Verifier", info=verifier_info(ENGLISH, defaults.verifier), elem_id="sp-verifier",
    )  # fmt: skip
    rules, rule_settings = {}, {}
    for name, info in VERIFIERS.items():
        shown = name == defaults.verifier and bool(info.settings)
        with gr.Group(visible=shown, elem_classes="sp-group") as rules[name]:
            for choice in info.settings:
                rule_settings[name, choice.name] = _setting(name, info.settings, choice)
    fields["max_new_tokens"] = gr.Slider(
        1, 1024, value=defaults.max_new_tokens, step=1, label=LABELS["max_new_tokens"],
        info="Where a lane ends if nothing else ends it.", elem_id="sp-max_new_tokens",
    )  # fmt: skip
    groups, settings = {}, {}
    for s in STRATEGIES.values():
        with gr.Group(visible=s is chosen and bool(s.settings), elem_classes="sp-group") as groups[s.name]:
            for choice in s.settings:
                settings[s.name, choice.name] = _setting(s.name, s.settings, choice)
    with gr.Accordion("More settings", open=False, elem_classes="sp-more"):
        fields |= _more(defaults)
    _show_what_applies(fields, groups, sampling, rules, language)
    _show_settings_that_apply(settings)
    _bound_by_target(fields["target"], settings)
    return Controls(fields, settings, rule_settings)


def _models(role: str, label: str, info: str, value: str | None, visible: bool = True) -> gr.Dropdown:
    offered = [(entry.title, entry.name) for entry in CATALOGUE.values() if entry.used_as == role]
    if value is not None and value not in CATALOGUE:
        offered.append((value, value))
    return gr.Dropdown(
        offered, value=value, label=label, info=info, allow_custom_value=True, visible=visible, elem_id=f"sp-{role}"
    )


def _setting(owner: str, beside: Sequence[Choice], choice: Choice) -> gr.components.Component:
    """The component of a setting of `owner`, all of whose settings are `beside`."""
    others = {c.name: c.default for c in beside}
    common: dict[str, Any] = {
        "value": choice.default, "label": choice.label, "info": choice.help,
        "elem_id": f"sp-{owner}-{choice.name}",
        "visible": choice.when is None or others[choice.when[0]] == choice.when[1],
    }  # fmt: skip
    if choice.options:
        return gr.Dropdown([(label, value) for value, label in choice.options], filterable=False, **common)
    maximum = _most(choice, DEFAULT_TARGET) if choice.maximum_of is not None else choice.maximum
    if choice.minimum is not None and maximum is not None:
        return gr.Slider(choice.minimum, maximum, step=choice.step, **common)
    return gr.Number(precision=0 if isinstance(choice.default, int) else None, **common)


def _sampling(defaults: Form) -> dict[str, gr.components.Component]:
    return {
        "top_k": gr.Number(
            defaults.top_k, precision=None, label=LABELS["top_k"], info="Only the k likeliest tokens; 0 is off.",
            elem_id="sp-top_k",
        ),
        "top_p": gr.Slider(
            0.05, 1, value=defaults.top_p, step=0.05, label=LABELS["top_p"],
            info="The likeliest tokens that make up this much together; 1 is off.", elem_id="sp-top_p",
        ),
        "min_p": gr.Slider(
            0, 0.5, value=defaults.min_p, step=0.01, label=LABELS["min_p"],
            info="Only tokens with this share of the likeliest one's chance; 0 is off.", elem_id="sp-min_p",
        ),
        "seed": gr.Number(
            defaults.seed, precision=None, label="Seed", info="Same settings and seed, same run.", elem_id="sp-seed"
        ),
    }  # fmt: skip


def _more(defaults: Form) -> dict[str, gr.components.Component]:
    return {
        "chat": gr.Checkbox(
            defaults.chat, label="Chat template", elem_id="sp-chat",
            info="Put the prompt to chat models as a user's message; off: the model goes on with the text itself.",
        ),
        "repetition_penalty": gr.Slider(
            1, 2, value=defaults.repetition_penalty, step=0.05, label=LABELS["repetition_penalty"],
            info="Makes tokens that occurred before less likely; 1 is off.", elem_id="sp-repetition_penalty",
        ),
        "stop_strings": gr.Textbox(
            defaults.stop_strings, lines=2, label=LABELS["stop_strings"], elem_id="sp-stop_strings",
            info="The run ends when one of these is written. One a line; \\n is a newline.",
        ),
        "banned": gr.Textbox(
            defaults.banned, lines=2, label=LABELS["banned"], elem_id="sp-banned",
            info="Their tokens are never written: not as a guess, not as a correction. One a line; mind the blank "
            "before a word.",
        ),
    }  # fmt: skip


def _show_settings_that_apply(settings: dict[tuple[str, str], gr.components.Component]) -> None:
    for s in STRATEGIES.values():
        for choice in s.settings:
            if choice.when is not None:
                other: Any = settings[s.name, choice.when[0]]
                show = partial(_visible_at, choice.when[1])
                other.change(
                    show, other, settings[s.name, choice.name], queue=False, api_visibility="private",
                    show_progress="hidden",
                )  # fmt: skip


def _bound_by_target(target: Any, settings: dict[tuple[str, str], gr.components.Component]) -> None:
    """Sliders whose end depends on the target follow it."""
    for s in STRATEGIES.values():
        for choice in s.settings:
            if choice.maximum_of is not None:
                target.change(
                    partial(_end_at, choice), target, settings[s.name, choice.name], queue=False,
                    api_visibility="private", show_progress="hidden",
                )  # fmt: skip


def _most(choice: Choice, target: str) -> int | None:
    # Such a setting counts layers, the last of which cannot be chosen.
    layers = layer_count(target)
    return None if layers is None else max(layers - 1, int(choice.minimum or 1))


def _end_at(choice: Choice, target: str) -> Any:
    maximum = _most(choice, target)
    return gr.skip() if maximum is None else gr.update(maximum=maximum)


def _visible_at(wanted: str, value: str) -> Any:
    return gr.update(visible=value == wanted)


def _show_what_applies(
    fields: dict[str, Any], groups: dict[str, gr.Group], sampling: gr.Group, rules: dict[str, gr.Group],
    language: gr.Dropdown,
) -> None:  # fmt: skip
    def usual(name: str, target: str) -> Any:
        return usual_assistant(target, name) if strategy(name).needs_assistant else gr.skip()

    def by_strategy(name: str) -> list[Any]:
        chosen = strategy(name)
        return [
            gr.update(visible=chosen.needs_assistant),
            gr.update(visible=chosen.drafts),
            *(gr.update(visible=name == chosen.name and bool(chosen.settings)) for name in groups),
        ]

    def by_temperature(value: float | None) -> Any:
        return gr.update(visible=bool(value))

    def by_verifier(name: str, code: str) -> list[Any]:
        groups = [gr.update(visible=name == rule and bool(VERIFIERS[rule].settings)) for rule in rules]
        return [gr.update(info=verifier_info(code, name)), *groups]

    private: dict[str, Any] = {"queue": False, "api_visibility": "private", "show_progress": "hidden"}
    fields["strategy"].change(
        by_strategy, fields["strategy"], [fields["assistant"], fields["k"], *groups.values()], **private
    )
    # Only where a person chooses: what sets the strategy from elsewhere (a preset, an address) sets the assistant too.
    fields["strategy"].input(usual, [fields["strategy"], fields["target"]], fields["assistant"], **private)
    fields["temperature"].change(by_temperature, fields["temperature"], sampling, **private)
    fields["verifier"].change(
        by_verifier, [fields["verifier"], language], [fields["verifier"], *rules.values()], **private
    )
