"""Ours against transformers' `generate`, strategy by strategy: a record, not a test.

    PYTHONPATH=. python tests/record_oracle.py [--prompts 20] [--tokens 64] [--threads 2] [PRESET ...]

float32, temperature 0, held-out prompts. For each preset that has such a path in `generate`: on how many prompts the
ids are the same, and on how many every round emitted as many tokens, with the settings that mean the same there.
"""

import argparse
from dataclasses import replace
from typing import Any

import torch

from playground import bench
from playground.bench import read_tasks
from playground.models import ASSETS, Library
from playground.presets import PRESETS, Preset, prepare_preset
from playground.run import Prepared
from playground.trace import Round, emitted_ids

# Where the default means something else in transformers.
SAME: dict[str, dict[str, Any]] = {
    "assistant": {"settings": {"vocabulary": "full"}},
    "prompt-lookup": {"settings": {"take": "first"}},
    "mtp": {"k": 1},
}


class Counter:
    """A streamer that keeps how many ids came at once."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def put(self, ids: torch.Tensor) -> None:
        """A round's ids; first the prompt."""
        self.counts.append(ids.numel())

    def end(self) -> None:
        """Nothing."""


def compare(run: Prepared) -> tuple[bool, bool]:
    """Whether the ids are the same, and whether those of every round."""
    rounds = [e for e in run.events() if isinstance(e, Round)]
    streamer = Counter()
    options = bench._generate_options(run)
    assert options is not None
    theirs = bench.generate(run, {**options, "streamer": streamer})
    ours = [len(r.emitted) for r in rounds]
    return list(emitted_ids(rounds)) == theirs, ours == streamer.counts[1:]


def greedy(library: Library, one: Preset, prompt: str, tokens: int) -> Prepared:
    """The preset at temperature 0, as `generate` would do it."""
    values = SAME.get(one.strategy, {})
    run = prepare_preset(
        library, one, prompt, temperature=0.0, verifier="exact", verifier_settings={}, max_new_tokens=tokens,
        **{"settings": one.settings, "k": one.k} | values,
    )  # fmt: skip
    return replace(run, request=replace(run.request, seed=0))


def main() -> None:
    """Print a line a preset."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("presets", nargs="*")
    parser.add_argument("--prompts", type=int, default=20)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    library = Library(dtype="float32")
    chosen = [PRESETS[name] for name in args.presets] or [p for p in PRESETS.values() if p.bundled]
    seen = set()
    for one in chosen:
        key = (one.strategy, one.target, one.assistant)
        tasks = read_tasks(ASSETS / "prompts" / one.prompts, one.kinds)
        runs = [greedy(library, one, task.prompt, args.tokens) for task in tasks[: args.prompts]]
        if key in seen or bench._generate_options(runs[0]) is None:
            continue
        seen.add(key)
        pairs = [compare(run) for run in runs]
        same, rounds = sum(a for a, _ in pairs), sum(b for _, b in pairs)
        print(f"{one.name:24} {len(pairs)} prompts: same ids {same}, same counts in every round {rounds}", flush=True)


if __name__ == "__main__":
    main()
