"""The strategies: a file a drafter, and the registry.

To add one, write a file with a `STRATEGY` and name it in `_ALL`. Nothing else changes: the page, the
command line, the benchmark and the tests go over the registry.
"""

from playground.trace import InvalidRequest
from strategies import (
    assistant,
    eagle,
    early_exit,
    lookup_assistant,
    mtp,
    mtp_drafter,
    plain,
    prompt_lookup,
    universal,
)
from strategies.base import Choice, Context, Strategy

_ALL = (
    plain.STRATEGY,
    assistant.STRATEGY,
    prompt_lookup.STRATEGY,
    lookup_assistant.STRATEGY,
    universal.STRATEGY,
    early_exit.STRATEGY,
    mtp.STRATEGY,
    mtp_drafter.STRATEGY,
    eagle.STRATEGY,
)
STRATEGIES: dict[str, Strategy] = {s.name: s for s in _ALL}

__all__ = ["STRATEGIES", "Choice", "Context", "Strategy", "strategy"]


def strategy(name: str) -> Strategy:
    """The strategy of that name.

    Raises:
        InvalidRequest: there is none.
    """
    if name not in STRATEGIES:
        raise InvalidRequest(f"strategy is {name!r}; it must be one of {', '.join(STRATEGIES)}.")
    return STRATEGIES[name]
