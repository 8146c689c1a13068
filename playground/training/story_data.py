"""The stories that the story-teller family learns from: the corpus's, and what `tell` has added."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from playground.training.prompts import BenchFilter
from playground.training.story_models import END
from playground.training.tell import told

HELD_OUT = 40
"""One prompt in so many is kept for evaluation, with all stories that answer it."""
_PLAIN = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "—": "-", "–": "-", "\u00a0": " "})


def clean(text: str) -> str | None:
    """`text` in plain ASCII without headings; None: it is no story in plain English."""
    text = text.translate(_PLAIN).strip()
    text = re.sub(r"^(\*\*[^\n]*\*\*|#[^\n]*|Title:[^\n]*)\s+", "", text)
    if not text.isascii() or len(text) < 200 or re.search(r"[*#_{}<>|\\]", text):
        return None
    return re.sub(r"\s*\n\s*", "\n\n", text)


def held_out(prompt: str) -> bool:
    """Whether stories that answer `prompt` are for evaluation only."""
    return zlib.crc32(prompt.encode()) % HELD_OUT == 0


def read_stories(corpus: Path | None, *, evaluation: bool = False) -> list[tuple[str, bool]]:
    """(story, whether it is complete) of the corpus and of `told`, either for training or for evaluation."""
    bench = BenchFilter()
    stories: list[tuple[str, bool]] = []
    for path in (corpus, told()):
        if path is None or not path.exists():
            continue
        with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    break  # being written
                row = json.loads(line)
                if row["kind"] != "story" or held_out(row["prompt"]) != evaluation or bench.excludes(row["prompt"]):
                    continue
                text = clean(row["response"])
                if text is not None:
                    stories.append((text, row["complete"]))
    return stories


class StoryPool:
    """Rows of tokens, at most `longest` each, dealt in batches of similar lengths, every row once an epoch."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerFast, corpus: Path | None, *, longest: int = 320, seed: int = 0
    ) -> None:
        self._tokenizer, self._corpus, self._longest = tokenizer, corpus, longest
        self._rng = np.random.default_rng(seed)
        self.rows: list[list[int]] = []

    def _read(self) -> None:
        stories = read_stories(self._corpus)
        ids = self._tokenizer([text for text, _ in stories]).input_ids
        self.rows = []
        for tokens, (_, complete) in zip(ids, stories, strict=True):
            row = tokens + [END] * complete
            self.rows += [row[i : i + self._longest] for i in range(0, len(row), self._longest)]
        self.rows = [row for row in self.rows if len(row) > 32]

    def batches(self, tokens: int) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless (ids, labels), both [N, T]; labels are -100 past the end of a row. Reads new stories every epoch."""
        while True:
            self._read()
            order = sorted(range(len(self.rows)), key=lambda i: (len(self.rows[i]) // 16, self._rng.random()))
            groups: list[list[list[int]]] = [[]]
            for i in order:
                if groups[-1] and len(self.rows[i]) * (len(groups[-1]) + 1) > tokens:
                    groups.append([])
                groups[-1].append(self.rows[i])
            for place in self._rng.permutation(len(groups)):
                yield collate(groups[place])


def collate(rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """ids and labels [N, T] of rows, for predicting each next token."""
    width = max(map(len, rows)) - 1
    ids, labels = torch.full((len(rows), width), END), torch.full((len(rows), width), -100)
    for n, row in enumerate(rows):
        ids[n, : len(row) - 1] = torch.tensor(row[:-1])
        labels[n, : len(row) - 1] = torch.tensor(row[1:])
    return ids, labels
