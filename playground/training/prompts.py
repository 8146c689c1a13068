"""Prompts for sampling the target: templates, rewriting tasks and the target's own user turns.

Knows no model. No prompt of the evaluation file comes out of any of the streams.
"""

from __future__ import annotations

import ast
import gzip
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from playground.training import words as w
from playground.training.shards import training_dir

BENCH = Path(__file__).resolve().parents[2] / "assets" / "prompts" / "bench.jsonl"
Rng = np.random.Generator


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


def _pick(rng: Rng, items: Sequence[str]) -> str:
    return items[int(rng.integers(len(items)))]


def _story(rng: Rng) -> str:
    who, what, where = _pick(rng, w.CHARACTERS), _pick(rng, w.ACTIONS), _pick(rng, w.PLACES)
    tone, thing = _pick(rng, w.TONES), _pick(rng, w.OBJECTS)
    return _pick(
        rng,
        (
            f"Write a short story about {who} who {what} {where}.",
            f"Tell me a {tone} story about {who} who {what}.",
            f"Write a {tone} story about {who} {where}.",
            f"Tell a story about {who} and {thing}.",
            f"Write the first paragraph of a {tone} novel about {who} who {what}.",
            f"Once upon a time there was {who}. Continue the story.",
            f"Write a bedtime story in which {who} {what}.",
            f"Write a fable about {who} who {what}. End with a lesson.",
            f"Write a poem about {who} {where}.",
            f"Imagine {who} {where}. What happens next?",
            f"Write a dialogue between {who} and {_pick(rng, w.CHARACTERS)}.",
            f"Describe {who} {where} in a few sentences.",
        ),
    )


def _explain(rng: Rng) -> str:
    topic, audience = _pick(rng, w.TOPICS), _pick(rng, w.AUDIENCES)
    other = _pick(rng, w.TOPICS)
    return _pick(
        rng,
        (
            f"Explain {topic} to {audience}.",
            f"Explain {topic} in simple words.",
            f"What should I know about {topic}?",
            f"Why is it important to know about {topic}?",
            f"Give me a short introduction to {topic}.",
            f"Summarise what is known about {topic} in one paragraph.",
            f"Write a short essay on {topic}.",
            f"What are the main ideas behind {topic}?",
            f"What are common misconceptions about {topic}?",
            f"Give an example that helps to understand {topic}.",
            f"How would you teach {topic} to {audience}?",
            f"What do {topic} and {other} have in common?",
            f"Define: {topic}.",
            f"Who was {_pick(rng, w.PEOPLE)} and why do we remember this name?",
            f"Tell me about the life of {_pick(rng, w.PEOPLE)}.",
        ),
    )


def _code(rng: Rng) -> str:
    language, task = _pick(rng, w.LANGUAGES), _pick(rng, w.TASKS)
    return _pick(
        rng,
        (
            f"Write a {language} function that {task}.",
            f"Write a {language} program that {task}.",
            f"How do I write {language} code that {task}? Show an example.",
            f"Write a {language} function that {task}, with comments.",
            f"Give me a short {language} example that {task} and explain it.",
            f"Write a Python class or function that {task} and a test for it.",
            f"Can you show me a simple {language} script that {task}?",
        ),
    )


def _chat(rng: Rng) -> str:
    activity, mood = _pick(rng, w.ACTIVITIES), _pick(rng, w.MOODS)
    return _pick(
        rng,
        (
            f"I want to {activity}. Where do I start?",
            f"How can I {activity}?",
            f"Can you help me to {activity}?",
            f"Give me some advice: I would like to {activity}.",
            f"Hi! {mood[0].upper()}{mood[1:]}.",
            f"Hello, {mood}. What do you suggest?",
            f"{mood[0].upper()}{mood[1:]}. Any ideas?",
            f"Is it hard to {activity}?",
            f"What is the best way to {activity}?",
            f"Make a plan for one week to {activity}.",
        ),
    )


def _lists(rng: Rng) -> str:
    thing, count = _pick(rng, w.THINGS), _pick(rng, ("3", "five", "5", "ten", "10", "seven", "four"))
    return _pick(
        rng,
        (
            f"List {count} {thing}.",
            f"Give me a list of {count} {thing}.",
            f"Give me {count} {thing} and one sentence about each.",
            f"Name {count} {thing} and say which you like best.",
            f"Make a numbered list of {thing}.",
            f"Give {count} tips to {_pick(rng, w.ACTIVITIES)}.",
            f"What are the steps to {_pick(rng, w.ACTIVITIES)}?",
        ),
    )


def _letters(rng: Rng) -> str:
    letter, name = _pick(rng, w.LETTERS), _pick(rng, w.NAMES)
    return _pick(
        rng,
        (
            f"Write {letter}.",
            f"Write {letter}. Keep it short.",
            f"Write {letter}. My name is {name}.",
            f"Help me to write {letter}.",
            f"Draft {letter}, in a {_pick(rng, w.TONES)} tone.",
        ),
    )


def _questions(rng: Rng) -> str:
    if rng.random() < 0.5:
        return _pick(rng, w.QUESTIONS).format(country=_pick(rng, w.COUNTRIES))
    one, two = int(rng.integers(2, 60)), int(rng.integers(2, 60))
    name = _pick(rng, w.NAMES)
    return _pick(
        rng,
        (
            f"What is {one} plus {two}?",
            f"What is {one} times {two}? Explain step by step.",
            f"{name} has {one + two} apples and gives away {one}. How many are left?",
            f"A ticket costs {one} dollars. How much do {two} tickets cost?",
            f"Is {topic} a good subject to study?"
            if (topic := _pick(rng, w.TOPICS))
            else "Which subject should I study?",
            f"What does the word '{_pick(rng, w.TONES)}' mean? Use it in a sentence.",
            f"Compare {_pick(rng, w.THINGS)} and {_pick(rng, w.THINGS)}.",
        ),
    )


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
        text = _pick(rng, texts)
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


def _rewrite(rng: Rng, texts: Sequence[str]) -> str:
    text = _passage(rng, texts)
    kind = int(rng.integers(4))
    if kind == 0:
        text = _misspell(rng, text, float(rng.uniform(0.03, 0.2)))
        order = _pick(
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
        order = _pick(
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
        name = _pick(rng, w.NAMES)
        order = _pick(
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
        order = _pick(
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
    return _pick(rng, (f"{order}:\n\n{text}", f"{order}.\n\n{text}", f"{order}: {text}", f"{text}\n\n{order}."))


def passages(corpus: Path | None) -> list[str]:
    """Texts for the rewriting tasks: answers of `corpus` (JSON lines, gzip)."""
    if corpus is None or not corpus.exists():
        return []
    with gzip.open(corpus, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [r["response"] for r in rows if r["kind"] != "code" and len(r["response"]) > 300]


TEMPLATES: dict[str, Callable[[Rng], str]] = {
    "story": _story,
    "explain": _explain,
    "code": _code,
    "chat": _chat,
    "list": _lists,
    "letter": _letters,
    "question": _questions,
}


def template_prompts(rng: Rng, texts: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Endless (kind, prompt); `texts` are what rewriting tasks are made from."""
    kinds = ["story", "explain", "code", "chat", "list", "letter", "question"]
    weights = np.array([3.0, 3.0, 3.0, 2.0, 1.0, 1.0, 0.7])
    if len(texts):
        kinds, weights = [*kinds, "rewrite"], np.append(weights, 4.0)
    weights /= weights.sum()
    while True:
        kind = str(rng.choice(kinds, p=weights))
        yield kind, _rewrite(rng, texts) if kind == "rewrite" else TEMPLATES[kind](rng)


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
