"""Streams of prompts for sampling the target, and the filter that keeps the evaluation out.

No prompt of the evaluation file comes out of `mixed_prompts`, and none twice.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from playground.training.rewriting import rewriting_prompt
from playground.training.shards import training_dir
from playground.training.templates import TEMPLATES, Rng

BENCH = Path(__file__).resolve().parents[2] / "assets" / "prompts" / "bench.jsonl"


def normal(text: str) -> str:
    """Lower-case words of `text`: the form in which prompts are compared."""
    return re.sub(r"\W+", " ", text).strip().lower()


class BenchFilter:
    """Says which prompts must not be trained on: those of the evaluation file, however spelled."""

    def __init__(self, path: Path = BENCH) -> None:
        self._prompts: set[str] = set()
        self._runs: set[str] = set()
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                text = normal(json.loads(line)["prompt"])
                self._prompts.add(text)
                parts = text.split()
                self._runs.update(" ".join(parts[i : i + 8]) for i in range(len(parts) - 7))

    def excludes(self, prompt: str) -> bool:
        """True for an evaluation prompt, or one that shares eight words in a row with one."""
        text = normal(prompt)
        if text in self._prompts:
            return True
        parts = text.split()
        return any(" ".join(parts[i : i + 8]) in self._runs for i in range(len(parts) - 7))


def template_prompts(rng: Rng, texts: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Endless (kind, prompt); `texts` are what rewriting tasks are made from."""
    kinds = ["story", "explain", "code", "chat", "list", "letter", "question"]
    weights = np.array([3.0, 3.0, 3.0, 2.0, 1.0, 1.0, 0.7])
    if len(texts):
        kinds, weights = [*kinds, "rewrite"], np.append(weights, 4.0)
    weights /= weights.sum()
    while True:
        kind = str(rng.choice(kinds, p=weights))
        yield kind, rewriting_prompt(rng, texts) if kind == "rewrite" else TEMPLATES[kind](rng)


def magpie_prompts(rng: Rng) -> Iterator[tuple[str, str]]:
    """User turns that the target wrote itself, in random order; reads the files again at the end."""
    seen: set[str] = set()
    while True:
        fresh = [
            ast.literal_eval(line)
            for path in sorted((training_dir() / "magpie").glob("*.txt"))
            for line in path.read_text(encoding="utf-8").splitlines()
            if line.endswith(("'", '"'))
        ]
        fresh = [text for text in dict.fromkeys(fresh) if text not in seen]
        if not fresh:
            return
        for place in rng.permutation(len(fresh))[:2000]:
            seen.add(fresh[place])
            yield "magpie", fresh[place]


def mixed_prompts(rng: Rng, texts: Sequence[str], magpie_share: float, done: set[str]) -> Iterator[tuple[str, str]]:
    """Endless (kind, prompt), each prompt once, none of `done`, none of the evaluation file."""
    bench, magpie, templates = BenchFilter(), magpie_prompts(rng), template_prompts(rng, texts)
    while True:
        pair = next(magpie, None) if rng.random() < magpie_share else None
        kind, prompt = pair or next(templates)
        key = normal(prompt)
        if key in done or bench.excludes(prompt):
            continue
        done.add(key)
        yield kind, prompt
