"""What the results of a comparison say: medians with bootstrap intervals, by combination and kind, and files of all
that was measured. It knows no model and no page."""

import csv
import io
import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from playground.bench import Task
from playground.compare import Combination, Result, Skipped

RESAMPLES = 1000
LEVEL = 0.95
SEED = 0
SCHEMA = "speculation-playground/comparison"
VERSION = 1
SHOWN = (
    "measured_speedup", "tested_acceptance_rate", "tokens_per_pass", "cost_ratio", "tokens_per_second", "tv",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median over `n` prompts with the ends of its 95 % bootstrap interval."""

    median: float
    low: float
    high: float
    n: int


def bootstrap(values: Sequence[float]) -> Estimate | None:
    """The median of `values` and its percentile bootstrap interval: 1000 resamples, the same ones each time. None:
    there is no value.

    Source: Efron 1979, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7(1).
    """
    if not values:
        return None
    sample = np.asarray(values, dtype=np.float64)
    medians = np.median(sample[_resamples(len(sample))], axis=1)
    low, high = np.quantile(medians, [(1 - LEVEL) / 2, (1 + LEVEL) / 2], method="inverted_cdf")
    return Estimate(float(np.median(sample)), float(low), float(high), len(sample))


@lru_cache(maxsize=64)
def _resamples(n: int) -> Any:
    return np.random.default_rng(SEED).integers(0, n, size=(RESAMPLES, n), dtype=np.int32)


def by_task(results: Sequence[Result], number: str) -> list[float]:
    """The values of a number, one a prompt. Plain decoding, which takes part in every race of a prompt, gives the
    median of these."""
    found: dict[int, list[float]] = {}
    for result in results:
        value = result.numbers[number]
        if value is not None:
            found.setdefault(result.task, []).append(value)
    return [statistics.median(values) for values in found.values()]


def of_each(results: Sequence[Result]) -> dict[Combination, list[Result]]:
    """The results by combination, in order of appearance: plain decoding comes first."""
    found: dict[Combination, list[Result]] = {}
    for result in results:
        found.setdefault(result.combination, []).append(result)
    return found


def table(results: Sequence[Result]) -> list[tuple[Combination, int, dict[str, Estimate | None]]]:
    """A row a combination: it, its count of prompts, an estimate for each number of SHOWN."""
    return [
        (way, len({r.task for r in own}), {name: bootstrap(by_task(own, name)) for name in SHOWN})
        for way, own in of_each(results).items()
    ]


def speedup_by_kind(
    results: Sequence[Result], tasks: Sequence[Task]
) -> tuple[list[str], list[tuple[Combination, list[Estimate | None]]]]:
    """The kinds in the tasks' order; and for every combination but plain decoding the speedup of each kind, then of
    all together."""
    kinds = list(dict.fromkeys(task.kind for task in tasks))
    rows = []
    for way, own in of_each(results).items():
        if way.strategy == "plain":
            continue
        split = [[r for r in own if tasks[r.task].kind == kind] for kind in kinds]
        rows.append((way, [bootstrap(by_task(part, "measured_speedup")) for part in (*split, own)]))
    return kinds, rows


def best_k(speedups: Mapping[int, Estimate]) -> int | None:
    """The K of the highest median, the smallest where several have it; None where fewer than two were measured."""
    return max(sorted(speedups), key=lambda k: speedups[k].median) if len(speedups) > 1 else None


def positions(own: Sequence[Result]) -> tuple[list[float | None], list[float | None]]:
    """Acceptance at each place of a draft over all prompts together: of all drafts that were so long, and of those
    whose guesses before it were all kept."""
    longest = max((len(r.drafted_at) for r in own), default=0)

    def total(of: Callable[[Result], tuple[int, ...]], place: int) -> int:
        return sum(counts[place] for r in own if place < len(counts := of(r)))

    unconditional: list[float | None] = []
    conditional: list[float | None] = []
    for place in range(longest):
        accepted = total(lambda r: r.accepted_at, place)
        for rates, of in ((unconditional, total(lambda r: r.drafted_at, place)),
                          (conditional, total(lambda r: r.tested_at, place))):  # fmt: skip
            rates.append(accepted / of if of else None)
    return unconditional, conditional


@dataclass(frozen=True, slots=True)
class Comparison:
    """All of a comparison so far, for a file. `settings` are those of all runs, `ways` those of each combination."""

    settings: Mapping[str, Any]
    tasks: Sequence[Task]
    results: Sequence[Result]
    skipped: Sequence[Skipped]
    ways: Mapping[Combination, Mapping[str, Any]]

    def to_json(self) -> str:
        """One JSON object: settings, prompts, what each prompt gave for each combination, medians with intervals."""
        ways = list(of_each(self.results))
        place = {way: i for i, way in enumerate(ways)}
        out = {
            "schema": SCHEMA,
            "version": VERSION,
            "settings": dict(self.settings),
            "prompts": [asdict(task) for task in self.tasks],
            "combinations": [{**asdict(way), **self.ways.get(way, {})} for way in ways],
            "measurements": [_plain(r, place[r.combination]) for r in self.results],
            "summary": [
                {"combination": place[way], "n": n, **{k: None if e is None else asdict(e) for k, e in cells.items()}}
                for way, n, cells in table(self.results)
            ],
            "intervals": {"level": LEVEL, "resamples": RESAMPLES, "seed": SEED, "method": "percentile bootstrap"},
            "skipped": [
                {"reason": s.reason, "prompt": s.task, **(asdict(s.combination) if s.combination else {})}
                for s in self.skipped
            ],
        }
        return json.dumps(out, allow_nan=False, ensure_ascii=False, indent=1)

    def to_csv(self) -> str:
        """A row for each prompt and combination, with the settings. A cell that a spreadsheet would take for a formula
        gets a quote in front."""
        out = io.StringIO()
        writer = csv.writer(out)
        names = list(self.results[0].numbers) if self.results else []
        parts = list(self.results[0].seconds) if self.results else []
        own = list(dict.fromkeys(name for way in self.ways.values() for name in way))
        writer.writerow([
            "prompt_number", "kind", "race", "strategy", "k", "verifier", *own, "emitted", "rounds", *names,
            *(f"{part}_seconds" for part in parts), *self.settings, "prompt",
        ])  # fmt: skip
        for r in self.results:
            task, way = self.tasks[r.task], self.ways.get(r.combination, {})
            row = [
                r.task + 1, task.kind, r.race + 1, r.combination.strategy, r.combination.k, r.combination.verifier,
                *(way.get(name) for name in own), r.emitted, r.rounds, *r.numbers.values(), *r.seconds.values(),
                *self.settings.values(), task.prompt,
            ]  # fmt: skip
            writer.writerow([_safe(value) for value in row])
        return out.getvalue()


def _plain(result: Result, combination: int) -> dict[str, Any]:
    out = asdict(result)
    return {"prompt": out.pop("task"), **out, "combination": combination}


def _safe(value: object) -> object:
    if isinstance(value, Mapping | list | tuple):
        value = json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
