"""The snippet of plain transformers: run, and compared with the playground's own run of the same settings."""

import ast
import io
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fakes import END, folders_for, save_tiny
from hypothesis import given
from hypothesis import strategies as st
from runs import ALL

from playground.catalogue import ASSETS, CATALOGUE
from playground.generate_arguments import drafting
from playground.models import Library
from playground.presets import PRESETS
from playground.sampling import VERIFIERS
from playground.snippet import place, snippet
from playground.text import decode_all
from playground.trace import Round, emitted_ids
from playground.ui.form import Form
from playground.ui.presets import form_of
from playground.words import languages
from strategies import STRATEGIES, strategy

HELLO = "Hello Hello Hello the"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The pair of a strategy as folders, made once."""
    made: dict[tuple[str, bool], tuple[str, str]] = {}

    def of(name: str, stops: bool = False) -> tuple[str, str]:
        if (name, stops) not in made:
            target, assistant = folders_for(tmp_path_factory.mktemp("pair"), name, stops)
            made[name, stops] = str(target), str(assistant)
        return made[name, stops]

    return of


@pytest.fixture(scope="module")
def library() -> Library:
    return Library("float32")


def _form(folders: Any, name: str, **values: Any) -> Form:
    target, assistant = folders(name, values.pop("stops", False))
    settings = dict(strategy(name).settled(values.pop("settings", {})))
    common: dict[str, Any] = {"prompt": HELLO, "max_new_tokens": 24, "chat": False, "k": 3}
    return Form(target=target, assistant=assistant, strategy=name, settings=settings, **{**common, **values})


def _in_float32(name: str) -> str:
    return "float32"


def _executed(form: Form) -> dict[str, Any]:
    """What the code leaves behind, and what it `printed`."""
    printed = io.StringIO()
    left: dict[str, Any] = {}
    with redirect_stdout(printed):
        exec(compile(snippet(form, dtype_of=_in_float32), "snippet", "exec"), left)
    return left | {"printed": printed.getvalue()}


def _ids(left: dict[str, Any]) -> tuple[int, ...]:
    return tuple(left["output"][0, left["length"] :].tolist())


def _ours(form: Form, library: Library) -> tuple[int, ...]:
    return emitted_ids(e for e in form.prepare(library).events() if isinstance(e, Round))


@pytest.mark.parametrize("stops", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_the_code_of_every_strategy_writes_what_the_playground_writes(
    name: str, stops: bool, folders: Any, library: Library
) -> None:
    form = _form(folders, name, stops=stops)
    left = _executed(form)
    assert _ids(left) == _ours(form, library)
    assert left["printed"] == left["text"] + "\n"


@pytest.mark.parametrize("name", ["assistant", "early-exit"])
@pytest.mark.parametrize("settings", [{"schedule": "heuristic"}, {"schedule": "confidence", "confidence": 0.3}])
def test_other_lengths_of_drafts_leave_the_text_as_it_is(
    name: str, settings: dict[str, Any], folders: Any, library: Library
) -> None:
    if name == "early-exit":
        settings = {"confidence": settings.get("confidence", 0.2)}
    form = _form(folders, name, settings=settings, repetition_penalty=1.3, k=4)
    code = snippet(form, dtype_of=_in_float32)
    assert str(settings.get("confidence", "heuristic_transient")) in code
    assert _ids(_executed(form)) == _ours(form, library)


def test_generate_drafts_k_tokens_as_the_playground_does(folders: Any) -> None:
    form = _form(folders, "assistant", k=7)
    left = _executed(form)
    assert left["assistant"].generation_config.num_assistant_tokens == 7
    assert left["assistant"].generation_config.assistant_confidence_threshold == 0.0


def test_the_ensemble_writes_the_same_lossy_text(folders: Any, library: Library) -> None:
    form = _form(folders, "assistant", verifier="ensemble", verifier_settings={"weight": 0.3}, k=2)
    assert "assistant_ensemble_weight=0.3" in snippet(form)
    ours = _ours(form, library)
    assert _ids(_executed(form)) == ours != _ours(replace(form, verifier="exact", verifier_settings={}), library)


@pytest.mark.parametrize("name", ["plain", "assistant", "prompt-lookup", "mtp"])
def test_the_chat_template_is_applied_as_the_playground_applies_it(name: str, folders: Any, library: Library) -> None:
    form = _form(folders, name, chat=True)
    left = _executed(form)
    prepared = form.prepare(library)
    assert tuple(left["inputs"]["input_ids"][0].tolist()) == prepared.request.prompt_ids
    assert prepared.request.prompt_ids != replace(form, chat=False).prepare(library).request.prompt_ids
    assert _ids(left) == _ours(form, library)


@pytest.mark.parametrize("name", ["plain", "assistant", "prompt-lookup", "early-exit", "mtp-drafter"])
def test_a_stop_string_ends_the_text_and_banned_words_stay_away(name: str, folders: Any, library: Library) -> None:
    form = _form(folders, name, max_new_tokens=40)
    free = _ours(form, library)
    tokenizer = form.prepare(library).target.tokenizer
    seen = [decode_all(tokenizer, [i]) for i in free]
    banned = next(c for c in seen if c.isascii() and c.isprintable() and len(c) == 1 and c not in "\\ ")
    form = replace(form, banned=banned)
    without = _ours(form, library)
    assert _ids(_executed(form)) == without
    text = decode_all(tokenizer, without)
    assert banned not in text
    pieces = [decode_all(tokenizer, [i]) for i in without]
    stop = next(c for c in pieces[2:] if c.isascii() and c.isprintable() and len(c) == 1 and c not in "\\ <|end|>")
    form = replace(form, stop_strings=stop)
    kept = decode_all(tokenizer, _ours(form, library))
    assert kept.endswith(stop) and len(kept) < len(text)
    assert _executed(form)["text"].replace(END, "") == kept.replace(END, "")  # a tokenizer's own marks may be left out


def test_a_checkpoints_own_settings_are_switched_off(tmp_path: Path, library: Library) -> None:
    # Top-k 50 is on by itself; a checkpoint may have anything else on.
    from transformers import GenerationConfig

    folder = save_tiny(tmp_path / "tiny", eos=None)
    GenerationConfig(do_sample=True, temperature=0.1, top_k=1, top_p=0.1, repetition_penalty=5.0).save_pretrained(
        folder
    )
    form = Form(prompt=HELLO, target=str(folder), strategy="plain", chat=False, max_new_tokens=24)
    assert _ids(_executed(form)) == _ours(form, library)
    wild = replace(form, temperature=2.0, seed=5)
    first, again, other = (_ids(_executed(f)) for f in (wild, wild, replace(wild, seed=6)))
    assert first == again != other  # with top-k 1 all three were the same
    narrow = replace(wild, temperature=1.0, top_k=1)
    assert _ids(_executed(narrow)) == _ours(form, library)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("verifier", VERIFIERS)
def test_the_code_for_sampling_runs_under_every_verifier(name: str, verifier: str, folders: Any) -> None:
    chosen = STRATEGIES[name]
    settings = {chosen.q_when[0]: chosen.q_when[1]} if chosen.q_when else {}
    if VERIFIERS[verifier].mixes and not chosen.gives_q(settings) and chosen.drafts:
        return
    form = _form(
        folders, name, verifier=verifier, temperature=0.7, top_p=0.9, min_p=0.02, seed=1, settings=settings,
        max_new_tokens=5,
    )  # fmt: skip
    assert 1 <= len(_ids(_executed(form))) <= 5


# What must be said, by the settings that make it due.
DUE: dict[str, dict[str, Any]] = {
    "no EAGLE head": {"strategy": "eagle"},
    "either prompt lookup or an assistant": {"strategy": "lookup+assistant"},
    "for each prediction layer": {"strategy": "mtp", "k": 5},
    "Gemma 4 drafter": {"strategy": "mtp-drafter", "temperature": 0.5},
    "when sampling with two tokenizers": {"strategy": "universal", "temperature": 0.5},
    "no shared tokens there": {"strategy": "universal", "settings": {"method": "intersection"}},
    "from the first match": {"strategy": "prompt-lookup", "settings": {"take": "longest"}},
    "among all tokens": {"strategy": "assistant"},
    "grow beyond K = 3": {"strategy": "assistant", "settings": {"schedule": "heuristic"}},
    "scikit-learn": {"strategy": "early-exit", "settings": {"confidence": 0.5}},
    "no stop strings with drafts": {"strategy": "mtp", "stop_strings": "end"},
    "no typical acceptance": {"strategy": "mtp", "verifier": "typical", "temperature": 0.5},
    "no coupled verifier": {"strategy": "mtp", "verifier": "coupled", "temperature": 0.5},
    "no match verifier": {"strategy": "eagle", "verifier": "match", "temperature": 0.5},
    "which the ensemble's is not": {"strategy": "eagle", "verifier": "ensemble"},
    "4-bit weights": {},
    "other random numbers": {"strategy": "plain", "temperature": 0.5},
    "In bfloat16": {"strategy": "assistant"},
    "must be a whole number from 1 to 32": {"k": 99},
    "The prompt is empty": {"prompt": " \n"},
}


def _comments(form: Form) -> str:
    rows = snippet(form, dtype_of=lambda name: "bfloat16").splitlines()
    return " ".join(" ".join(row.removeprefix("# ") for row in rows if row.startswith("#")).split())


@pytest.mark.parametrize("text", DUE)
def test_what_transformers_does_otherwise_is_said(text: str) -> None:
    assert text in _comments(replace(Form(prompt="Why?"), **DUE[text]))


def test_nothing_is_said_where_transformers_does_the_same() -> None:
    form = Form(prompt="Why?", target="story-teller", strategy="prompt-lookup", settings={"take": "first"})
    assert not snippet(form, dtype_of=_in_float32).startswith("#")
    silent = Form(prompt="Why?", target="story-teller", strategy="plain")
    for text in DUE:
        assert text not in _comments(silent)


def test_whatever_generate_cannot_draft_is_named_in_a_comment() -> None:
    for name in ALL:
        for temperature in (0.0, 0.5):
            form = Form(prompt="Why?", strategy=name, temperature=temperature, target="story-teller")
            asked = drafting(_request(form))
            if asked is None:
                assert "transformers" in _comments(form), name


def _request(form: Form) -> Any:
    from playground.trace import Request

    return Request(
        prompt_ids=(0,), strategy=form.strategy, temperature=float(form.temperature or 0),
        settings=strategy(form.strategy).settled({}),
    )  # fmt: skip


HOSTILE = [
    '"""', "'''", "\\", "\\'", "\"'", "'); import os; print('gone", "\n\nimport os\nraise SystemExit", "\r\nx = 1",
    "\u202e{0}{prompt}%s", "\x00\x07\x0c\x1b", "\u2028\u2029\x85", "# coding: latin-1", "\ud800", "a" * 5000,
    "'\n" * 300,
    "line one\nline 'two'\n\n\"three\"", " leading and trailing ", "{{ messages }}", "\\N{DIGIT ONE}", "{reason}",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_text_stays_a_text(text: str) -> None:
    _check_quoting(text)


