"""The numbers are folds over rounds with the identities of their definitions; the formulas are the papers'."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground import theory
from playground.metrics import DEFINITIONS, Tally
from playground.trace import (
    Finished,
    InvalidRequest,
    InvalidTrace,
    Request,
    Round,
    Started,
    Token,
    Trace,
    Verdict,
    trace_from_json,
)

seconds = st.floats(0, 10)
share = st.one_of(st.none(), st.floats(0, 1))


@st.composite
def rounds(draw: st.DrawFn) -> Round:
    """Any round that the engine may emit."""
    accepted = draw(st.integers(0, 5))
    ending = draw(st.sampled_from(["rejected", "stopped", "bonus"]))
    verdicts: list[Verdict] = ["accepted"] * accepted
    if ending == "rejected":
        verdicts += ["rejected"] + ["discarded"] * draw(st.integers(0, 4)) + ["corrected"]
    elif ending == "stopped" and accepted:
        verdicts += ["discarded"] * draw(st.integers(0, 4))
    else:
        verdicts += ["bonus" if accepted else "plain"]
    tokens = tuple(
        Token(id=draw(st.integers(0, 300)), verdict=v, overlap=draw(share) if v in ("accepted", "rejected") else None)
        for v in verdicts
    )
    width = 1 + sum(v in ("accepted", "rejected", "discarded") for v in verdicts)
    return Round(0, tokens, draw(seconds), draw(seconds), draw(seconds), draw(seconds), width)


@given(st.lists(rounds(), max_size=20), st.lists(rounds(), max_size=5))
def test_the_identities_hold_on_every_run(run: list[Round], other: list[Round]) -> None:
    tally = Tally.of(run)
    c = tally.counts
    assert tally.emitted == c["accepted"] + c["corrected"] + c["bonus"] + c["plain"] == sum(len(r.emitted) for r in run)
    assert tally.drafted == c["accepted"] + c["rejected"] + c["discarded"] == sum(len(r.drafted) for r in run)
    for rate in (tally.acceptance_rate, tally.tested_acceptance_rate, tally.alpha):
        assert rate is None or 0 <= rate <= 1
    assert sum(tally.accepted_lengths.values()) == tally.rounds == sum(tally.draft_lengths.values())
    unconditional, conditional = tally.acceptance_at()
    assert all(0 <= x <= 1 for x in unconditional)
    assert all(x is None or 0 <= x <= 1 for x in conditional)
    assert set(tally.numbers(Tally.of(other))) == set(DEFINITIONS)
    whole = tally.seconds()
    assert whole["total"] == pytest.approx(sum(v for k, v in whole.items() if k != "total"))


@given(st.lists(rounds(), min_size=1, max_size=20))
def test_a_run_measured_against_itself_has_speedup_one(run: list[Round]) -> None:
    tally = Tally.of(run)
    speedup = tally.measured_speedup(Tally.of(run))
    assert speedup is None or speedup == pytest.approx(1.0)


def test_numbers_of_a_run_made_by_hand() -> None:
    def token(verdict: Verdict, overlap: float | None = None) -> Token:
        return Token(1, verdict, overlap=overlap)

    run = [
        Round(0, (token("accepted", 0.9), token("rejected", 0.5), token("discarded"), token("corrected")),
              0.3, 1.2, 0.0, 0.1, 4),
        Round(1, (token("accepted", 1.0), token("accepted", 0.8), token("accepted", 0.8), token("bonus")),
              0.3, 1.2, 0.0, 0.1, 4),
    ]  # fmt: skip
    plain = [Round(i, (token("plain"),), 0.0, 1.0, 0.0, 0.05, 1) for i in range(4)]
    tally, base = Tally.of(run, Started(2.0, 0.5)), Tally.of(plain)
    numbers = tally.numbers(base)
    assert numbers["acceptance_rate"] == pytest.approx(4 / 6)
    assert numbers["tested_acceptance_rate"] == pytest.approx(4 / 5)
    assert numbers["alpha"] == pytest.approx((0.9 + 0.5 + 1.0 + 0.8 + 0.8) / 5)
    assert numbers["tokens_per_pass"] == 3.0
    assert numbers["cost_ratio"] == pytest.approx(0.1)
    assert numbers["tokens_per_second"] == pytest.approx(6 / 3.0)
    assert numbers["measured_speedup"] == pytest.approx((4 / 4) / (3.0 / 6))
    a = numbers["alpha"]
    assert numbers["predicted_speedup"] == pytest.approx((1 - a**4) / ((1 - a) * (3 * 0.1 + 1)))
    assert numbers["predicted_speedup_verify"] == pytest.approx((1 - a**4) / ((1 - a) * (3 * 0.1 + 1.2)))
    assert numbers["efficiency"] == pytest.approx(numbers["measured_speedup"] / numbers["predicted_speedup"])
    assert numbers["passes_saved"] == 4
    assert tally.acceptance_at() == ([1.0, 0.5, 0.5], [1.0, 0.5, 1.0])
    assert tally.seconds()["prefill"] == 2.5


def test_nothing_is_claimed_where_nothing_was_measured() -> None:
    numbers = Tally().numbers()
    assert all(v is None for name, v in numbers.items() if name != "passes_saved")


@given(st.floats(0, 1), st.integers(1, 20), st.floats(0, 2))
def test_the_formula_is_theorem_3_8(alpha: float, k: int, c: float) -> None:
    value = theory.predicted_speedup(alpha, k, c)
    if alpha < 1 - 1e-9:
        assert value == pytest.approx((1 - alpha ** (k + 1)) / ((1 - alpha) * (k * c + 1)), rel=1e-6)
    assert theory.expected_tokens(alpha, k) == pytest.approx(sum(alpha**i for i in range(k + 1)), rel=1e-6)
    assert theory.predicted_speedup_of_rounds(alpha, {k: 7}, c) == pytest.approx(value)


def test_the_best_k_is_the_best() -> None:
    for alpha in (0.2, 0.5, 0.8, 0.95):
        for c in (0.01, 0.1, 0.5):
            best = theory.best_k(alpha, c)
            value = theory.predicted_speedup(alpha, best, c)
            assert value == max(theory.predicted_speedup(alpha, k, c) for k in range(1, 33))


@given(st.lists(rounds(), max_size=5), st.text(max_size=10))
def test_a_trace_survives_json(run: list[Round], text: str) -> None:
    trace = Trace(
        request=Request(prompt_ids=(1, 2), settings=(("ngram", 3),), stop_strings=("x",), prompt=text),
        started=Started(0.5, 0.1, None),
        rounds=tuple(run),
        finished=Finished("length", len(run), 3),
        pieces=((1, text),),
        text=text,
    )
    assert trace_from_json(trace.to_json()) == trace


GOOD = Trace(Request(prompt_ids=(1,)), Started(0.0), (), Finished("length", 0, 0)).to_json()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a JSON trace"),
        ("[" * 100_000, "not a JSON trace"),
        ("[]", "object"),
        ("{}", "schema None"),
        (GOOD.replace('"schema": 1', '"schema": 99'), "schema 99"),
        (GOOD.replace('"rounds": []', '"rounds": 3'), "rounds must be a list"),
        (GOOD.replace('"prefill_seconds": 0.0', '"prefill_seconds": NaN'), "NaN"),
        (GOOD.replace('"prefill_seconds": 0.0', '"prefill_seconds": -1'), "0 or more"),
        (GOOD.replace('"k": 4', '"k": 4000'), "K is 4000"),
        (GOOD.replace('"k": 4', '"knob": 4'), "unknown fields: knob"),
        (GOOD.replace('"text": ""', '"text": 7'), "text"),
    ],
)
def test_a_broken_trace_is_refused_with_a_reason(text: str, message: str) -> None:
    with pytest.raises((InvalidTrace, InvalidRequest), match=message):
        trace_from_json(text)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"prompt_ids": ()}, "the prompt"),
        ({"max_new_tokens": 0}, "max_new_tokens is 0"),
        ({"k": 0}, "K is 0"),
        ({"k": 33}, "K is 33; it must be a whole number from 1 to 32"),
        ({"k": 2.5}, "K is 2.5"),
        ({"temperature": -1}, "temperature is -1"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"top_k": -1}, "top_k is -1"),
        ({"top_p": 0}, "top_p is 0"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"min_p": 1}, "min_p is 1"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"stop_strings": ("",)}, "stop_strings"),
    ],
)
def test_a_bad_value_is_named_with_what_is_allowed(values: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        Request(**{"prompt_ids": (1,), **values})
