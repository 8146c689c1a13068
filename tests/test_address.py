"""Addresses: what is written is read again, and a stranger's address does nothing but name what is wrong with it."""

import builtins
import math
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground.address import FOREIGN, LANGUAGE, LIMITS, LONGEST, NAMES, TAB, Opened, from_query, to_query
from playground.catalogue import CATALOGUE
from playground.models import Library
from playground.presets import PRESETS
from playground.sampling import VERIFIERS
from playground.settings import Choice
from playground.trace import Request
from playground.ui.form import Form
from playground.ui.presets import form_of
from playground.words import languages, say
from strategies import STRATEGIES

FIRST = Form(prompt="Once upon a time")
DEFAULTS = replace(FIRST, settings=dict(STRATEGIES[FIRST.strategy].settled({})))
TABS = ("run", "compare", "reckon", "prove")
TARGETS = [e.name for e in CATALOGUE.values() if e.used_as == "target"]
ASSISTANTS = [e.name for e in CATALOGUE.values() if e.used_as == "assistant"]


def _read(query: str) -> Opened:
    return from_query(query, FIRST, TABS)


def _said(opened: Opened) -> str:
    return "\n".join(say("en", text, **values) for text, values in opened.problems)


def _values(choices: tuple[Choice, ...], target: str) -> st.SearchStrategy[dict[str, Any]]:
    def values(choice: Choice) -> st.SearchStrategy[Any]:
        if choice.options:
            return st.sampled_from([value for value, _ in choice.options])
        low, high = choice.minimum, choice.maximum
        if choice.maximum_of is not None:
            high = (CATALOGUE[target].layers or 2) - 1
        assert low is not None and high is not None
        return st.integers(int(low), int(high)) if isinstance(choice.default, int) else st.floats(low, high)

    return st.fixed_dictionaries({choice.name: values(choice) for choice in choices})


@st.composite
def forms(draw: st.DrawFn) -> Form:
    """Any form that the page's controls can make."""

    def number(name: str) -> Any:
        low, high = LIMITS[name]
        return draw(st.integers(int(low), int(high)) if isinstance(low, int) else st.floats(low, high))

    strategy, verifier = draw(st.sampled_from(sorted(STRATEGIES))), draw(st.sampled_from(sorted(VERIFIERS)))
    target = draw(st.sampled_from(TARGETS))
    short = st.text(max_size=40)
    return Form(
        prompt=draw(st.text(max_size=200)),
        target=target,
        strategy=strategy,
        assistant=draw(st.none() | st.sampled_from(ASSISTANTS)),
        **{name: number(name) for name in LIMITS},
        verifier=verifier,
        stop_strings=draw(short),
        banned=draw(short),
        chat=draw(st.booleans()),
        baseline=draw(st.booleans()),
        settings=draw(_values(STRATEGIES[strategy].settings, target)),
        verifier_settings=draw(_values(VERIFIERS[verifier].settings, target)),
    )


@given(forms(), st.none() | st.sampled_from(TABS), st.none() | st.sampled_from(sorted(languages())))
def test_what_is_written_is_read_again(form: Form, tab: str | None, language: str | None) -> None:
    query = to_query(form, FIRST, tab, language)
    assert query.isascii() and not set(query) & set('<>"\n\\ #')
    opened = from_query(query, FIRST, TABS)
    if len(query) <= LONGEST:
        assert opened == Opened(form, tab, language, ())


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_fits_in_a_link(name: str) -> None:
    form = form_of(PRESETS[name])
    query = to_query(form, FIRST)
    assert len(query) < LONGEST and _read(query).form == form


def test_only_the_strategy_and_what_differs_is_written() -> None:
    assert to_query(DEFAULTS, FIRST) == "strategy=assistant"
    form = replace(
        DEFAULTS, strategy="mtp", k=5, temperature=0.8, prompt="Hello, you!", settings={}, target="story-teller"
    )
    assert to_query(form, FIRST) == "strategy=mtp&target=story-teller&k=5&t=0.8&prompt=Hello,%20you!"
    changed = replace(DEFAULTS, settings={**DEFAULTS.settings, "schedule": "heuristic"}, verifier="typical")
    assert to_query(changed, FIRST) == "strategy=assistant&verifier=typical&schedule=heuristic"