@given(st.text(max_size=300))
def test_any_text_stays_a_text(text: str) -> None:
    _check_quoting(text)


def _check_quoting(text: str) -> None:
    """The code's own parts stay as they are, and the text is one literal of it."""
    calm = Form(prompt="x", target="t", assistant="a", banned="w")
    fields = {"prompt": text, "target": text, "assistant": text or None, "banned": [text], "stop_strings": [text]}
    for name, value in fields.items():
        if not text.strip() and name in ("prompt", "stop_strings"):
            continue
        tree = ast.parse(snippet(replace(calm, **{name: value})))
        values = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        assert text in values or name == "assistant"
        usual = ast.parse(snippet(replace(calm, **{name: ["y"] if isinstance(value, list) else "y"})))
        assert _shape(tree) == _shape(usual)


def _shape(tree: ast.AST) -> list[str]:
    return [type(node).__name__ for node in ast.walk(tree)]


def test_models_are_named_by_hub_id_bundled_folder_or_path() -> None:
    assert place("smollm2-135m-instruct") == "HuggingFaceTB/SmolLM2-135M-Instruct"
    assert place("my/folder") == "my/folder"
    for name, entry in CATALOGUE.items():
        if entry.hub is None:
            assert (ASSETS.parent / place(name) / "config.json").is_file()
        else:
            assert place(name) == entry.hub


def test_no_folder_of_the_users_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    true = Path.is_file
    monkeypatch.setattr(Path, "is_file", lambda self: looked.append(str(self)) or true(self))
    snippet(Form(prompt="x", target="/somewhere/else", assistant="/another/place", chat=True))
    assert all(str(ASSETS) in path for path in looked)


@pytest.mark.parametrize("name", PRESETS)
def test_the_code_of_every_preset_can_be_read(name: str) -> None:
    for language in languages():
        ast.parse(snippet(form_of(PRESETS[name]), language))
