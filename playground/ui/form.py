"""What the controls say, as plain values, and the checked run that they ask for. Knows no widget."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

from playground.models import DEFAULT_ASSISTANT, DEFAULT_TARGET, Library, Progress
from playground.run import Prepared, prepare
from playground.sampling import VERIFIERS
from playground.trace import InvalidRequest
from strategies import STRATEGIES

WHOLE = ("k", "max_new_tokens", "top_k", "seed")
NUMBERS = ("k", "temperature", "max_new_tokens", "top_k", "top_p", "min_p", "repetition_penalty", "seed")


@dataclass(frozen=True, slots=True)
class Form:
    """The values of the page's controls. Texts of several entries have one a line, with `\\n` for a newline."""

    prompt: str
    target: str = DEFAULT_TARGET
    strategy: str = "assistant"
    assistant: str | None = DEFAULT_ASSISTANT
    k: float | None = 3
    temperature: float | None = 0.0
    max_new_tokens: float | None = 128
    top_k: float | None = 0
    top_p: float | None = 1.0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    seed: float | None = 0
    verifier: str = "exact"
    stop_strings: str | Sequence[str] = ""
    banned: str | Sequence[str] = ""
    chat: bool = True
    baseline: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)
    verifier_settings: Mapping[str, object] = field(default_factory=dict)

    def with_more(self, values: Mapping[str, Any]) -> "Form":
        """This form with further fields set.

        Raises:
            InvalidRequest: a name is no field.
        """
        names = [f.name for f in fields(self)]
        unknown = sorted(set(values) - set(names))
        if unknown:
            raise InvalidRequest(f"{unknown[0]!r} is no setting; the settings are {', '.join(names)}.")
        return replace(self, **values)

    def numbers(self) -> dict[str, float | int]:
        """The fields that are numbers.

        Raises:
            InvalidRequest: one of them, or another field, is of the wrong type.
        """
        self._check_types()
        return {name: _number(name, getattr(self, name)) for name in NUMBERS}

    def _check_types(self) -> None:
        texts = {"prompt": self.prompt, "target": self.target, "strategy": self.strategy, "verifier": self.verifier}
        for name, value in {**texts, "assistant": self.assistant or ""}.items():
            _need(isinstance(value, str), name, value, "a text")
        for name, entries in (("stop_strings", self.stop_strings), ("banned", self.banned)):
            each = [entries] if isinstance(entries, str) else entries
            ok = each is None or (isinstance(each, list | tuple) and all(isinstance(e, str) for e in each))
            _need(ok, name, entries, "a text with one entry a line, or a list of texts")
        for name, switch in (("chat", self.chat), ("baseline", self.baseline)):
            _need(isinstance(switch, bool), name, switch, "true or false")
        for name, group in (("settings", self.settings), ("verifier_settings", self.verifier_settings)):
            _need(isinstance(group, Mapping), name, group, "an object of names and values")

    def prepare(self, library: Library, progress: Progress | None = None) -> Prepared:
        """The checked run, its models loaded.

        Raises:
            InvalidRequest: something cannot be run.
        """
        numbers = self.numbers()
        return prepare(
            library,
            self.prompt or "",
            target=self.target or "",
            assistant=self.assistant,
            strategy_name=self.strategy,
            settings=self.settings,
            chat=self.chat,
            banned=lines(self.banned),
            progress=progress,
            verifier=self.verifier,
            verifier_settings=self.verifier_settings,
            stop_strings=lines(self.stop_strings),
            **numbers,
        )


def _need(ok: bool, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise InvalidRequest(f"{name} is {value!r}; it must be {allowed}.")


def lines(text: str | Sequence[str] | None) -> tuple[str, ...]:
    """The non-empty lines of a text, `\\n` and `\\t` in them read as newline and tab; a list is taken as it is."""
    if text is not None and not isinstance(text, str):
        return tuple(text)
    escapes = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    found = (text or "").splitlines()
    return tuple(re.sub(r"\\[nt\\]", lambda m: escapes[m.group()], line) for line in found if line)


def _number(name: str, value: float | None) -> float | int:
    if value is None:
        raise InvalidRequest(f"{_CALLED.get(name, name)} is empty: type a number.")
    _need(isinstance(value, int | float) and not isinstance(value, bool), _CALLED.get(name, name), value, "a number")
    return int(value) if name in WHOLE and float(value).is_integer() else value


_CALLED = {"k": "K"}
# What the page calls a field that has another name in a request.
LABELS = {
    "max_new_tokens": "New tokens, at most", "top_k": "Top-k", "top_p": "Top-p", "min_p": "Min-p",
    "repetition_penalty": "Repetition penalty", "stop_strings": "Stop strings", "banned": "Banned words",
}  # fmt: skip
# How an error names a value, and the control that holds it.
_NAMES = {
    "the prompt": "prompt", "The prompt": "prompt", "max_new_tokens": "max_new_tokens", "K": "k",
    "The banned word": "banned", "banned": "banned",
    "temperature": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "repetition_penalty": "repetition_penalty", "seed": "seed", "stop_strings": "stop_strings",
    "verifier": "verifier", "strategy": "strategy",
}  # fmt: skip


def field_of(message: str, form: Form) -> str:
    """The name of the control that an error is about; empty where none can be told."""
    named = re.match(r"There is no model ('.*?'|\".*?\")", message)
    if named:
        return "target" if named.group(1) == repr(form.target) else "assistant"
    for name, control in _NAMES.items():
        if message.startswith((f"{name} is ", f"{name} '", f'{name} "')):
            return control
    for name in form.settings:
        if message.startswith(f"{name} is "):
            return f"{form.strategy}-{name}"
    for name in form.verifier_settings:
        if message.startswith(f"{name} is "):
            return f"{form.verifier}-{name}"
    return "assistant" if "assistant" in message and "vocabulary" in message else ""


def with_label(message: str, form: Form) -> str:
    """The message of an error, with the label that the page shows in front of the name of the value."""
    owners = (STRATEGIES.get(form.strategy), VERIFIERS.get(form.verifier))
    labels = LABELS | {c.name: c.label for owner in owners if owner is not None for c in owner.settings}
    name, verb, rest = message.partition(" is ")
    label = labels.get(name, name)
    return message if label.lower() == name.lower() else f"{label} ({name}){verb}{rest}"
