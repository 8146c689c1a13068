"""Every text that a person can read on the page, found in the code: what a language's dictionary must hold."""

import ast
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from playground.html import heading, live_view
from playground.metrics import DEFINITIONS
from playground.models import Library
from playground.plots import skeletons
from playground.presets import PRESETS
from playground.sampling import VERIFIERS
from playground.settings import Choice
from playground.trace import VERDICTS
from playground.ui.form import LABELS
from playground.ui.history import panel
from playground.ui.language import properties
from playground.ui.page import build
from playground.view import REASONS
from strategies import STRATEGIES

ROOT = Path(__file__).parent.parent
SCRIPTS = ROOT / "assets" / "scripts"
# What never reaches the page: the command line, training, and files that only a developer writes.
OFF_THE_PAGE = re.compile(r"/(cli\w*|__main__|training/.*|lessons|eagle_head)\.py$")
ERRORS = {"InvalidRequest", "InvalidTrace"}
MADE = {("machine", "exactness"), ("warmup", "machine"), ("form", "lane_title"), ("runs", "lane_infos")}
MODELS = {"sp-target", "sp-assistant"}  # whose choices are names of models


def page_texts() -> Iterator[str]:
    """Of the page's components, as they are built."""
    for block in build(Library("float32")).blocks.values():
        for name, held in properties(block).items():
            if name == "choices" and block.elem_id in {"sp-strategy", "sp-preset", "sp-language", *MODELS}:
                continue
            for one in [held] if isinstance(held, str) else held:
                yield one if isinstance(one, str) else one[0]


def registry_texts() -> Iterator[str]:
    """Of the strategies, verifiers, presets, numbers, verdicts and ends."""
    for s in STRATEGIES.values():
        yield from (s.title, s.about, s.wins, *_setting_texts(s.settings))
    for v in VERIFIERS.values():
        yield from (v.title, v.about, *_setting_texts(v.settings))
    for p in PRESETS.values():
        yield from (p.title, p.when)
    for name, definition in DEFINITIONS.values():
        yield from (name, definition)
    yield from (*VERDICTS, *REASONS.values(), *LABELS.values())


def _setting_texts(settings: tuple[Choice, ...]) -> Iterator[str]:
    for choice in settings:
        yield from (choice.label, choice.help, *(label for _, label in choice.options))


def markup_texts() -> Iterator[str]:
    """Of the skeletons that the scripts fill, and of the empty plots."""
    for markup in (heading(), live_view(), panel()):
        yield from _Reader(markup).found
    for figure in skeletons().values():
        yield from (trace["name"] for trace in figure["data"])
        yield from (figure["layout"][axis]["title"]["text"] for axis in ("xaxis", "yaxis"))


class _Reader(HTMLParser):
    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(markup)

    def handle_data(self, data: str) -> None:
        self.found.append(data.strip())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = {"title", "aria-label", "data-tip", "placeholder", "data-measured", "data-predicted"}
        self.found += [value for name, value in attrs if name in told and value]


_SENTENCE = re.compile(r"[A-Z{“◌p][\w'“”{}◌]*[,:]?( [\w'“”{}=,:.;()-]+){2}")
_STRING = r'"((?:[^"\\\n]|\\.)*)"'


def script_texts() -> Iterator[str]:
    """Of the scripts: what `t` is given, and what stands in their tables of texts."""
    for path in SCRIPTS.glob("*.js"):
        text = "\n".join(
            line for line in path.read_text(encoding="utf-8").splitlines() if not line.strip().startswith("//")
        )
        spoken = re.findall(rf"\bt\({_STRING}", text)
        # Sentences in tables and constants; a class or a selector is no three words.
        others = [s for s in re.findall(_STRING, text) if _SENTENCE.match(s) and "<" not in s]
        others += re.findall(_STRING, "".join(re.findall(r"const TITLES = .*", text)))
        others += re.findall(rf"\bchance: {_STRING}", text)  # of the card's rules
        yield from (json.loads(f'"{one}"') for one in (*spoken, *others))


