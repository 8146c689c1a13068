"""The command `bench`: strategies over a file of prompts, as a table or as JSON."""

import argparse
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playground.bench import Task, bench, read_tasks, rows
from playground.cache import UncroppableCache
from playground.cli_run import library
from playground.cli_run import settings as settings_of
from playground.cli_show import METRICS, bar, loading, number, table
from playground.machine import use_threads
from playground.models import ASSETS, DEFAULT_TARGET, Library
from playground.presets import PRESETS, Preset, prepare_preset, preset
from playground.run import Prepared, prepare, settle_verifier
from playground.sampling import is_lossless, verifier
from playground.trace import InvalidRequest, Request
from strategies import STRATEGIES, strategy

PROMPTS = ASSETS / "prompts" / "bench.jsonl"
HEADS = {
    "acceptance_rate": "accept",
    "tested_acceptance_rate": "tested",
    "alpha": "alpha",
    "tv": "TV",
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
    if args.presets is not None:
        _command_presets(args)
        return
    variants = chosen(args.strategies, args.k)
    tasks = read_tasks(Path(args.prompts) if args.prompts else PROMPTS, _names(args.kinds), args.limit)
    shelf = library(args)
    against = args.against == "generate"
    parts = len(tasks) * (1 + (len(variants) if against else 0))

    def lanes_of(task: Task) -> list[Prepared]:
        return [_lane(shelf, args, task, variant) for variant in variants]

    try:
        # Loads the models, once all values have been checked.
        refused = {} if args.strategies is not None else _refused(shelf, args, tasks[0], variants)
        variants = [v for v in variants if v.label not in refused]
        lanes_of(tasks[0])
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
    how = (
        f"K = {args.k} where none is named, temperature {args.temperature:g}, at most {args.max_new_tokens} tokens, "
        f"{lanes[0].target.dtype}"
    )
    _print(args, rows(measured), {**_settings(args, named), "refused": refused, "threads": threads}, how)


def _command_presets(args: argparse.Namespace) -> None:
    """Measure presets one after another, each on its own pair and prompts, interleaved with plain decoding.

    Raises:
        InvalidRequest: there is no such preset, or a flag contradicts what a preset says.
    """
    given = [n for n in ("strategies", "target", "assistant", "prompts", "kinds") if getattr(args, n) is not None]
    if given:
        raise InvalidRequest(
            f"{given[0]} is {getattr(args, given[0])!r}; with presets, each brings its own: leave it out."
        )
    wanted = _names(args.presets) or [p.name for p in PRESETS.values() if p.bundled]
    presets = [preset(name) for name in wanted]
    tasks = [read_tasks(ASSETS / "prompts" / p.prompts, p.kinds, args.limit) for p in presets]
    shelf, against, threads = library(args), args.against == "generate", use_threads(args.threads)
    medians: list[dict[str, Any]] = []
    used: dict[str, Any] = {}
    try:
        with bar(sum(len(each) * (3 if against else 1) for each in tasks), "run") as progress:
            for one, own in zip(presets, tasks, strict=True):
                run = prepare_preset(shelf, one, own[0].prompt, progress=loading())
                used[one.name] = {"target": one.target, "assistant": one.assistant, **_own(run.request)}
                used[one.name] |= {"dtype": run.target.dtype, "temperature": one.temperature}
                medians += _measure_preset(shelf, one, own, against, progress)
    except UncroppableCache as error:
        raise InvalidRequest(str(error)) from error
    _print(args, medians, {"presets": used, "threads": threads}, "Each preset with its own K and temperature")


def _measure_preset(
    shelf: Library, one: Preset, tasks: Sequence[Task], against: bool, progress: Any
) -> list[dict[str, Any]]:
    def lanes_of(task: Task) -> list[Prepared]:
        run = prepare_preset(shelf, one, task.prompt, progress=loading())
        return [run.plain(), run]

    def step(kind: str) -> None:
        progress.set_postfix_str(f"{one.name}, {kind}", refresh=False)
        progress.update()

    measured = bench(tasks, lanes_of, labels=[f"plain ({one.name})", one.name], against_generate=against, step=step)
    return rows(list(measured))


@dataclass(frozen=True, slots=True)
class Variant:
    """A strategy with a K, a verifier and settings of its own, and the text that asked for it."""

    label: str
    strategy: str
    k: int
    settings: dict[str, object]
    verifier: str = "exact"
    verifier_settings: dict[str, object] = field(default_factory=dict)


def chosen(names: str | None, k: int) -> list[Variant]:
    """What to compare, plain first, each once; every strategy where none is named. A name may be followed by
    settings, its own, `k`, and `verifier` with the verifier's: `assistant:k=2:verifier=ensemble:weight=0.7`.

    Raises:
        InvalidRequest: nothing is named, there is no such strategy or verifier, or a setting is not NAME=VALUE or
            cannot be.
    """
    wanted = list(STRATEGIES) if names is None else _names(names)
    if not wanted:
        raise InvalidRequest(
            f"strategies is {names!r}; it must name at least one of {', '.join(STRATEGIES)}, or be left out for all."
        )
    return [_variant(label, k) for label in dict.fromkeys(["plain", *wanted])]


def _variant(label: str, k: int) -> Variant:
    name, *pairs = label.split(":")
    settings = settings_of(pairs)
    own_k = settings.pop("k", k)
    rule = str(settings.pop("verifier", "exact"))
    its = {c.name: settings.pop(c.name) for c in verifier(rule).settings if c.name in settings}
    way = strategy(name)
    way.settled(settings)
    settle_verifier(rule, its, way, settings)
    return Variant(label, name, own_k, settings, rule, its)  # type: ignore[arg-type]  # Request checks k


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
        verifier=variant.verifier,
        verifier_settings=variant.verifier_settings,
        chat=not args.no_chat,
        progress=loading(),
        max_new_tokens=args.max_new_tokens,
        k=variant.k,
        temperature=args.temperature,
        seed=args.seed,
    )


