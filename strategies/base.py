"""What a strategy is: a name, its settings, its checks, and a drafter for a run.

A strategy proposes and nothing else; the engine verifies.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from torch import Tensor

from playground.engine import Drafter
from playground.sampling import COUPLED, Law, coupled_sample, sample
from playground.trace import InvalidRequest, Request, Setting

if TYPE_CHECKING:
    from playground.cache import PrefixModel
    from playground.models import Loaded


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting of a strategy: a number with a range, or one of `options` (value, label). `when` names another
    setting and the value of it that this one needs to mean anything."""

    name: str
    label: str
    help: str
    default: Setting
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    options: tuple[tuple[str, str], ...] = ()
    when: tuple[str, str] | None = None

    def check(self, value: object) -> Setting:
        """`value` as the setting's type.

        Raises:
            InvalidRequest: out of range, not an option, or of another type.
        """
        if self.options:
            allowed = [v for v, _ in self.options]
            if value not in allowed:
                raise InvalidRequest(f"{self.name} is {value!r}; it must be one of {', '.join(allowed)}.")
            return str(value)
        whole = isinstance(self.default, int)
        if isinstance(value, bool) or not isinstance(value, int | float) or (whole and not float(value).is_integer()):
            raise InvalidRequest(f"{self.name} is {value!r}; it must be a {'whole ' if whole else ''}number.")
        low, high = self.minimum, self.maximum
        if (low is not None and not value >= low) or (high is not None and not value <= high):
            raise InvalidRequest(f"{self.name} is {value!r}; it must be from {low:g} to {high:g}.")
        return int(value) if whole else float(value)


@dataclass(frozen=True, slots=True)
class Context:
    """What a drafter may use for one run. `rng` is its own, apart from the verifier's: were they one
    sequence, a draft and its test would not be independent."""

    request: Request
    target: "PrefixModel"
    assistant: "PrefixModel | None"
    law: Law
    rng: Random

    def draw(self, q: Tensor, position: int) -> int:
        """A token drawn from `q` [V], the distribution at `position` (the number of tokens before it). Under the
        coupled verifier with the noise that the target will use there, otherwise with the drafter's own."""
        if self.request.verifier == COUPLED:
            return coupled_sample(q, self.request.seed, position)
        return sample(q, self.rng.random())


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to draft. `build` makes the drafter of one run; `check` refuses a pair of models that it
    cannot work with, before anything runs; `follow` gives the target a cache of another kind where one is needed."""

    name: str
    title: str
    about: str
    wins: str
    build: Callable[[Context], Drafter]
    needs_assistant: bool = False
    drafts: bool = True
    settings: tuple[Choice, ...] = ()
    check: Callable[["Loaded", "Loaded | None"], None] = field(default=lambda target, assistant: None)
    follow: Callable[["Loaded", Request], "PrefixModel"] = field(default=lambda target, request: target.follow())

    def settled(self, values: Mapping[str, object]) -> tuple[tuple[str, Setting], ...]:
        """Every setting of the strategy, checked, defaults filled in, sorted by name.

        Raises:
            InvalidRequest: an unknown name or a bad value.
        """
        unknown = set(values) - {c.name for c in self.settings}
        if unknown:
            known = ", ".join(c.name for c in self.settings) or "none"
            raise InvalidRequest(f"{self.name} has no setting {sorted(unknown)[0]!r}; it has: {known}.")
        return tuple(sorted((c.name, c.check(values.get(c.name, c.default))) for c in self.settings))


def drafter_rng(request: Request) -> Random:
    """The drafter's random numbers of a run."""
    return Random(f"drafter {request.seed}")
