"""What the page says in other languages: nothing is missing, no value is lost, and sentences are found again."""

import json
import re

import pytest
from texts import every_text

from playground.models import Library
from playground.trace import InvalidRequest
from playground.ui.form import Form, with_label
from playground.ui.language import chosen, translated
from playground.words import ENGLISH, LANGUAGES, best, dictionary, languages, places, say, translate_sentence

OTHERS = [code for code in languages() if code != ENGLISH]


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Every text of the page, with where it is."""
    return every_text()


def same(language: str) -> list[str]:
    """What a language says as English does."""
    found = json.loads((LANGUAGES / f"{language}.json").read_text(encoding="utf-8"))["same"]
    assert isinstance(found, list)
    return found


def test_texts_are_found_in_every_kind_of_place(texts: dict[str, str]) -> None:
    for text in (
        "Prompt lookup", "always K", "Type something for the target to answer",  # components
        "the target's own, nothing was guessed", "Speed of play", "guesses kept (%)",  # the skeleton and the plots
        "Kept: it is the target's own first choice.", "Play again", "{n} tok/s",  # scripts
        "{1} is {2}; it must be {3}.", "a whole number from 0 to 2^63 - 1",  # errors
        "Reading the prompt", "Loading {1}", "{1}, K = {2}",  # what a run says
        "best K = {k}", "the limit on new tokens was reached",
    ):  # fmt: skip
        assert text in texts, text
    assert len(texts) > 700


@pytest.mark.parametrize("language", OTHERS)
def test_every_text_of_the_page_is_translated(language: str, texts: dict[str, str]) -> None:
    known = dictionary(language).keys() | set(same(language))
    missing = [f"{where}: {text}" for text, where in texts.items() if text not in known]
    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_keeps_the_places_of_values(language: str) -> None:
    for text, spoken in dictionary(language).items():
        assert sorted(places(text)) == sorted(places(spoken)), text
        assert spoken.strip() == spoken != "", text
        assert text[-1] not in ".:" or spoken[-1] == text[-1], text


@pytest.mark.parametrize("language", OTHERS)
def test_a_translation_keeps_formulas_and_names(language: str) -> None:
    for text, spoken in dictionary(language).items():
        for part in re.findall(r"min\(1, p/q\)|max\(p - q, 0\)|arXiv \S+|\(1 - a\^\(K\+1\)\)[^w]*\)\)|\d+\.\d+", text):
            assert part.strip() in spoken, text


def test_a_value_in_a_sentence_is_never_read_as_a_place() -> None:
    assert say(ENGLISH, "{a} and {b}", a="{b}", b=2) == "{b} and 2"
    assert say(ENGLISH, "{a} and {c}", a=1) == "1 and {c}"


def test_finished_sentences_are_translated_with_their_values() -> None:
    def told(text: str) -> str:
        return translate_sentence("pt-BR", text)

    assert told("K is 0; it must be a whole number from 1 to 16.") == "K é 0; deve ser um número inteiro de 1 a 16."
    assert told("Assistant model, K = 3") == "Modelo assistente, K = 3"
    assert told("Reading the prompt: 1,024 of 2,048 tokens") == "Lendo o prompt: 1,024 de 2,048 tokens"
    assert told("Nobody wrote this sentence.") == "Nobody wrote this sentence."
    assert translate_sentence(ENGLISH, "Reading the prompt") == "Reading the prompt"


def test_what_a_person_typed_is_quoted_as_it_is() -> None:
    text = "There is no model 'a number': choose one of 'a', 'b', or a folder with a config.json."
    assert "'a number'" in translate_sentence("pt-BR", text)


@pytest.mark.parametrize(
    "form",
    [
        Form(prompt=""), Form(prompt="a", k=0), Form(prompt="a", temperature=99), Form(prompt="a", top_p=0),
        Form(prompt="a", seed=-1), Form(prompt="a", strategy="no"), Form(prompt="a", max_new_tokens=None),
        Form(prompt="a", settings={"nothing": 1}), Form(prompt="a", target="nowhere"),
        Form(prompt="a", verifier="ensemble", strategy="prompt-lookup"), Form(prompt="a", settings={"schedule": "no"}),
    ],
)  # fmt: skip
def test_errors_of_the_form_are_said_in_portuguese(form: Form) -> None:
    with pytest.raises(InvalidRequest) as caught:
        form.prepare(Library("float32"))
    text = with_label(str(caught.value), form)
    spoken = translate_sentence("pt-BR", text)
    assert spoken != text
    assert not re.search(r"\b(is|must|the|choose|has|be)\b", re.sub(r"'[^']*'", "", spoken)), spoken


def test_the_address_comes_before_the_last_choice_and_both_before_the_browser() -> None:
    assert chosen("en,pt-BR", "pt-BR,pt;q=0.9") == "en"
    assert chosen(",en", "pt-BR") == "en"
    assert chosen("xx,", "pt-PT,pt;q=0.9,en;q=0.8") == "pt-BR"
    assert chosen(",", "fr-FR,de;q=0.5") == ENGLISH
    assert best("") == ENGLISH and best("en-GB, pt") == "en"


def test_values_of_choices_stay() -> None:
    spoken = translated({"label": "Target", "choices": [("always K", "constant")], "sample_labels": ["story"]}, "pt-BR")
    assert spoken == {"label": "Modelo alvo", "choices": [("sempre K", "constant")], "sample_labels": ["história"]}


def test_the_glossary_is_kept_to() -> None:
    glossary = json.loads((LANGUAGES / "pt-BR.json").read_text(encoding="utf-8"))["glossary"]
    texts = dictionary("pt-BR")
    for term in ("accepted", "rejected", "discarded", "corrected", "bonus", "plain", "acceptance rate", "speedup"):
        assert texts[term] == glossary[term], term
