"""Batches for distillation out of shards and of plain samples; knows no model."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from playground.training.prompts import BenchFilter
from playground.training.shards import Sample, read_shard, sample_key, training_dir

KEEP = 10
SMALLEST = 4e-3
SHARPEN = 0.4
COPYING, GREEDY = 3.0, 2.0
"""How much more often rewriting tasks, and greedy answers, are drawn in the half drawn freely."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded sequences and their targets.

    ids [N, L]; where [M] are flat indices of the positions with a target; top_ids, top_p and
    top_mask [M, 16] are the ids kept, the probability asked for and 1 where an id is kept;
    weight [M].
    """

    ids: Tensor
    where: Tensor
    top_ids: Tensor
    top_p: Tensor
    top_mask: Tensor
    weight: Tensor


def targets(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Ids and probabilities [R, 16]: the target's, leaning a little to its first choice.

    A sample without logits asks for the token that was sampled.
    """
    ids = np.zeros((len(sample.response), KEEP), np.int64)
    chances = np.zeros((len(sample.response), KEEP), np.float32)
    if sample.top_ids.shape[1] == 1:
        ids[:, :1], chances[:, 0] = sample.top_ids, 1.0
        return ids, chances
    logits = sample.top_logits[:, :KEEP].astype(np.float32)
    chances[:] = np.exp(np.minimum(logits - sample.logsumexp[:, None], 0.0))
    ids[:] = sample.top_ids[:, :KEEP]
    chances[chances < SMALLEST] = 0
    chances *= 1 - SHARPEN
    chances[:, 0] += SHARPEN
    ids[chances == 0] = np.broadcast_to(ids[:, :1], ids.shape)[chances == 0]
    return ids, chances


def collate(samples: list[Sample]) -> Batch:
    """Join samples, padded on the right (under a causal mask the padding reaches nothing)."""
    longest = max(len(s.prompt) + len(s.response) for s in samples) - 1
    ids = np.full((len(samples), longest), 2, np.int64)
    where, top_ids, top_p, weight = [], [], [], []
    for row, sample in enumerate(samples):
        tokens = np.concatenate([sample.prompt, sample.response])[:-1]
        ids[row, : len(tokens)] = tokens
        begin = row * longest + len(sample.prompt) - 1
        where.append(np.arange(begin, begin + len(sample.response)))
        kept, chances = targets(sample)
        top_ids.append(kept)
        top_p.append(chances)
        plain = sample.top_ids.shape[1] == 1
        weight.append(np.full(len(sample.response), 0.5 if plain else 1.0, np.float32))
    p = torch.from_numpy(np.concatenate(top_p))
    return Batch(
        ids=torch.from_numpy(ids),
        where=torch.from_numpy(np.concatenate(where)),
        top_ids=torch.from_numpy(np.concatenate(top_ids)),
        top_p=p,
        top_mask=(p > 0).float(),
        weight=torch.from_numpy(np.concatenate(weight)),
    )


def read_corpus(path: Path, tokenizer: PreTrainedTokenizerBase) -> list[Sample]:
    """Samples without logits: JSON lines of prompt and response; none of the evaluation."""
    samples, bench = [], BenchFilter()
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            if bench.excludes(row["prompt"]):
                continue
            prompt = tokenizer.apply_chat_template(
                [{"role": "user", "content": row["prompt"]}], add_generation_prompt=True
            )["input_ids"]
            response = tokenizer(row["response"]).input_ids + [2] * bool(row["complete"])
            answer = np.array(response, np.uint16)[:256]
            samples.append(
                Sample(
                    kind=row["kind"],
                    temperature=0.8,
                    prompt=np.array(prompt, np.uint16),
                    response=answer,
                    top_ids=answer[:, None],
                    top_logits=np.zeros((len(answer), 1), np.float16),
                    logsumexp=np.zeros(len(answer), np.float32),
                )
            )
    return samples


class SamplePool:
    """All samples there are; half of what it deals was seen least so far, half is drawn freely."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, corpus: Path | None, seed: int = 0) -> None:
        self._tokenizer = tokenizer
        self._bench = BenchFilter()
        self._rng = np.random.default_rng(seed)
        self._read: set[Path] = set()
        self._samples: list[Sample] = []
        self._visits = np.zeros(0, np.int64)
        self._plain = read_corpus(corpus, tokenizer) if corpus else []
        self.rescan()

    @property
    def positions(self) -> int:
        """Positions with the target's logits."""
        return sum(len(s.response) for s in self._samples)

    def rescan(self) -> None:
        """Read the shards that are new."""
        fresh = set((training_dir() / "shards").glob("*.npz")) - self._read
        for path in sorted(fresh):
            self._read.add(path)
            for sample in read_shard(path):
                text = self._tokenizer.decode(sample.prompt.tolist())
                if not self._bench.excludes(text.split("<|im_start|>user\n", 1)[-1]):
                    self._samples.append(sample)
        if fresh and self._plain:
            scored = {sample_key(s) for s in self._samples if s.temperature > 0}
            self._plain = [s for s in self._plain if sample_key(s) not in scored]
        more = len(self._samples) - len(self._visits)
        self._visits = np.append(self._visits, np.zeros(more, np.int64))

    def _draw(self, count: int) -> list[Sample]:
        rng, have = self._rng, len(self._samples)
        plain = len(self._plain) / (len(self._plain) + 4 * have) if self._plain else 0.0
        soft = round(count * (1 - plain))
        chosen: list[Sample] = []
        if have:
            order = np.argsort(self._visits + rng.random(have))
            least = order[: min(have, soft // 2)]
            chances = np.array(
                [
                    (COPYING if s.kind == "rewrite" else 1.0) * (GREEDY if s.temperature == 0 else 1.0)
                    for s in self._samples
                ]
            )
            free = rng.choice(have, size=soft - len(least), p=chances / chances.sum())
            for index in (*least, *free):
                self._visits[index] += 1
                chosen.append(self._samples[index])
        while len(chosen) < count and self._plain:
            chosen.append(self._plain[int(rng.integers(len(self._plain)))])
        return chosen

    def batches(self, tokens: int, pool: int = 256) -> Iterator[Batch]:
        """Endless batches of about `tokens` tokens, padding included, of similar lengths."""
        while True:
            self.rescan()
            drawn = self._draw(pool)
            drawn.sort(key=lambda s: len(s.prompt) + len(s.response))
            groups: list[list[Sample]] = [[]]
            for sample in drawn:
                length = len(sample.prompt) + len(sample.response)
                if groups[-1] and length * (len(groups[-1]) + 1) > tokens:
                    groups.append([])
                groups[-1].append(sample)
            for place in self._rng.permutation(len(groups)):
                yield collate(groups[place])
