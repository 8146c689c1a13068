"""The settings of a run in an address's query, and back. Reading one loads nothing, runs nothing and looks at no file:
whatever a stranger wrote there ends as checked values, or as a problem that names it.
"""

import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from playground.catalogue import CATALOGUE
from playground.sampling import VERIFIERS
from playground.settings import Choice
from playground.trace import MAX_K
from playground.ui.form import Form
from playground.words import languages
from strategies import STRATEGIES

LONGEST = 8000  # characters of a query
SHOWN = 60  # characters of a value in a problem
# Every field of the Form but the two groups of settings, by its name in the address. A setting has its own name there.
NAMES = {
    "strategy": "strategy", "target": "target", "assistant": "assistant", "k": "k", "t": "temperature",
    "tokens": "max_new_tokens", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p", "penalty": "repetition_penalty",
    "seed": "seed", "verifier": "verifier", "stop": "stop_strings", "ban": "banned", "chat": "chat",
    "baseline": "baseline", "prompt": "prompt",
}  # fmt: skip
TAB, LANGUAGE = "tab", "lang"
# Lowest and highest value, those of the page's controls; what is whole has whole ends. JavaScript counts exactly up to
# 2^53 - 1.
EXACT = 2**53 - 1
LIMITS: dict[str, tuple[float, float]] = {
    "k": (1, MAX_K), "temperature": (0.0, 2.0), "max_new_tokens": (1, 1024), "top_k": (0, EXACT), "top_p": (0.05, 1.0),
    "min_p": (0.0, 0.5), "repetition_penalty": (1.0, 2.0), "seed": (0, EXACT),
}  # fmt: skip
# The look alone, gradio's own, and those that its hosts and others add: not ours to read or to complain of.
FOREIGN = r"__(?:theme|sign|lang|replica|sso)|projector|view|deep_link|logs|_nb_redirects|_target_url|utm_\w+"
_FOREIGN = re.compile(FOREIGN, re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,3})?", re.ASCII)
_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

Problem = tuple[str, dict[str, object]]  # a sentence in English with {names}, and their values


@dataclass(frozen=True, slots=True)
class Opened:
    """What an address asks for. `form` None: nothing of a run; `tab` and `language` None: the page's own."""

    form: Form | None
    tab: str | None
    language: str | None
    problems: tuple[Problem, ...]


class _Wrong(ValueError):
    """A value that cannot be used."""

    def __init__(self, text: str, **values: object) -> None:
        super().__init__(text)
        self.problem: Problem = (text, values)


def to_query(form: Form, defaults: Form, tab: str | None = None, language: str | None = None) -> str:
    """The query, without its question mark, that `from_query` reads this from: the strategy, and what is not as in
    `defaults`. It may be longer than LONGEST, which `from_query` refuses."""
    pairs = [
        (name, _written(getattr(form, of)))
        for name, of in NAMES.items()
        if of == "strategy" or getattr(form, of) != getattr(defaults, of)
    ]
    for choices, values in _groups(form):
        pairs += [(c.name, _written(values[c.name])) for c in choices if values.get(c.name, c.default) != c.default]
    pairs += [(name, value) for name, value in ((TAB, tab), (LANGUAGE, language)) if value]
    return "&".join(f"{name}={quote(value, safe=_READABLE, errors='replace')}" for name, value in pairs)


_READABLE = "/:,;!'()*@"  # what an address may show as it is


def _groups(form: Form) -> list[tuple[Sequence[Choice], Mapping[str, object]]]:
    return [
        (STRATEGIES[form.strategy].settings, form.settings),
        (VERIFIERS[form.verifier].settings, form.verifier_settings),
    ]


