"""What is reckoned with: alpha, the costs and K, as chosen, as measured in a run, or as another machine might make
them. Knows no widget, no sentence (reckon_words.py) and no figure (reckon_figures.py).
"""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from playground import theory
from playground.trace import DRAFTED, InvalidRequest
from playground.view import VERDICT_CODES
from playground.words import ENGLISH, say

MOST_K = 16
STEP = {"alpha": 0.01, "c": 0.005, "v": 0.005}  # of the sliders
_DRAFTED_CODES = {VERDICT_CODES[verdict] for verdict in DRAFTED}


@dataclass(frozen=True, slots=True)
class Setting:
    """What is reckoned with. `c`: cost of drafting a token, `v`: what each further token adds to a target pass, both
    in one-token target passes.

    Raises:
        InvalidRequest: a value is no number or out of its range.
    """

    alpha: float = 0.6
    c: float = 0.08
    v: float = 0.05
    k: float = 3

    def __post_init__(self) -> None:
        for name, low, high in (("alpha", 0, 1), ("c", 0, 1), ("v", 0, 1), ("k", 1, MOST_K)):
            value = getattr(self, name)
            known = isinstance(value, int | float) and not isinstance(value, bool)
            if not known or not low <= value <= high:
                shown = "K" if name == "k" else name
                raise InvalidRequest(f"{shown} is {value!r}; it must be a number from {low} to {high}.")

    @property
    def speedup(self) -> float:
        """Predicted, at this K."""
        return theory.round_speedup(self.alpha, self.k, self.c, self.v)

    @property
    def best_k(self) -> int:
        """Of the highest predicted speedup."""
        return theory.best_k(self.alpha, self.c, k_max=MOST_K, wider=self.v)

    @property
    def tokens(self) -> float:
        """Expected, of a round."""
        return theory.expected_tokens(self.alpha, self.k)


@dataclass(frozen=True, slots=True)
class Measured:
    """A run's own numbers. `k` is the mean draft of a round; `draft`, `verify` and `sample` are the parts of a round
    and `plain` those of a token of the plain lane (target pass, sampling), all in one-token target passes;
    `pass_seconds` is one such pass. None: not measured, for there was no plain lane."""

    title: str
    alpha: float
    from_p_and_q: bool  # alpha; otherwise it is the tested acceptance rate
    c: float
    k: float
    tokens: float  # of a round
    draft: float
    verify: float
    sample: float
    pass_seconds: float
    speedup: float | None
    predicted: float
    predicted_wider: float
    plain: tuple[float, float] | None

    @property
    def v(self) -> float:
        """What each further token added to a target pass, in one-token passes. Below 0 only by noise."""
        return (self.verify - 1.0) / self.k

    @property
    def efficiency(self) -> float | None:
        """Measured over predicted speedup (theorem 3.8)."""
        return None if self.speedup is None else self.speedup / self.predicted

    def setting(self) -> Setting:
        """The nearest that the sliders can say."""
        return Setting(
            alpha=_on_slider(self.alpha, "alpha"),
            c=_on_slider(self.c, "c"),
            v=_on_slider(self.v, "v"),
            k=min(MOST_K, max(1, round(self.k))),
        )


def _on_slider(value: float, name: str) -> float:
    return round(min(1.0, max(0.0, round(value / STEP[name]) * STEP[name])), 6)


def measured(messages: Iterable[str], language: str = ENGLISH) -> Measured:
    """The numbers of a run from the messages that the page got of it (JSON strings, see view.py).

    Raises:
        InvalidRequest: there is no run, or nothing was drafted in it.
    """
    begin: dict[str, Any] | None = None
    last: dict[str, Any] | None = None
    rounds = drafted = 0
    for message in _flat(messages):
        begin = message.get("begin", begin)
        if "numbers" not in message or begin is None:
            continue
        last = message
        for lane, _, tokens, *_ in message["rounds"]:
            if lane == len(begin["lanes"]) - 1:
                rounds += 1
                drafted += sum(token[1] in _DRAFTED_CODES for token in tokens)
    if begin is None or last is None or not rounds:
        raise InvalidRequest(
            say(language, "There is no run to take them from. Press Run in the tab Run, then come back.")
        )
    numbers = last["numbers"]
    if not drafted or not numbers["cost_ratio"] or not numbers["predicted_speedup"]:
        raise InvalidRequest(
            say(language, "The last run drafted nothing. Choose a strategy that drafts, press Run, then come back.")
        )
    return _measured(begin["lanes"], last, rounds, drafted)


