"""Prompts of each kind from templates and word lists; a function of a random generator each."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from playground.training import words as w

Rng = np.random.Generator


def pick(rng: Rng, items: Sequence[str]) -> str:
    """One of `items`."""
    return items[int(rng.integers(len(items)))]


def _story(rng: Rng) -> str:
    who, what, where = pick(rng, w.CHARACTERS), pick(rng, w.ACTIONS), pick(rng, w.PLACES)
    tone, thing = pick(rng, w.TONES), pick(rng, w.OBJECTS)
    return pick(
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
            f"Write a dialogue between {who} and {pick(rng, w.CHARACTERS)}.",
            f"Describe {who} {where} in a few sentences.",
        ),
    )


def _explain(rng: Rng) -> str:
    topic, audience = pick(rng, w.TOPICS), pick(rng, w.AUDIENCES)
    other = pick(rng, w.TOPICS)
    return pick(
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
            f"Who was {pick(rng, w.PEOPLE)} and why do we remember this name?",
            f"Tell me about the life of {pick(rng, w.PEOPLE)}.",
        ),
    )


def _code(rng: Rng) -> str:
    language, task = pick(rng, w.LANGUAGES), pick(rng, w.TASKS)
    return pick(
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
    activity, mood = pick(rng, w.ACTIVITIES), pick(rng, w.MOODS)
    return pick(
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
    thing, count = pick(rng, w.THINGS), pick(rng, ("3", "five", "5", "ten", "10", "seven", "four"))
    return pick(
        rng,
        (
            f"List {count} {thing}.",
            f"Give me a list of {count} {thing}.",
            f"Give me {count} {thing} and one sentence about each.",
            f"Name {count} {thing} and say which you like best.",
            f"Make a numbered list of {thing}.",
            f"Give {count} tips to {pick(rng, w.ACTIVITIES)}.",
            f"What are the steps to {pick(rng, w.ACTIVITIES)}?",
        ),
    )


def _letters(rng: Rng) -> str:
    letter, name = pick(rng, w.LETTERS), pick(rng, w.NAMES)
    return pick(
        rng,
        (
            f"Write {letter}.",
            f"Write {letter}. Keep it short.",
            f"Write {letter}. My name is {name}.",
            f"Help me to write {letter}.",
            f"Draft {letter}, in a {pick(rng, w.TONES)} tone.",
        ),
    )


def _questions(rng: Rng) -> str:
    if rng.random() < 0.5:
        return pick(rng, w.QUESTIONS).format(country=pick(rng, w.COUNTRIES))
    one, two = int(rng.integers(2, 60)), int(rng.integers(2, 60))
    name, topic = pick(rng, w.NAMES), pick(rng, w.TOPICS)
    return pick(
        rng,
        (
            f"What is {one} plus {two}?",
            f"What is {one} times {two}? Explain step by step.",
            f"{name} has {one + two} apples and gives away {one}. How many are left?",
            f"A ticket costs {one} dollars. How much do {two} tickets cost?",
            f"Is {topic} a good subject to study?",
            f"What does the word '{pick(rng, w.TONES)}' mean? Use it in a sentence.",
            f"Compare {pick(rng, w.THINGS)} and {pick(rng, w.THINGS)}.",
        ),
    )


TEMPLATES: dict[str, Callable[[Rng], str]] = {
    "story": _story,
    "explain": _explain,
    "code": _code,
    "chat": _chat,
    "list": _lists,
    "letter": _letters,
    "question": _questions,
}
