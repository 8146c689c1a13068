"""What the playground says, in the reader's language. English is the source: a text is looked up by itself, so that a
language is one file of texts and their translations (assets/languages), and what a file lacks is said in English.
"""

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

ASSETS = Path(__file__).parent.parent / "assets"
LANGUAGES = ASSETS / "languages"
ENGLISH = "en"
_PLACE = re.compile(r"\{(\w+)\}")
# An error that begins with the label of a control and, in brackets, the name of the value.
_LABELLED = re.compile(r"(?P<label>.+?) \((?P<name>\w+)\)(?P<rest> is .*)", re.DOTALL)


@cache
def dictionary(language: str) -> dict[str, str]:
    """The translations of every text, by the English text; empty for English and for a language without a file."""
    path = LANGUAGES / f"{language}.json"
    if language not in languages() or language == ENGLISH:
        return {}
    found = json.loads(path.read_text(encoding="utf-8"))["texts"]
    assert isinstance(found, dict), path
    return found


@cache
def languages() -> dict[str, str]:
    """Every language by its code (BCP 47), with its name in itself."""
    names = {ENGLISH: "English"}
    for path in sorted(LANGUAGES.glob("*.json")):
        names[path.stem] = json.loads(path.read_text(encoding="utf-8"))["name"]
    return names


def say(language: str, text: str, **values: object) -> str:
    """`text`, which is English, in `language`, with `{name}` in it replaced by the values of these names."""
    spoken = dictionary(language).get(text, text)
    return _PLACE.sub(lambda place: str(values.get(place[1], place[0])), spoken)


def best(wanted: str) -> str:
    """The language that suits an Accept-Language header, or a code, best; English where none does."""
    for entry in wanted.split(","):
        code = entry.split(";")[0].strip().lower()
        for known in languages():
            if code == known.lower() or (code and code.split("-")[0] == known.lower().split("-")[0]):
                return known
    return ENGLISH


def translate_sentence(language: str, text: str) -> str:
    """A finished English sentence in `language`: it was made from one of the dictionary's texts, whose `{name}` are
    found in it again. As it is where no text fits."""
    if not dictionary(language) or text in dictionary(language):
        return say(language, text)
    labelled = _LABELLED.fullmatch(text)
    if labelled is not None:
        name, label = labelled["name"], say(language, labelled["label"])
        sentence = translate_sentence(language, name + labelled["rest"])
        return sentence.replace(name, f"{label} ({name})", 1)
    for fitting, template in templates(language):
        found = fitting(text)
        if found is not None:
            return say(language, template, **{name: _value(language, value) for name, value in found.items()})
    return text


def _value(language: str, value: str) -> str:
    """A value inside a sentence: what is quoted is somebody's own."""
    return value if value[:1] in "'\"“" else translate_sentence(language, value)


@cache
def templates(language: str) -> list[tuple[Callable[[str], dict[str, str] | None], str]]:
    """The dictionary's texts with a `{name}` in them, those with most words of their own first, each with what finds
    the values of its names in a sentence (None: it is not made from this text)."""
    found = [text for text in dictionary(language) if _PLACE.search(text)]
    return [(_values_of(text), text) for text in sorted(found, key=lambda text: -len(_PLACE.sub("", text)))]


def places(text: str) -> list[str]:
    """The names in `text` that values take the place of."""
    return _PLACE.findall(text)


def _values_of(template: str) -> Callable[[str], dict[str, str] | None]:
    names = places(template)
    between = [re.escape(part) for part in _PLACE.split(template)[::2]]
    pattern = re.compile("(.*?)".join(between), re.DOTALL)

    def values(sentence: str) -> dict[str, str] | None:
        found = pattern.fullmatch(sentence)
        return None if found is None else dict(zip(names, found.groups(), strict=True))

    return values
