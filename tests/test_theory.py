"""The formulas against counting: exact enumeration of a round, a simulated run, brute force."""

import math
import random
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from playground import theory

ALPHAS = st.floats(0, 1)
SHARES = st.floats(0, 1)
KS = st.integers(1, 16)


def outcomes(alpha: float, k: int) -> list[tuple[float, int]]:
    """Every way that a round can go: its chance, and the tokens that it emits. Each of the k guesses would pass with
    chance alpha by itself; the round emits those before the first failure and one token of the target."""
    made = []
    for passed in product((True, False), repeat=k):
        chance = math.prod(alpha if one else 1 - alpha for one in passed)
        made.append((chance, (passed.index(False) if False in passed else k) + 1))
    return made


@given(ALPHAS, st.integers(1, 8))
def test_expected_tokens_are_the_mean_over_every_outcome_of_a_round(alpha: float, k: int) -> None:
    ways = outcomes(alpha, k)
    assert sum(chance for chance, _ in ways) == pytest.approx(1)
    assert theory.expected_tokens(alpha, k) == pytest.approx(sum(chance * n for chance, n in ways), rel=1e-9)


@pytest.mark.parametrize("k", range(1, 17))
def test_both_ends_of_alpha_are_exact(k: int) -> None:
    assert theory.expected_tokens(0.0, k) == 1.0
    assert theory.expected_tokens(1.0, k) == k + 1.0
    assert theory.expected_tokens(1 - 1e-12, k) == pytest.approx(k + 1, rel=1e-3)
    assert theory.round_speedup(0.0, k, 0.0) == 1.0
    assert theory.round_speedup(1.0, k, 0.0) == k + 1.0
    assert theory.round_speedup(1.0, k, 0.0, 1.0) == 1.0


@pytest.mark.parametrize(("alpha", "k", "c", "v"), [(0.6, 3, 0.08, 0.05), (0.9, 7, 0.02, 0.0), (0.3, 2, 0.2, 0.3)])
def test_a_simulated_run_takes_the_time_that_the_formula_says(alpha: float, k: int, c: float, v: float) -> None:
    draw = random.Random(0).random
    clock = tokens = 0.0
    for _ in range(40_000):
        kept = next((i for i in range(k) if draw() >= alpha), k)
        tokens += kept + 1
        clock += k * c + 1 + k * v
    assert tokens / clock == pytest.approx(theory.round_speedup(alpha, k, c, v), rel=0.01)


@given(ALPHAS, SHARES, SHARES)
def test_the_best_k_is_the_one_that_brute_force_finds(alpha: float, c: float, v: float) -> None:
    enumerated = [sum(alpha**i for i in range(k + 1)) / (k * c + 1 + k * v) for k in range(1, 17)]
    best = theory.best_k(alpha, c, k_max=16, wider=v)
    assert enumerated[best - 1] == pytest.approx(max(enumerated), rel=1e-9)


@given(ALPHAS, SHARES, st.floats(0.5, 3))
def test_without_a_wider_pass_the_best_k_is_that_of_theorem_3_8(alpha: float, c: float, verify: float) -> None:
    found = theory.best_k(alpha, c, verify, 12)
    every = [theory.predicted_speedup(alpha, k, c, verify) for k in range(1, 13)]
    assert found == every.index(max(every)) + 1


@given(KS, SHARES, SHARES)
def test_at_the_break_even_alpha_both_are_exactly_as_fast(k: int, c: float, v: float) -> None:
    alpha = theory.break_even_alpha(k, c, v)
    if alpha is None:
        assert c + v > 1 and theory.round_speedup(1.0, k, c, v) < 1
        return
    assert 0 <= alpha <= 1
    assert theory.round_speedup(alpha, k, c, v) == pytest.approx(1, abs=1e-9)
    if alpha > 0.001:
        assert theory.round_speedup(alpha - 0.001, k, c, v) < 1
    if alpha < 0.999:
        assert theory.round_speedup(alpha + 0.001, k, c, v) > 1


@given(ALPHAS, KS, st.floats(0, 1))
def test_at_the_break_even_cost_both_are_exactly_as_fast(alpha: float, k: int, share: float) -> None:
    cost = theory.break_even_cost(alpha, k)
    assert 0 <= cost <= alpha + 1e-12
    assert theory.round_speedup(alpha, k, share * cost, (1 - share) * cost) == pytest.approx(1, abs=1e-9)


@given(ALPHAS, SHARES, SHARES)
def test_a_speedup_exists_if_and_only_if_alpha_is_above_c_plus_v(alpha: float, c: float, v: float) -> None:
    best = max(theory.round_speedup(alpha, k, c, v) for k in range(1, 65))
    if theory.can_speed_up(alpha, c, v):
        assert best >= theory.least_best_speedup(alpha, c, v) - 1e-12
        assert theory.least_best_speedup(alpha, c, v) >= 1
    else:
        assert best <= 1 + 1e-12


@given(st.floats(0, 0.99), st.floats(0.001, 0.01), KS, SHARES, SHARES)
def test_more_acceptance_is_never_slower_and_more_cost_never_faster(
    alpha: float, more: float, k: int, c: float, v: float
) -> None:
    base = theory.round_speedup(alpha, k, c, v)
    assert theory.round_speedup(alpha + more, k, c, v) >= base
    assert theory.round_speedup(alpha, k, c + more, v) <= base
    assert theory.round_speedup(alpha, k, c, v + more) <= base
    assert theory.expected_tokens(alpha, k + 1) >= theory.expected_tokens(alpha, k)


@given(ALPHAS, KS, SHARES, SHARES)
def test_a_wider_pass_that_costs_more_acts_like_a_drafter_that_does(alpha: float, k: int, c: float, v: float) -> None:
    assert theory.round_speedup(alpha, k, c, v) == pytest.approx(theory.predicted_speedup(alpha, k, c + v))


@given(ALPHAS, st.integers(1, 8), SHARES)
def test_operations_are_those_of_k_drafted_and_k_plus_1_checked_tokens_and_never_fewer_than_plain(
    alpha: float, k: int, c: float
) -> None:
    tokens = sum(chance * n for chance, n in outcomes(alpha, k))
    factor = theory.operations_factor(alpha, k, c)
    assert factor == pytest.approx((k * c + k + 1) / tokens, rel=1e-9)
    assert factor >= 1 + k * c / (k + 1) - 1e-9
    if alpha < 1:
        paper = (1 - alpha) * (k * c + k + 1) / (1 - alpha ** (k + 1))
        assert factor == pytest.approx(paper, rel=1e-6)


@given(ALPHAS, KS)
def test_target_passes_per_token_lie_between_one_for_a_whole_draft_and_plain_decodings(alpha: float, k: int) -> None:
    assert 1 / (k + 1) - 1e-12 <= theory.target_passes(alpha, k) <= 1