def _written(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer() and abs(value) <= EXACT:
        return str(int(value))
    if isinstance(value, list | tuple):  # one a line, as on the page
        return "\n".join(re.sub(r"[\\\n\t]", lambda m: _ESCAPES[m.group()], str(entry)) for entry in value)
    return str(value)


_ESCAPES = {"\\": "\\\\", "\n": "\\n", "\t": "\\t"}


def from_query(query: str, defaults: Form, tabs: Collection[str] = (), models: Collection[str] = ()) -> Opened:
    """What a query (without or with its question mark) asks for, over `defaults`. `tabs` are the page's; `models` are
    those that it was started with, which an address may name besides the catalogue's."""
    query = query.removeprefix("?")
    if len(query) > LONGEST:
        text = "The address is {length} characters long, and at most {most} are read: none of it was used."
        return Opened(None, None, None, ((text, {"length": f"{len(query):,}", "most": f"{LONGEST:,}"}),))
    return _Reader(defaults, tabs, {*CATALOGUE, *models}).read(query)


def _split(query: str) -> tuple[list[tuple[str, str]], list[Problem]]:
    """Names and values, decoded, and what could not be."""
    pairs: list[tuple[str, str]] = []
    problems: list[Problem] = []
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        try:
            pairs.append((_decoded(name), _decoded(value)))
        except ValueError:
            text = "{part} in the address is not properly encoded: it was left out."
            problems.append((text, {"part": shown(part)}))
    return pairs, problems


def _decoded(text: str) -> str:
    if _BAD_PERCENT.search(text):
        raise ValueError(text)
    return unquote(text.replace("+", " "), errors="strict")


def shown(value: object) -> str:
    """A value as a problem shows it: short, on one line, every strange character spelt out."""
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


@dataclass(slots=True)
class _Reader:
    defaults: Form
    tabs: Collection[str]
    models: Collection[str]
    problems: list[Problem] = field(default_factory=list)

    def read(self, query: str) -> Opened:
        pairs, self.problems = _split(query)
        values = self._once([(n, v) for n, v in pairs if not _FOREIGN.fullmatch(n)])
        tab = self._take(values, TAB, lambda text: one_of(TAB, text, self.tabs))
        language = self._take(values, LANGUAGE, lambda text: one_of(LANGUAGE, text, languages()))
        return Opened(self._form(values) if values else None, tab, language, tuple(self.problems))

    def _once(self, pairs: list[tuple[str, str]]) -> dict[str, str]:
        values: dict[str, str] = {}
        for name, value in pairs:
            if name not in values:
                values[name] = value
            else:
                text = "{name} is in the address more than once: the first value was taken."
                problem: Problem = (text, {"name": shown(name)})
                self.problems += [problem] if problem not in self.problems else []
        return values

    def _take(self, values: dict[str, str], name: str, read: Callable[[str], Any], default: Any = None) -> Any:
        if name not in values:
            return default
        try:
            return read(values.pop(name))
        except _Wrong as wrong:
            self.problems.append(wrong.problem)
            return default

    def _form(self, values: dict[str, str]) -> Form | None:
        known = [name for name in values if name in NAMES or self._owners(name)]
        form = self.defaults
        for name, of in NAMES.items():
            value = self._take(values, name, partial(self._field, name, of), getattr(form, of))
            form = replace(form, **{of: value})
        groups = [self._group(form, choices, values) for choices, _ in _groups(form)]
        for name in values:
            owners = self._owners(name)
            text = (
                "{name} in the address is a setting of {owners}, which was not chosen: it was left out."
                if owners
                else "{name} in the address is no setting: it was left out."
            )
            self.problems.append((text, {"name": shown(name), "owners": ", ".join(owners)}))
        return replace(form, settings=groups[0], verifier_settings=groups[1]) if known else None

    def _owners(self, name: str) -> list[str]:
        owners: list[tuple[str, Sequence[Choice]]] = [(s.name, s.settings) for s in STRATEGIES.values()]
        owners += [(rule, info.settings) for rule, info in VERIFIERS.items()]
        return [owner for owner, choices in owners if name in [c.name for c in choices]]

    def _field(self, name: str, of: str, text: str) -> Any:
        if of in LIMITS:
            return number(name, text, *LIMITS[of])
        if of in ("chat", "baseline"):
            return one_of(name, text, ("0", "1")) == "1"
        if of == "strategy":
            return one_of(name, text, STRATEGIES)
        if of == "verifier":
            return one_of(name, text, VERIFIERS)
        if of == "assistant" and not text:
            return None
        if of in ("target", "assistant"):
            return self._model(name, text)
        return text

    def _model(self, name: str, text: str) -> str:
        if text in self.models:
            return text
        raise _Wrong(
            "{name} is {value} in the address, which is no model of the catalogue. A link opens no folder: if you "
            "trust it, type it into the settings yourself.",
            name=name,
            value=shown(text),
        )

    def _group(self, form: Form, choices: Sequence[Choice], values: dict[str, str]) -> dict[str, object]:
        return {c.name: self._take(values, c.name, partial(_setting, c, form), c.default) for c in choices}


def _setting(choice: Choice, form: Form, text: str) -> object:
    if choice.options:
        return one_of(choice.name, text, [value for value, _ in choice.options])
    high = choice.maximum
    if choice.maximum_of is not None and form.target in CATALOGUE:
        layers = CATALOGUE[form.target].layers  # such a setting counts layers, the last of which cannot be chosen
        high = None if layers is None else layers - 1
    low = choice.minimum if choice.minimum is not None else -EXACT
    high = high if high is not None else EXACT
    whole = isinstance(choice.default, int)
    return number(choice.name, text, int(low) if whole else float(low), int(high) if whole else float(high))


def one_of(name: str, text: str, allowed: Collection[str]) -> str:
    """`text`, where it is one of these.

    Raises:
        _Wrong: it is not.
    """
    if text in allowed:
        return text
    options = ", ".join(allowed)
    raise _Wrong(
        "{name} is {value} in the address; it must be one of {options}. It was left out.",
        name=name, value=shown(text), options=options,
    )  # fmt: skip


def number(name: str, text: str, low: float, high: float) -> float:
    """The number, whole where `low` is.

    Raises:
        _Wrong: it is none, or not from `low` to `high`.
    """
    whole = isinstance(low, int)
    value = float(text) if _NUMBER.fullmatch(text) else math.nan
    if low <= value <= high and (not whole or value.is_integer()):
        return int(text) if text.isdecimal() else int(value) if whole else value
    sentence = (
        "{name} is {value} in the address; it must be a whole number from {low} to {high}. It was left out."
        if whole
        else "{name} is {value} in the address; it must be a number from {low} to {high}. It was left out."
    )
    raise _Wrong(sentence, name=name, value=shown(text), low=f"{low:.16g}", high=f"{high:.16g}")


assert {*NAMES.values(), "settings", "verifier_settings"} == {f.name for f in fields(Form)}