def test_every_field_and_every_setting_has_a_name_of_its_own() -> None:
    assert {*NAMES.values(), "settings", "verifier_settings"} == {f.name for f in fields(Form)}
    taken = {*NAMES, TAB, LANGUAGE}
    for owner in (*STRATEGIES.values(), *VERIFIERS.values()):
        assert not taken & {choice.name for choice in owner.settings}
    rules = {choice.name for info in VERIFIERS.values() for choice in info.settings}
    assert not rules & {choice.name for s in STRATEGIES.values() for choice in s.settings}


@pytest.mark.parametrize("name", LIMITS)
def test_the_ends_of_the_limits_can_be_run(name: str) -> None:
    for end in LIMITS[name]:
        assert getattr(Request(prompt_ids=(1,), **{name: end}), name) == end


@pytest.mark.parametrize("query", ["", "?", "&&", "lang=en", "tab=reckon", "__theme=dark", "utm_source=a"])
def test_an_address_without_settings_leaves_the_page_as_it_is(query: str) -> None:
    opened = _read(query)
    assert opened.form is None and opened.problems == ()


def test_what_is_gradios_own_is_left_alone() -> None:
    opened = _read("__theme=dark&__sign=x&view=api&deep_link=abc&k=5")
    assert opened.problems == () and opened.form is not None and opened.form.k == 5


# Each names what is wrong with it, and keeps the rest: k=7.
HOSTILE = {
    "foo=1": "'foo' in the address is no setting",
    "<script>alert(1)</script>=1": "'<script>alert(1)</script>' in the address is no setting",
    "__proto__=1": "'__proto__' in the address is no setting",
    "constructor=x&toString=y": "'constructor' in the address is no setting",
    "__class__=1": "'__class__'",
    "settings=1": "'settings' in the address is no setting",
    "t=NaN": "t is 'NaN' in the address; it must be a number from 0 to 2.",
    "t=1e999": "t is '1e999'",
    "t=-0.5": "t is '-0.5'",
    "t=%20inf": "t is ' inf'",
    "t=0x1": "t is '0x1'",
    "t=1_0": "t is '1_0'",
    "t=%D9%A1": "t is '١'",
    "t=": "t is ''",
    "t[]=1": "'t[]' in the address is no setting",
    "t={}": "t is '{}'",
    "seed=-1": "seed is '-1' in the address; it must be a whole number from 0 to 9007199254740991.",
    "seed=1.5": "seed is '1.5'",
    "seed=9007199254740992": "seed is '9007199254740992'",
    "seed=" + "9" * 5000: "seed is '9999",
    "tokens=1000000000": "tokens is '1000000000' in the address; it must be a whole number from 1 to 1024.",
    "top_p=0": "top_p is '0'",
    "min_p=true": "min_p is 'true'",
    "penalty=null": "penalty is 'null'",
    "chat=yes": "chat is 'yes' in the address; it must be one of 0, 1.",
    "strategy=magic": "strategy is 'magic' in the address; it must be one of plain, assistant",
    "verifier=none": "verifier is 'none' in the address; it must be one of exact",
    "target=nothing": "target is 'nothing' in the address, which is no model of the catalogue.",
    "target=/etc": "target is '/etc'",
    "target=../../etc/passwd": "target is '../../etc/passwd'",
    "assistant=~/models/mine": "assistant is '~/models/mine'",
    "assistant=evil/repo": "assistant is 'evil/repo'",
    "target=": "target is ''",
    "exit_layer=3": "'exit_layer' in the address is a setting of early-exit, which was not chosen",
    "weight=0.5": "'weight' in the address is a setting of ensemble, which was not chosen",
    "strategy=early-exit&exit_layer=30": "exit_layer is '30' in the address; it must be a whole number from 1 to 29.",
    "schedule=never": "schedule is 'never' in the address; it must be one of constant, heuristic, confidence.",
    "confidence=2": "confidence is '2' in the address; it must be a number from 0 to 1.",
    "tab=secret": "tab is 'secret' in the address; it must be one of run, compare, reckon, prove.",
    "lang=../../x": "lang is '../../x' in the address; it must be one of en",
    "seed=1&seed=2": "'seed' is in the address more than once: the first value was taken.",
    "prompt=%zz": "'prompt=%zz' in the address is not properly encoded",
    "prompt=%ff": "'prompt=%ff' in the address is not properly encoded",
    "%": "'%' in the address is not properly encoded",
}