def _flat(messages: Iterable[str]) -> Iterable[dict[str, Any]]:
    for text in messages:
        message = json.loads(text)
        yield from message.get("steps", [message])


def _measured(lanes: list[dict[str, Any]], last: Mapping[str, Any], rounds: int, drafted: int) -> Measured:
    numbers, seconds = last["numbers"], last["seconds"]
    _, draft, verify, sample, _ = seconds[-1]
    one = draft / (drafted * numbers["cost_ratio"])  # what c is a share of: seconds of a one-token pass
    alpha = numbers["predicted_acceptance"]
    plain = None
    if len(lanes) > 1 and (written := last["clocks"][0][1]):
        plain = (seconds[0][2] / written / one, seconds[0][3] / written / one)
    return Measured(
        title=lanes[-1]["title"],
        alpha=numbers["tested_acceptance_rate"] if alpha is None else alpha,
        from_p_and_q=alpha is not None,
        c=numbers["cost_ratio"],
        k=drafted / rounds,
        tokens=numbers["tokens_per_pass"],
        draft=draft / rounds / one,
        verify=verify / rounds / one,
        sample=sample / rounds / one,
        pass_seconds=one,
        speedup=numbers["measured_speedup"],
        predicted=numbers["predicted_speedup"],
        predicted_wider=numbers["predicted_speedup_verify"],
        plain=plain,
    )


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Another machine, target or drafter: what it would make of c and v. All of it is assumed. `about` may name {c},
    {v} and {was}, the c that it starts from."""

    title: str
    about: str
    c: float | None = None  # None: as it was
    v: float | None = None
    c_factor: float = 1.0

    def costs(self, c: float, v: float) -> tuple[float, float]:
        """c and v, from those of the run (or of the page's start)."""
        return self.c_factor * c if self.c is None else self.c, v if self.v is None else self.v


OWN = "own"
WHAT_IFS: dict[str, WhatIf] = {
    OWN: WhatIf("Values of the sliders", "c and v are what the sliders say."),
    "gpu": WhatIf(
        "A GPU with one user",
        "Assumed: the GPU waits for its memory, so that a few more tokens in a pass cost nothing: v = 0. "
        "c stays {c}, as both models gain alike.",
        v=0.0,
    ),
    "launch": WhatIf(
        "A GPU with two small models",
        "Assumed: starting the work of each layer takes longer than the work. A drafter with a quarter of the "
        "target's layers then takes a quarter of its time, however small it is: c = {c}, v = 0.",
        c=0.25,
        v=0.0,
    ),
    "full": WhatIf(
        "A GPU full of users",
        "Assumed: the batch keeps the arithmetic busy, so that each further token costs as much as the first: v = 1. "
        "c stays {c}.",
        v=1.0,
    ),
    "larger": WhatIf(
        "A target ten times as large",
        "Assumed: a target pass takes ten times as long and a drafted token as long as now: c is {c} instead of {was}. "
        "v stays {v}.",
        c_factor=0.1,
    ),
    "paper": WhatIf(
        "A drafter a hundred times smaller",
        "Assumed: c = {c}, the most that Leviathan et al. 2023 (section 3.3) met with drafters about a hundred times "
        "smaller than the target, and v = 0 as in their theorem.",
        c=0.05,
        v=0.0,
    ),
    "free": WhatIf(
        "A drafter that costs nothing",
        "Assumed: drafting takes no time, as copying from the prompt nearly does: c = 0. v stays {v}.",
        c=0.0,
    ),
}


def what_if(name: object, run: Measured | None) -> tuple[float, float]:
    """c and v of that what-if, from the run's where there is one, in the sliders' steps.

    Raises:
        InvalidRequest: there is no what-if of that name.
    """
    if not isinstance(name, str) or name not in WHAT_IFS:
        raise InvalidRequest(f"The what-if is {name!r}; choose one of {', '.join(WHAT_IFS)}.")
    base = Setting() if run is None else run.setting()
    c, v = WHAT_IFS[name].costs(base.c, base.v)
    return _on_slider(c, "c"), _on_slider(v, "v")


def short(value: float) -> str:
    """Up to three decimals, of small values two digits that count."""
    if value and abs(value) < 0.01:
        return f"{value:.2g}"
    assert math.isfinite(value)
    return f"{value:.3f}".rstrip("0").rstrip(".")
