"""What the playground says, in the reader's language. English is the source: a text is looked up by itself, so that a
language is one file of texts and their translations (assets/languages), and what a file lacks is said in English.
"""

import json
from functools import cache
from pathlib import Path

ASSETS = Path(__file__).parent.parent / "assets"
LANGUAGES = ASSETS / "languages"
ENGLISH = "en"


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
    for name, value in values.items():
        spoken = spoken.replace(f"{{{name}}}", str(value))
    return spoken


def best(wanted: str) -> str:
    """The language that suits an Accept-Language header, or a code, best; English where none does."""
    for entry in wanted.split(","):
        code = entry.split(";")[0].strip().lower()
        for known in languages():
            if code == known.lower() or (code and code.split("-")[0] == known.lower().split("-")[0]):
                return known
    return ENGLISH