@pytest.mark.parametrize("query", HOSTILE)
def test_what_is_wrong_is_named_and_the_rest_is_kept(query: str) -> None:
    opened = _read(f"{query}&k=7")
    assert HOSTILE[query] in _said(opened)
    assert opened.form is not None and opened.form.k == 7
    asked = query.removeprefix("strategy=early-exit&")
    wrong = asked.partition("=")[0]
    kept = replace(DEFAULTS, k=7)
    if "early-exit" in query:
        kept = replace(kept, strategy="early-exit", settings=dict(STRATEGIES["early-exit"].settled({})))
    if wrong == "seed" and asked.count("seed") == 2:
        kept = replace(kept, seed=1)
    assert opened.form == kept
    assert all(len(row) < 400 for row in _said(opened).splitlines())


@pytest.mark.parametrize("length", [LONGEST + 1, 100_000, 3_000_000])
def test_too_long_an_address_is_not_used_at_all(length: int) -> None:
    query = "k=7&prompt=" + "a" * (length - 11)
    opened = _read(query)
    assert opened.form is None
    assert f"The address is {length:,} characters long, and at most 8,000 are read" in _said(opened)
    assert _read(query[:LONGEST]).form == replace(DEFAULTS, k=7, prompt="a" * (LONGEST - 11))


@given(st.text(alphabet=st.characters(codec="ascii"), max_size=200))
def test_no_address_breaks_it_and_what_it_gives_can_be_written_again(query: str) -> None:
    opened = _read(query)
    for text, values in opened.problems:
        assert "{" not in text.format(**values) or "{" in query
    if opened.form is not None:
        assert _read(to_query(opened.form, FIRST)).form == opened.form


@given(st.dictionaries(st.sampled_from([*NAMES, "weight", "exit_layer", TAB, LANGUAGE]), st.text(max_size=30)))
def test_any_values_under_true_names_end_as_a_checked_form(values: dict[str, str]) -> None:
    opened = _read("&".join(f"{name}={quote(value)}" for name, value in values.items()))
    form = opened.form or DEFAULTS
    for name, (low, high) in LIMITS.items():
        value: Any = getattr(form, name)
        assert math.isfinite(value) and low <= value <= high
    assert form.strategy in STRATEGIES and form.verifier in VERIFIERS and form.target in CATALOGUE
    assert form.assistant is None or form.assistant in CATALOGUE
    assert opened.tab in (None, *TABS) and opened.language in (None, *languages())


def test_a_model_that_the_page_was_started_with_may_be_named() -> None:
    opened = from_query("target=/my/model", FIRST, TABS, ["/my/model"])
    assert opened.form is not None and opened.form.target == "/my/model" and opened.problems == ()


def test_reading_an_address_opens_no_file_and_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    languages()  # its files are read once

    def refuse(*args: object, **options: object) -> Any:
        raise AssertionError(f"it looked at {args}")

    for owner, name in ((builtins, "open"), (os, "stat"), (Path, "is_file"), (Path, "exists"), (Library, "load")):
        monkeypatch.setattr(owner, name, refuse)
    opened = _read("target=/etc&assistant=story-drafter&strategy=early-exit&exit_layer=2&k=7")
    monkeypatch.undo()
    assert opened.form is not None and opened.form.assistant == "story-drafter"


def test_texts_of_the_page_are_written_as_the_page_has_them() -> None:
    form = replace(DEFAULTS, stop_strings=["a\nb", "c\\n"], prompt="a\ud800")
    opened = _read(to_query(form, FIRST))
    assert opened.form is not None
    assert opened.form.stop_strings == "a\\nb\nc\\\\n"
    assert opened.form.prompt == "a?"  # half a character: no address can hold it


def test_the_pattern_of_foreign_names_names_none_of_ours() -> None:
    import re

    ours = {*NAMES, TAB, LANGUAGE}
    ours |= {c.name for o in (*STRATEGIES.values(), *VERIFIERS.values()) for c in o.settings}
    assert not [name for name in ours if re.fullmatch(FOREIGN, name)]
