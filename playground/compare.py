"""Many ways to guess over many prompts: strategies x K x verifiers, all interleaved with plain decoding.

All combinations of a prompt run in one race (playground.race) with plain decoding, so that the noise of the machine
hits them and their baseline alike; where there are more than `MOST_LANES`, they are dealt to several races of about
the same size, each with plain decoding of its own: every lane holds a cache of its own in memory, and a baseline that
is measured minutes earlier is none. Prompts go in a round over their kinds, so that what is there after a while is
balanced. The numbers are those of playground.bench; this file knows no page.
"""

import re
import reprlib
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from playground.bench import WARM_UP_TOKENS, Numbers, Raced, Task, racing
from playground.cache import UncroppableCache
from playground.catalogue import usual_assistant
from playground.run import Prepared
from playground.sampling import VERIFIERS
from playground.trace import MAX_K, InvalidRequest, Round
from strategies import STRATEGIES

MOST_LANES = 12  # of a race, besides plain decoding
MOST_COMBINATIONS = 60
LONGEST_LIST = 200  # characters of a list of K
STEP_SECONDS = 0.05  # of a job: others wait no longer, and a Stop
TRIAL = "Once upon a time there was"  # what is tried and warmed up on, whatever the prompts are


class Refused(InvalidRequest):
    """A choice that cannot be run. `text` and `values` are the parts of the message, for whoever translates it."""

    def __init__(self, text: str, **values: object) -> None:
        self.text = text
        self.values = values
        super().__init__(text.format(**values))


def shown(value: object) -> str:
    """How a message names a value, whatever it is and however long."""
    return reprlib.repr(value)


@dataclass(frozen=True, slots=True)
class Combination:
    """A way to guess: a strategy, the most tokens of its drafts, and the verifier that tests them."""

    strategy: str
    k: int
    verifier: str


PLAIN = Combination("plain", 1, "exact")


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is not measured, and why: a combination, or else a prompt (by its place among the tasks)."""

    reason: str
    combination: Combination | None = None
    task: int | None = None


@dataclass(frozen=True, slots=True)
class Trying:
    """The combination that is tried next, on a few tokens."""

    combination: Combination


@dataclass(frozen=True, slots=True)
class Progress:
    """Tokens written of those that all lanes together may write. A lane that ended early counts as whole."""

    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Result:
    """What one prompt (its place among the tasks) gave for one combination: numbers of playground.metrics, seconds by
    part, counts by position in the draft. `race` counts the races of the prompt."""

    task: int
    race: int
    combination: Combination
    numbers: Numbers
    seconds: dict[str, float]
    emitted: int
    rounds: int
    drafted_at: tuple[int, ...]
    tested_at: tuple[int, ...]
    accepted_at: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Measured:
    """A race that is over: the results of a prompt, plain decoding's first. `last` says that the prompt is done."""

    results: tuple[Result, ...]
    last: bool


Event = Trying | Skipped | Progress | Measured
Prepare = Callable[[Combination, str], Prepared]
Call = Callable[[Callable[[], Any]], Any]


def parse_ks(text: object) -> tuple[int, ...]:
    """The K that a list such as `1-6` or `2, 4, 8` names, each once, in order.

    Raises:
        Refused: it is none, or a K is out of range.
    """
    if not isinstance(text, str) or len(text) > LONGEST_LIST or not text.strip(" ,;"):
        raise Refused("K is {value}; it must be a list such as 1-6 or 2, 4, 8.", value=shown(text))
    found: set[int] = set()
    for part in filter(None, re.split(r"[,;\s]+", re.sub(r"\s*[-–]\s*", "-", text.strip()))):
        match = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part)
        if match is None:
            raise Refused("K has {value} in it; it must be a list such as 1-6 or 2, 4, 8.", value=shown(part))
        low, high = int(match[1]), int(match[2] or match[1])
        if not 1 <= low <= high <= MAX_K:
            raise Refused(
                "K has {value} in it; each must be a whole number from 1 to {most}, the smaller end first.",
                value=shown(part), most=MAX_K,
            )  # fmt: skip
        found |= set(range(low, high + 1))
    return tuple(sorted(found))


def combinations(strategies: Sequence[str], ks: Sequence[int], verifiers: Sequence[str]) -> tuple[Combination, ...]:
    """Every combination, in the order of the registries.

    Raises:
        Refused: nothing is chosen, there is no such strategy or verifier, or there are too many combinations.
    """
    drafting = [name for name, one in STRATEGIES.items() if one.drafts]
    for kind, chosen, known in (("strategy", strategies, drafting), ("verifier", verifiers, list(VERIFIERS))):
        if not chosen:
            raise Refused("No {kind} is chosen: choose one or more.", kind=kind)
        unknown = [name for name in chosen if name not in known]
        if unknown:
            known_names = ", ".join(known)
            raise Refused("{kind} is {value}; it must be one of {known}.", kind=kind, value=shown(unknown[0]),
                          known=known_names)  # fmt: skip
    found = tuple(
        Combination(strategy, k, verifier)
        for strategy in drafting if strategy in strategies
        for verifier in VERIFIERS if verifier in verifiers
        for k in ks
    )  # fmt: skip
    if len(found) > MOST_COMBINATIONS:
        raise Refused(
            "Strategies, K and verifiers make {n} combinations, and at most {most} can be compared at once: choose "
            "fewer of them.", n=len(found), most=MOST_COMBINATIONS,
        )  # fmt: skip
    return found


