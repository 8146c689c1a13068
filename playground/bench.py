"""Strategies over a file of prompts, interleaved in one process, and against transformers' own generate.

It knows models and strategies, and prints nothing. Every number is a median over prompts of what one prompt
gave; playground.metrics says what the numbers are.
"""

import copy
import json
import statistics
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from playground.cache import PrefixModel
from playground.generate_arguments import Part, draft_length, drafting, drafts_by, law
from playground.metrics import Tally
from playground.models import Loaded
from playground.race import race
from playground.run import Prepared
from playground.trace import Event, Finished, InvalidRequest, Round, Started

ALL = "all"
WARM_UP_TOKENS = 8
Numbers = dict[str, float | None]
Step = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Task:
    """A prompt of the benchmark and its kind."""

    kind: str
    prompt: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """What one prompt gave for one strategy."""

    strategy: str
    kind: str
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Raced:
    """What one prompt gave for one lane: its sums, and its numbers."""

    tally: Tally
    numbers: Numbers


def read_tasks(path: Path, kinds: Sequence[str] = (), limit: int | None = None) -> tuple[Task, ...]:
    """The file's lines, of these `kinds` (none: of all), at most `limit` a kind, in the file's order.

    Raises:
        InvalidRequest: the file cannot be read, a line is none of {"kind": ..., "prompt": ...}, or nothing is left.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"prompts is {str(path)!r}, which cannot be read: {error}") from error
    tasks = [task_of(line, f"{path} line {i}") for i, line in enumerate(lines, 1) if line.strip()]
    unknown = [kind for kind in kinds if kind not in {t.kind for t in tasks}]
    if unknown:
        known = ", ".join(dict.fromkeys(t.kind for t in tasks))
        raise InvalidRequest(f"kinds is {unknown[0]!r}; {path} has: {known}.")
    if limit is not None and limit < 1:
        raise InvalidRequest(f"limit is {limit!r}; it must be a whole number of 1 or more.")
    kept: list[Task] = []
    for task in tasks:
        if (not kinds or task.kind in kinds) and (limit is None or sum(t.kind == task.kind for t in kept) < limit):
            kept.append(task)
    if not kept:
        raise InvalidRequest(f"{path} holds no prompt.")
    return tuple(kept)


def task_of(line: str, where: str) -> Task:
    """The task of a line of JSON; `where` is what an error calls the line.

    Raises:
        InvalidRequest: it is none of {"kind": ..., "prompt": ...}.
    """
    try:
        data = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidRequest(f"{where} is no JSON: {error}") from error
    if not isinstance(data, dict):
        raise InvalidRequest(f'{where} must be an object {{"kind": ..., "prompt": ...}}.')
    for name in ("kind", "prompt"):
        value = data.get(name)
        if not isinstance(value, str) or not value.strip():
            raise InvalidRequest(f"{where}: {name} is {value!r}; it must be a non-empty text.")
    if data["kind"] == ALL:
        raise InvalidRequest(f"{where}: kind is {ALL!r}, which stands for all kinds together; choose another.")
    return Task(data["kind"], data["prompt"])


def bench(
    tasks: Sequence[Task],
    lanes_of: Callable[[Task], Sequence[Prepared]],
    *,
    labels: Sequence[str] | None = None,
    against_generate: bool = False,
    step: Step = lambda kind: None,
) -> Iterator[Measurement]:
    """Measure every task. `lanes_of` gives its runs, plain decoding first; `labels` names them (default: by their
    strategies); `step` is told of every part done.

    With `against_generate` each strategy that transformers has is also run alone, right before or right after
    `generate` (in turns), and timed from outside, prompt reading and observing included.
    """
    for task in tasks:
        lanes_of(task)[0].check_length()  # what cannot be run is refused before anything is measured
    _warm_up(lanes_of(tasks[0]), against_generate)
    for number, task in enumerate(tasks):
        lanes = lanes_of(task)
        measured = measure(lanes)
        step(task.kind)
        for turn, (lane, numbers) in enumerate(zip(lanes, measured, strict=True)):
            ratio = None
            if against_generate:
                ratio = generate_ratio(lane, ours_first=(number + turn) % 2 == 0)
                step(task.kind)
            label = labels[turn] if labels else lane.request.strategy
            yield Measurement(label, task.kind, {**numbers, "generate_ratio": ratio})


def _warm_up(lanes: Sequence[Prepared], against_generate: bool) -> None:
    # The first passes of a process pay for allocations and for code that is built on first use.
    for lane in lanes:
        few = min(WARM_UP_TOKENS, lane.request.max_new_tokens)
        short = replace(lane, request=replace(lane.request, max_new_tokens=few))
        measure([short])
        if against_generate:
            generate_ratio(short, ours_first=True)


def measure(lanes: Sequence[Prepared]) -> list[Numbers]:
    """The numbers of a `racing` from its start to its end, a lane each."""
    steps = racing(lanes)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return [one.numbers for one in end.value]


def racing(lanes: Sequence[Prepared]) -> Generator[tuple[int, Event], None, list[Raced]]:
    """Race `lanes` (the first is the baseline of all) a step at a time, so that whoever iterates can stop in between.

    Yields what `race` does. Returns, a lane each, every number of playground.metrics and `outside_passes`: the share
    of its rounds that was spent outside model passes, observing included.
    """
    tallies = [Tally() for _ in lanes]
    inside = [0.0] * len(lanes)
    followed: list[list[PrefixModel]] = [[] for _ in lanes]

    def passes(lane: int) -> float:
        return sum(model.pass_seconds for model in followed[lane])

    runs = [prepared.events(followed=mine) for prepared, mine in zip(lanes, followed, strict=True)]
    with closing(race(runs)) as events:
        for lane, event in events:
            if isinstance(event, Started):
                tallies[lane].start(event)
                inside[lane] = -passes(lane)
            elif isinstance(event, Round):
                tallies[lane].add(event)
            elif isinstance(event, Finished):
                inside[lane] += passes(lane)
            yield lane, event
    outside = [1 - s / (t.decode_seconds + t.observe_seconds) for t, s in zip(tallies, inside, strict=True)]
    return [
        Raced(tally, {**tally.numbers(tallies[0]), "outside_passes": share})
        for tally, share in zip(tallies, outside, strict=True)
    ]


def generate_ratio(prepared: Prepared, *, ours_first: bool) -> float | None:
    """Our tokens per second over those of `generate` with the same models, prompt and settings, each run alone
    and timed from its call to its last token. None where transformers has no such strategy."""
    options = _generate_options(prepared)
    if options is None:
        return None
    speeds: dict[str, float] = {}
    for who in ("ours", "theirs") if ours_first else ("theirs", "ours"):
        begin = time.perf_counter()
        if who == "ours":
            tokens = sum(len(e.emitted) for _, e in race([prepared.events()]) if isinstance(e, Round))
        else:
            tokens = len(generate(prepared, options))
        speeds[who] = tokens / (time.perf_counter() - begin)
    return speeds["ours"] / speeds["theirs"]


def _generate_options(prepared: Prepared) -> dict[str, Any] | None:
    """What makes `generate` draft in this way; None where it cannot."""
    request, target, assistant = prepared.request, prepared.target, prepared.assistant
    arguments = drafting(request)
    if request.strategy == "plain" or arguments is None:
        return arguments
    if request.verifier not in ("exact", "ensemble") or (Part.ASSISTANT in arguments.values() and assistant is None):
        return None
    if request.strategy == "universal" and assistant is not None:
        return _universal_options(target, assistant)
    return {
        name: assistant.model if value is Part.ASSISTANT and assistant else value for name, value in arguments.items()
    }


def _universal_options(target: Loaded, assistant: Loaded) -> dict[str, Any] | None:
    rows = [one.model.config.get_text_config().vocab_size for one in (target, assistant)]
    if rows[0] == rows[1]:  # taken for the same tokenizer there
        same = target.tokenizer.get_vocab() == assistant.tokenizer.get_vocab()
        return {"assistant_model": assistant.model} if same else None
    return {
        "assistant_model": assistant.model,
        "tokenizer": target.tokenizer,
        "assistant_tokenizer": assistant.tokenizer,
    }


def generate(prepared: Prepared, options: dict[str, Any]) -> list[int]:
    """The token ids that transformers' own `generate` writes for this request."""
    request = prepared.request
    prompt = torch.tensor([request.prompt_ids], device=prepared.target.model.device)
    if request.temperature > 0:
        torch.manual_seed(request.seed)
    drafter = prepared.target.model if drafts_by(options) == "model" else options.get("assistant_model")
    with _drafts_of(drafter, draft_length(request)):
        out = prepared.target.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=request.max_new_tokens,
            eos_token_id=list(request.stop_ids) or None,
            pad_token_id=request.stop_ids[0] if request.stop_ids else 0,
            **law(request),
            **options,
        )
    ids: list[int] = out[0, prompt.shape[1] :].tolist()
    return ids


