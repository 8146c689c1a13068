"""Lessons: Markdown files with what each step sets and points at, read strictly. Knows no page and no model.

A lesson is assets/lessons/<language>/<number>-<name>.md:

    ---
    title: Why guessing ahead works
    minutes: 4
    ---

    ## A step

    Its text. A link to [a part of the page](#1) is to the first entry of `point`.

    ```json
    {"settings": {"preset": "assistant", "k": 3}, "run": true, "point": ["#sp-k"]}
    ```

    ## Question

    What an experiment on the page answers.

    > The answer, folded away. Only the last section has one.

A translation is a file of the same name in its language's folder. It may leave the ```json blocks out: what a step
does is taken from the English file. What a folder lacks is read in English.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from playground.words import ENGLISH

LESSONS = Path(__file__).resolve().parent.parent / "assets" / "lessons"
FEWEST_STEPS, MOST_STEPS = 3, 5
MOST_POINTS = 4
_NAME = re.compile(r"[0-9]+-[a-z0-9-]+")
_ACTION_NAMES = ("settings", "run", "tab", "point")


class BadLesson(Exception):
    """A lesson's file is not as it must be; the message names the file, the step and the way out."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a step does. `settings` are a preset's name and the form's fields over it (None: it sets nothing), `run`
    says that a run is part of it, `tab` is the tab that it opens, `point` are CSS selectors of what it points at."""

    settings: Mapping[str, Any] | None = None
    run: bool = False
    tab: str | None = None
    point: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its title, its text as safe HTML, what it does; a question has its answer too, as safe HTML."""

    title: str
    html: str
    action: Action = field(default_factory=Action)
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson; `name` is its file's, `minutes` what it takes, the last of `steps` its question."""

    name: str
    title: str
    minutes: int
    steps: tuple[Step, ...]


@cache
def lessons(language: str, folder: Path = LESSONS) -> tuple[Lesson, ...]:
    """All lessons in their order, each in `language` where there is such a file, else in English.

    Raises:
        BadLesson: a file is not as it must be.
    """
    paths = sorted((folder / ENGLISH).glob("*.md"), key=lambda path: (_number(path), path.name))
    return tuple(_in_language(language, path, folder) for path in paths)


def _number(path: Path) -> int:
    if not _NAME.fullmatch(path.stem):
        raise BadLesson(f"{path.name}: a lesson's file is called <number>-<name>.md, in small letters.")
    return int(path.stem.split("-")[0])


def _in_language(language: str, path: Path, folder: Path) -> Lesson:
    source = read(path)
    # Only a folder's own name: a language is chosen by whoever opens the page.
    known = {f.name for f in folder.iterdir() if f.is_dir()}
    other = folder / language / path.name if language in known and language != ENGLISH else None
    return source if other is None or not other.exists() else _translated(source, read(other, actions=False), other)


def _translated(source: Lesson, other: Lesson, path: Path) -> Lesson:
    if len(other.steps) != len(source.steps):
        raise BadLesson(f"{_called(path)}: it has {len(other.steps)} sections and the English one {len(source.steps)}.")
    steps = []
    for theirs, ours in zip(source.steps, other.steps, strict=True):
        where = f"{_called(path)}, step {ours.title!r}"
        if ours.action not in (Action(), theirs.action):
            raise BadLesson(f"{where}: its json differs from the English one; leave it out or copy it.")
        _check_links(ours.html + (ours.answer or ""), theirs.action, where)
        steps.append(replace(ours, action=theirs.action))
    return replace(other, steps=tuple(steps))


