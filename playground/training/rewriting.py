"""Rewriting tasks: a passage to copy, correct, change or shorten; knows where passages come from."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from pathlib import Path

from playground.training import words as w
from playground.training.templates import Rng, pick


def passages(corpus: Path | None) -> list[str]:
    """Texts for the rewriting tasks: answers of `corpus` (JSON lines, gzip)."""
    if corpus is None or not corpus.exists():
        return []
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [r["response"] for r in rows if r["kind"] != "code" and len(r["response"]) > 300]


def _misspell(rng: Rng, text: str, share: float) -> str:
    """Swap, drop or double a letter in about `share` of the longer words."""
    out = []
    for word in text.split(" "):
        if len(word) > 3 and word.isalpha() and rng.random() < share:
            at = int(rng.integers(1, len(word) - 2))
            change = int(rng.integers(3))
            if change == 0:
                word = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
            elif change == 1:
                word = word[:at] + word[at + 1 :]
            else:
                word = word[:at] + word[at] + word[at:]
        out.append(word)
    return " ".join(out)


def _passage(rng: Rng, texts: Sequence[str]) -> str:
    """Whole sentences from one of `texts`, 25 to 140 words."""
    while True:
        text = pick(rng, texts)
        if rng.random() < 0.8:
            text = " ".join(text.split())
        sentences = re.split(r"(?<=[.!?])\s+", text)[:-1]
        if not sentences:
            continue
        begin = int(rng.integers(max(1, len(sentences) // 2)))
        want, chosen = int(rng.integers(30, 140)), []
        for sentence in sentences[begin:]:
            chosen.append(sentence)
            if sum(len(s.split()) for s in chosen) >= want:
                break
        words = sum(len(s.split()) for s in chosen)
        if 20 <= words <= 150:
            return " ".join(chosen)


def rewriting_prompt(rng: Rng, texts: Sequence[str]) -> str:
    """A task over a passage of one of `texts`: correct, copy, change, or write anew."""
    text = _passage(rng, texts)
    kind = int(rng.integers(4))
    if kind == 0:
        text = _misspell(rng, text, float(rng.uniform(0.03, 0.2)))
        order = pick(
            rng,
            (
                "Correct the spelling mistakes in this text",
                "Fix the spelling and grammar of the following passage",
                "Copy the text below and correct all mistakes",
                "Proofread this paragraph and write it out without errors",
                "Please correct this",
            ),
        )
    elif kind == 1:
        order = pick(
            rng,
            (
                "Copy the following text word for word",
                "Repeat this paragraph exactly",
                "Write out the text below without changing anything",
                "Repeat the following passage, then stop",
                "Type this text again",
            ),
        )
    elif kind == 2:
        name = pick(rng, w.NAMES)
        order = pick(
            rng,
            (
                "Rewrite this text in the past tense",
                "Put the following paragraph into the present tense",
                f"Rewrite the text so that it is about {name}",
                "Rewrite this passage with short sentences",
                "Rewrite the following in the first person",
                "Change as little as possible, but make this text more polite",
                "Rewrite this paragraph for a newspaper",
                "Put each sentence of this text on its own line",
            ),
        )
    else:
        order = pick(
            rng,
            (
                "Summarise this text",
                "Improve the style of this paragraph",
                "Make this text shorter",
                "Make this passage more formal",
                "Rewrite this in simpler words",
                "Continue this text",
                "What is this text about? Quote the important sentences",
                "Paraphrase the following text",
            ),
        )
    return pick(rng, (f"{order}:\n\n{text}", f"{order}.\n\n{text}", f"{order}: {text}", f"{text}\n\n{order}."))
