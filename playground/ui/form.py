"""What the controls say, as plain values, and the checked run that they ask for. Knows no widget."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from playground.models import DEFAULT_ASSISTANT, DEFAULT_TARGET, Library, Progress
from playground.run import Prepared, prepare
from playground.trace import InvalidRequest

WHOLE = ("k", "max_new_tokens", "top_k", "seed")


@dataclass(frozen=True, slots=True)
class Form:
    """The values of the page's controls. Texts of several entries have one a line, with `\\n` for a newline."""

    prompt: str
    target: str = DEFAULT_TARGET
    strategy: str = "assistant"
    assistant: str | None = DEFAULT_ASSISTANT
    k: float | None = 4
    temperature: float | None = 0.0
    max_new_tokens: float | None = 128
    top_k: float | None = 0
    top_p: float | None = 1.0
    min_p: float | None = 0.0
    repetition_penalty: float | None = 1.0
    seed: float | None = 0
    verifier: str = "exact"
    stop_strings: str = ""
    banned: str = ""
    chat: bool = True
    baseline: bool = True
    settings: Mapping[str, object] = field(default_factory=dict)

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

    def prepare(self, library: Library, progress: Progress | None = None) -> Prepared:
        """The checked run, its models loaded.

        Raises:
            InvalidRequest: something cannot be run.
        """
        numbers = ("k", "temperature", "max_new_tokens", "top_k", "top_p", "min_p", "repetition_penalty", "seed")
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
            stop_strings=lines(self.stop_strings),
            **{name: _number(name, getattr(self, name)) for name in numbers},
        )


def lines(text: str | None) -> tuple[str, ...]:
    """The non-empty lines of a text, `\\n` and `\\t` in them read as newline and tab."""
    escapes = {"\\n": "\n", "\\t": "\t", "\\\\": "\\"}
    found = (text or "").splitlines()
    return tuple(re.sub(r"\\[nt\\]", lambda m: escapes[m.group()], line) for line in found if line)


def _number(name: str, value: float | None) -> float | int:
    if value is None:
        raise InvalidRequest(f"{LABELS.get(name, name)} is empty: type a number.")
    return int(value) if name in WHOLE and float(value).is_integer() else value


LABELS = {"k": "K"}
# How an error names a value, and the control that holds it.
_NAMES = {
    "the prompt": "prompt", "The prompt": "prompt", "max_new_tokens": "max_new_tokens", "K": "k",
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
        if message.startswith(f"{name} is "):
            return control
    for name in form.settings:
        if message.startswith(f"{name} is "):
            return f"{form.strategy}-{name}"
    return "assistant" if "assistant" in message and "vocabulary" in message else ""