@contextmanager
def _drafts_of(assistant: Any, lengths: dict[str, Any]) -> Iterator[None]:
    """With these settings of the model that drafts: `generate` takes the length of a draft from there alone."""
    if assistant is None:
        yield
        return
    kept = assistant.generation_config
    assistant.generation_config = copy.deepcopy(kept)
    for name, value in lengths.items():
        setattr(assistant.generation_config, name, value)
    try:
        yield
    finally:
        assistant.generation_config = kept


def rows(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """A row a strategy and kind, in order of appearance, then the kind `all`: `n` prompts and the medians of
    what was defined for them."""
    strategies = list(dict.fromkeys(m.strategy for m in measurements))
    kinds = [*dict.fromkeys(m.kind for m in measurements), ALL]
    cells = [
        (strategy, kind, [m.numbers for m in measurements if m.strategy == strategy and kind in (m.kind, ALL)])
        for kind in kinds
        for strategy in strategies
    ]
    return [_row(strategy, kind, numbers) for strategy, kind, numbers in cells if numbers]


def _row(strategy: str, kind: str, numbers: Sequence[Numbers]) -> dict[str, Any]:
    medians = {name: _median(numbers, name) for name in numbers[0]}
    return {"strategy": strategy, "kind": kind, "n": len(numbers), **medians}


def _median(numbers: Sequence[Numbers], name: str) -> float | None:
    defined = [value for one in numbers if (value := one[name]) is not None]
    return statistics.median(defined) if defined else None
