"""Shorthand for tests: a run of any registered strategy on models in memory."""

from dataclasses import dataclass, replace
from typing import Any

from playground.models import Loaded
from playground.run import Prepared
from playground.trace import Finished, Reading, Request, Round, Started, emitted_ids
from strategies import STRATEGIES

ALL = sorted(STRATEGIES)
DRAFTING = sorted(name for name, s in STRATEGIES.items() if s.drafts)


@dataclass(frozen=True, slots=True)
class Run:
    """A finished run."""

    request: Request
    started: Started
    rounds: tuple[Round, ...]
    finished: Finished

    @property
    def ids(self) -> tuple[int, ...]:
        """What was emitted."""
        return emitted_ids(self.rounds)

    @property
    def verdicts(self) -> list[tuple[int, str]]:
        """Every token with its verdict."""
        return [(t.id, t.verdict) for r in self.rounds for t in r.tokens]


def collect(events: Any, request: Request) -> Run:
    """Run to the end."""
    started, *rounds, finished = [e for e in events if not isinstance(e, Reading)]
    return Run(request, started, tuple(rounds), finished)


def request_for(strategy: str, prompt: tuple[int, ...] = (72, 101, 108, 108, 111), **values: Any) -> Request:
    """A request with that strategy's defaults."""
    settings = STRATEGIES[strategy].settled(values.pop("settings", {}))
    return Request(prompt_ids=prompt, strategy=strategy, settings=settings, **values)


def run(strategy: str, target: Loaded, assistant: Loaded | None = None, **values: Any) -> Run:
    """Run a strategy; `assistant` is used where the strategy takes one."""
    request = request_for(strategy, **values)
    helper = assistant if STRATEGIES[strategy].needs_assistant else None
    STRATEGIES[strategy].check(target, helper)
    return collect(Prepared(request, target, helper).events(), request)


def without_times(one: Run) -> list[Round]:
    """The rounds with all clocks at zero: what two equal runs share."""
    return [
        replace(r, draft_seconds=0.0, verify_seconds=0.0, sample_seconds=0.0, observe_seconds=0.0) for r in one.rounds
    ]
