"""The command `bench`: strategies over a file of prompts, as a table or as JSON."""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playground.bench import Task, bench, read_tasks, rows
from playground.cache import UncroppableCache
from playground.cli_run import library
from playground.cli_run import settings as settings_of
from playground.cli_show import METRICS, bar, loading, number, table
from playground.machine import use_threads
from playground.models import ASSETS, DEFAULT_TARGET, Library
from playground.run import Prepared, prepare
from playground.trace import InvalidRequest
from strategies import STRATEGIES, strategy

PROMPTS = ASSETS / "prompts" / "bench.jsonl"
HEADS = {
    "acceptance_rate": "accept",
    "tested_acceptance_rate": "tested",
    "alpha": "alpha",
    "tokens_per_pass": "tok/pass",
    "cost_ratio": "c",
    "tokens_per_second": "tok/s",
    "measured_speedup": "speedup",
    "predicted_speedup": "predicted",
    "efficiency": "effic.",
    "outside_passes": "outside",
    "generate_ratio": "/generate",
}


def command(args: argparse.Namespace) -> None:
    """Measure and print.

    Raises:
        InvalidRequest: a value is wrong; nothing was loaded unless only the models could tell.
    """
    variants = chosen(args.strategies, args.k)
    tasks = read_tasks(Path(args.prompts) if args.prompts else PROMPTS, _names(args.kinds), args.limit)
    shelf = library(args)
    against = args.against == "generate"
    parts = len(tasks) * (1 + (len(variants) if against else 0))

    def lanes_of(task: Task) -> list[Prepared]:
        return [_lane(shelf, args, task, variant) for variant in variants]

    try:
        lanes_of(tasks[0])  # loads the models, once all values have been checked
        threads = use_threads(args.threads)
        with bar(parts, "run") as progress:

            def step(kind: str) -> None:
                progress.set_postfix_str(kind, refresh=False)
                progress.update()

            labels = [variant.label for variant in variants]
            measured = list(bench(tasks, lanes_of, labels=labels, against_generate=against, step=step))
    except UncroppableCache as error:
        raise InvalidRequest(str(error)) from error
    lanes = lanes_of(tasks[0])
    named = dict(zip(labels, lanes, strict=True))
    _print(args, rows(measured), {**_settings(args, named), "threads": threads})


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy with a K and settings of its own, and the text that asked for it."""

    label: str
    strategy: str
    k: int
    settings: dict[str, object]


def chosen(names: str | None, k: int) -> list[Variant]:
    """What to compare, plain first, each once; every strategy where none is named. A name may be followed by
    settings: `assistant:k=2:schedule=heuristic`.

    Raises:
        InvalidRequest: there is no such strategy, or a setting is not NAME=VALUE.
    """
    wanted = list(STRATEGIES) if names is None else _names(names)
    return [_variant(label, k) for label in dict.fromkeys(["plain", *wanted])]


def _variant(label: str, k: int) -> Variant:
    name, *pairs = label.split(":")
    settings = settings_of(pairs)
    own_k = settings.pop("k", k)
    return Variant(label, strategy(name).name, own_k, settings)  # type: ignore[arg-type]  # Request checks it


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in (text or "").split(",") if name.strip()]


def _lane(shelf: Library, args: argparse.Namespace, task: Task, variant: Variant) -> Prepared:
    return prepare(
        shelf,
        task.prompt,
        target=args.target or DEFAULT_TARGET,
        assistant=args.assistant,
        strategy_name=variant.strategy,
        settings=variant.settings,
        chat=not args.no_chat,
        progress=loading(),
        max_new_tokens=args.max_new_tokens,
        k=variant.k,
        temperature=args.temperature,
        seed=args.seed,
    )


def _settings(args: argparse.Namespace, named: dict[str, Prepared]) -> dict[str, Any]:
    """What all rows have in common, and the settings of each strategy."""
    lanes = list(named.values())
    return {
        "target": lanes[0].request.target,
        "assistant": next((lane.request.assistant for lane in lanes if lane.assistant is not None), None),
        "strategies": {label: {"k": lane.request.k, **dict(lane.request.settings)} for label, lane in named.items()},
        "k": args.k,
        "temperature": args.temperature,
        "max_new_tokens": args.max_new_tokens,
        "seed": args.seed,
        "chat": not args.no_chat,
        "against": args.against,
        "dtype": lanes[0].target.dtype,
    }


def _print(args: argparse.Namespace, medians: list[dict[str, Any]], settings: dict[str, Any]) -> None:
    if args.json:
        keys = ("strategy", "kind", "n", *METRICS, "generate_ratio", "outside_passes")
        out = {"rows": [{key: row[key] for key in keys} for row in medians], "settings": settings}
        print(json.dumps(out, allow_nan=False))
        return
    shown = [name for name in HEADS if args.against or name != "generate_ratio"]
    body = [[r["strategy"], r["kind"], str(r["n"]), *(number(name, r[name]) for name in shown)] for r in medians]
    print(table(["strategy", "kind", "n", *(HEADS[name] for name in shown)], body))
    print(
        f"\nMedians over prompts. K = {args.k} where none is named, temperature {args.temperature:g}, at most "
        f"{args.max_new_tokens} tokens, {settings['dtype']}, threads: {settings['threads']}. "
        "outside: share of a round outside model passes."
    )