def _refused(shelf: Library, args: argparse.Namespace, task: Task, variants: Sequence[Variant]) -> dict[str, str]:
    """Of all strategies those that cannot run with these models, and why. Plain decoding always can, or nothing."""
    _lane(shelf, args, task, variants[0])
    reasons = {}
    for variant in variants[1:]:
        try:
            _lane(shelf, args, task, variant)
        except InvalidRequest as error:
            reasons[variant.label] = str(error)
    return reasons


def _settings(args: argparse.Namespace, named: dict[str, Prepared]) -> dict[str, Any]:
    """What all rows have in common, and the settings of each strategy."""
    lanes = list(named.values())
    return {
        "target": lanes[0].request.target,
        "assistant": next((lane.request.assistant for lane in lanes if lane.assistant is not None), None),
        "strategies": {label: _own(lane.request) for label, lane in named.items()},
        "k": args.k,
        "temperature": args.temperature,
        "max_new_tokens": args.max_new_tokens,
        "seed": args.seed,
        "chat": not args.no_chat,
        "against": args.against,
        "dtype": lanes[0].target.dtype,
    }


def _own(request: Request) -> dict[str, Any]:
    rule = {"verifier": request.verifier, **dict(request.verifier_settings), "lossless": is_lossless(request)}
    return {"k": request.k, **dict(request.settings), **rule}


def _print(args: argparse.Namespace, medians: list[dict[str, Any]], settings: dict[str, Any], how: str) -> None:
    if args.json:
        keys = ("strategy", "kind", "n", *METRICS, "generate_ratio", "outside_passes")
        out = {"rows": [{key: row[key] for key in keys} for row in medians], "settings": settings}
        print(json.dumps(out, allow_nan=False))
        return
    shown = [name for name in HEADS if args.against or name != "generate_ratio"]
    body = [[r["strategy"], r["kind"], str(r["n"]), *(number(name, r[name]) for name in shown)] for r in medians]
    print(table(["strategy", "kind", "n", *(HEADS[name] for name in shown)], body))
    print(
        f"\nMedians over prompts. {how}, threads: {settings['threads']}. "
        "outside: share of a round outside model passes."
        + "".join(f"\nNot measured: {name}. {why}" for name, why in settings.get("refused", {}).items())
    )