def in_turn(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks in a round over their kinds: the first of each, then the second of each, and so on."""
    seen: dict[str, int] = {}
    placed = []
    for task in tasks:
        seen[task.kind] = seen.get(task.kind, 0) + 1
        placed.append((seen[task.kind], task))
    return tuple(task for _, task in sorted(placed, key=lambda one: one[0]))


def assistants(target: str, chosen: str | None, chosen_for: str, strategy: str) -> tuple[str | None, ...]:
    """Which assistants to try with `strategy`, the best first, where a person chose `chosen` for `chosen_for`.

    One that is only the usual one of another strategy says nothing: each strategy then gets its own usual one.
    """
    usual = usual_assistant(target, strategy)
    if not chosen or (strategy != chosen_for and chosen == usual_assistant(target, chosen_for)):
        return (usual,)
    return tuple(dict.fromkeys((chosen, usual)))


def races(usable: Sequence[Combination]) -> list[tuple[Combination, ...]]:
    """The combinations dealt to as few races as `MOST_LANES` allows, of about the same size."""
    count = -(-len(usable) // MOST_LANES)
    return [tuple(usable[i * len(usable) // count : (i + 1) * len(usable) // count]) for i in range(count)]


def compare(
    tasks: Sequence[Task], wanted: Sequence[Combination], prepare: Prepare, call: Call = lambda work: work()
) -> Generator[Event, None, None]:
    """Measure every combination on every task, in the tasks' order. Closing it ends it within a round.

    `prepare` makes the run of a combination on a prompt; `call` runs a short piece of work where models run. A
    combination that cannot be run, and a prompt that the models cannot read, is told of and left out.

    Raises:
        InvalidRequest: not even plain decoding can be run.
    """
    new_tokens = call(lambda: prepare(PLAIN, TRIAL)).request.max_new_tokens
    usable = []
    for combination in wanted:
        yield Trying(combination)
        try:
            one = call(partial(prepare, combination, TRIAL))
            short = replace(one, request=replace(one.request, max_new_tokens=min(WARM_UP_TOKENS, new_tokens)))
            yield from _silent(_stepped([short], call))
        except (InvalidRequest, UncroppableCache) as error:
            yield Skipped(str(error), combination)
            continue
        usable.append(combination)
    if not usable:
        return
    dealt = races(usable)
    total = new_tokens * len(tasks) * (len(usable) + len(dealt))
    whole = 0
    for place, task in enumerate(tasks):
        for number, group in enumerate(dealt):
            ways = (PLAIN, *group)
            try:
                lanes = [call(partial(prepare, way, task.prompt)) for way in ways]
            except InvalidRequest as error:
                yield Skipped(str(error), task=place)
                whole += new_tokens * sum(len(rest) + 1 for rest in dealt[number:])
                break
            raced = yield from _counted(_stepped(lanes, call), whole, total)
            whole += new_tokens * len(lanes)
            yield Progress(whole, total)
            results = tuple(_result(place, number, way, one) for way, one in zip(ways, raced, strict=True))
            yield Measured(results, last=number == len(dealt) - 1)


def _result(task: int, race: int, way: Combination, raced: Raced) -> Result:
    tally = raced.tally
    counts = (tuple(tally.drafted_at), tuple(tally.tested_at), tuple(tally.accepted_at))
    return Result(task, race, way, raced.numbers, tally.seconds(), tally.emitted, tally.rounds, *counts)


def _stepped(lanes: Sequence[Prepared], call: Call) -> Generator[int, None, list[Raced]]:
    """A racing in jobs of about STEP_SECONDS; yields the tokens that each wrote."""
    steps = racing(lanes)

    def job() -> tuple[int, list[Raced] | None]:
        written, end_of_job = 0, time.monotonic() + STEP_SECONDS
        while True:
            try:
                _, event = next(steps)
            except StopIteration as end:
                return written, end.value
            written += len(event.emitted) if isinstance(event, Round) else 0
            if time.monotonic() >= end_of_job:
                return written, None

    try:
        while True:
            written, raced = call(job)
            yield written
            if raced is not None:
                return raced
    finally:
        call(steps.close)


def _silent(steps: Generator[int, None, list[Raced]]) -> Iterator[Progress]:
    try:
        for _ in steps:
            yield Progress(0, 0)  # nobody counts these, but whoever iterates can stop here
    finally:
        steps.close()


def _counted(
    steps: Generator[int, None, list[Raced]], whole: int, total: int
) -> Generator[Progress, None, list[Raced]]:
    try:
        while True:
            whole += next(steps)
            yield Progress(whole, total)
    except StopIteration as end:
        return end.value
    finally:
        steps.close()