def sources() -> Iterator[tuple[Path, ast.Module]]:
    """The code below and of the page."""
    for folder in ("playground", "strategies"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not OFF_THE_PAGE.search(path.as_posix()):
                yield path, ast.parse(path.read_text(encoding="utf-8"))


def said_texts() -> Iterator[str]:
    """What `say` is given."""
    for _, tree in sources():
        for call in calls(tree, {"say"}):
            for argument in call.args:
                yield from templates(argument)


def sentence_texts() -> Iterator[str]:
    """Constants that are sentences, or have places for values: what is kept in a table, and said later."""
    for path, tree in sources():
        if path.name in ("catalogue.py", "presets.py"):  # models, for the command line; prompts
            continue
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        pieces = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs | pieces:  # noqa: SIM102
                if re.fullmatch(r"[A-Z“{][^<>\n]* [^<>\n]*[.:]|[^<>\n]*\w+ [^<>\n]*\{\w+\}[^<>\n]*", node.value):
                    yield node.value


def error_texts() -> Iterator[str]:
    """Of what is refused: each value in an f-string is a place with a number, from 1."""
    for _, tree in sources():
        for call in calls(tree, ERRORS):
            for argument in call.args[:1]:
                yield from templates(argument)
        for call in calls(tree, {"_need"}):
            yield from (text for text in templates(call.args[-1]) if " " in text)


def status_texts() -> Iterator[str]:
    """What the models and runs say of what they do: `send({"status": …})`, `progress(…)`, `_say(…)`."""
    for _, tree in sources():
        for call in calls(tree, {"progress", "_say"}):
            for argument in call.args[:1]:
                yield from templates(argument)
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "attr", "") == "_text":
                yield from templates(node.value)
            if isinstance(node, ast.Dict):
                for key, value in zip(node.keys, node.values, strict=True):
                    if isinstance(key, ast.Constant) and key.value in ("status", "error", "problem"):
                        yield from templates(value)


def made_texts() -> Iterator[str]:
    """What these functions put together from values."""
    for path, tree in sources():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and (path.stem, node.name) in MADE:
                for part in ast.walk(node):
                    if isinstance(part, ast.JoinedStr) or (isinstance(part, ast.Return) and part.value is not None):
                        yield from templates(part if isinstance(part, ast.JoinedStr) else part.value)


def calls(tree: ast.AST, names: set[str]) -> Iterator[ast.Call]:
    """The calls of functions and methods of these names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in names:
                yield node


def templates(node: ast.expr) -> Iterator[str]:
    """The texts that an expression can make, its values as {1}, {2} and so on."""
    if isinstance(node, ast.IfExp):
        yield from (*templates(node.body), *templates(node.orelse))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        if _readable(node.value):
            yield node.value
    elif isinstance(node, ast.JoinedStr):
        made, place = "", 0
        for part in node.values:
            if isinstance(part, ast.Constant):
                made += str(part.value)
            else:
                place += 1
                made += f"{{{place}}}"
                if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.IfExp):
                    yield from templates(part.value)
        if _readable(made) or ", K = " in made:
            yield made


def _readable(text: Any) -> bool:
    return isinstance(text, str) and re.search(r"[A-Za-z]{2}", re.sub(r"\{\w+\}", "", text)) is not None


SOURCES = {
    "page": page_texts, "registry": registry_texts, "markup": markup_texts, "scripts": script_texts,
    "said": said_texts, "sentences": sentence_texts, "errors": error_texts, "status": status_texts, "made": made_texts,
}  # fmt: skip


def every_text() -> dict[str, str]:
    """All of them, each with where it was found first."""
    found: dict[str, str] = {}
    for where, texts in SOURCES.items():
        for text in texts():
            if _readable(text) or where == "made" or text in ("K", "c", "v"):
                found.setdefault(text, where)
    return found