def read(path: Path, *, actions: bool = True) -> Lesson:
    """The lesson in that file. `actions` says that the text's links must fit the step's own `point`.

    Raises:
        BadLesson: it is not as it must be.
    """
    called = _called(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadLesson(f"{called} cannot be read: {error}") from error
    title, minutes, body = _front(text, called)
    sections = list(_sections(body, called))
    if not FEWEST_STEPS + 1 <= len(sections) <= MOST_STEPS + 1:
        raise BadLesson(
            f"{called}: it has {len(sections)} sections; it must have {FEWEST_STEPS} to {MOST_STEPS} steps and a "
            "question."
        )
    steps = tuple(_step(name, tokens, f"{called}, step {name!r}", actions) for name, tokens in sections)
    for step in steps[:-1]:
        if step.answer is not None:
            raise BadLesson(f"{called}, step {step.title!r}: only the last section, the question, has an answer (>).")
    if steps[-1].answer is None:
        raise BadLesson(
            f"{called}, step {steps[-1].title!r}: the last section is the question; its answer (>) is missing."
        )
    return Lesson(path.stem, title, minutes, steps)


def _called(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def _front(text: str, called: str) -> tuple[str, int, str]:
    """Title, minutes, and the text below them."""
    found = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
    if not found:
        raise BadLesson(f"{called}: it must begin with ---, title: …, minutes: …, ---.")
    values: dict[str, str] = {}
    for line in found[1].splitlines():
        name, colon, value = line.partition(":")
        if not colon or name not in ("title", "minutes") or name in values:
            raise BadLesson(f"{called}: the line {line!r} between the --- must be title: … or minutes: …, once each.")
        values[name] = value.strip()
    title, minutes = values.get("title", ""), values.get("minutes", "")
    if not title:
        raise BadLesson(f"{called}: it has no title.")
    if not re.fullmatch(r"[1-9][0-9]?", minutes):
        raise BadLesson(f"{called}: minutes is {minutes!r}; it must be a whole number from 1 to 99.")
    return title, int(minutes), text[found.end() :]


def _markdown() -> MarkdownIt:
    # No HTML, no images, no links but those that are checked below.
    return MarkdownIt("commonmark", {"html": False}).disable(["image", "autolink", "html_block", "html_inline"])


def _sections(body: str, called: str) -> Iterator[tuple[str, list[Token]]]:
    """Every section's title and the tokens below it."""
    tokens = _markdown().parse(body)
    starts = [i for i, t in enumerate(tokens) if t.type == "heading_open" and t.level == 0]
    if not starts or starts[0] != 0:
        raise BadLesson(f"{called}: nothing may stand before the first step (## …).")
    for start, end in zip(starts, [*starts[1:], len(tokens)], strict=True):
        title = tokens[start + 1].content
        if tokens[start].tag != "h2":
            raise BadLesson(f"{called}: the heading {title!r} must be one of a step (## …).")
        if not title:
            raise BadLesson(f"{called}: a step (##) has no title.")
        yield title, tokens[start + 3 : end]


def _step(title: str, tokens: list[Token], where: str, actions: bool) -> Step:
    fences = [t for t in tokens if t.type == "fence"]
    if len(fences) > 1 or any(t.info.strip() != "json" for t in fences):
        raise BadLesson(f"{where}: it may have one block of code, ```json with what the step does.")
    action = _action(fences[0].content, where) if fences else Action()
    text, answer = _split([t for t in tokens if t.type != "fence"], where)
    html = _html(text)
    if not html:
        raise BadLesson(f"{where}: it has no text.")
    if actions:
        _check_links(html + (answer or ""), action, where)
    return Step(title, html, action, answer)


def _split(tokens: list[Token], where: str) -> tuple[list[Token], str | None]:
    """The text, and the answer (the quote at its end) as HTML."""
    at = next((i for i, t in enumerate(tokens) if t.type == "blockquote_open"), None)
    if at is None:
        return tokens, None
    end = next(i for i, t in enumerate(tokens) if t.type == "blockquote_close" and t.level == tokens[at].level)
    if end != len(tokens) - 1:
        raise BadLesson(f"{where}: the answer (>) must be the end of it.")
    return tokens[:at], _html(tokens[at + 1 : end])


def _html(tokens: list[Token]) -> str:
    markdown = _markdown()
    return str(markdown.renderer.render(tokens, markdown.options, {})).strip()


def _check_links(html: str, action: Action, where: str) -> None:
    """Every link is to an entry of `point`, and every entry has one."""
    links = re.findall(r'<a href="([^"]*)"', html)
    allowed = [f"#{i}" for i in range(1, len(action.point) + 1)]
    for link in links:
        if link not in allowed:
            raise BadLesson(f"{where}: the link {link!r} must be one of {', '.join(allowed) or 'none'}: see its point.")
    for link, selector in zip(allowed, action.point, strict=True):
        if link not in links:
            raise BadLesson(f"{where}: it points at {selector!r}, and no link ({link}) in its text says what that is.")


def _action(text: str, where: str) -> Action:
    try:
        values = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_twins)
    except ValueError as error:
        raise BadLesson(f"{where}: its json cannot be read: {error}") from error
    if not isinstance(values, dict):
        raise BadLesson(f"{where}: its json is {values!r}; it must be an object.")
    for name in values:
        if name not in _ACTION_NAMES:
            raise BadLesson(f"{where}: its json has {name!r}; it may have {', '.join(_ACTION_NAMES)}.")
    settings, run, tab = values.get("settings"), values.get("run", False), values.get("tab")
    _need("settings" not in values or isinstance(settings, dict), where, "settings", settings, "an object")
    _need(isinstance(run, bool), where, "run", run, "true or false")
    _need("tab" not in values or isinstance(tab, str), where, "tab", tab, "the id of a tab")
    _need(settings is not None or not run, where, "run", run, "left out where there are no settings")
    return Action(settings, run, tab, _point(values.get("point", []), where))


def _point(value: object, where: str) -> tuple[str, ...]:
    ok = isinstance(value, list) and len(value) <= MOST_POINTS and all(isinstance(v, str) and v.strip() for v in value)
    _need(ok, where, "point", value, f"a list of at most {MOST_POINTS} CSS selectors")
    return tuple(value) if isinstance(value, list) else ()


def _need(ok: bool, where: str, name: str, value: object, allowed: str) -> None:
    if not ok:
        raise BadLesson(f"{where}: {name} is {value!r}; it must be {allowed}.")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in an object twice")
    return found
