"""What a refused token was replaced from, as the slow motion shows it."""

import pytest
import torch
from fakes import pair_for
from runs import DRAFTING, run

from playground.engine import _residual
from playground.sampling import VERIFIERS


def test_it_holds_the_refused_token_and_the_largest_of_p_beyond_q() -> None:
    p = torch.tensor([0.1, 0.4, 0.3, 0.15, 0.05])
    q = torch.tensor([0.5, 0.1, 0.1, 0.25, 0.05])
    (refused, *rest) = _residual(p, q, 0)
    assert refused == (0, pytest.approx(0.1), pytest.approx(0.5))
    assert rest == [(1, pytest.approx(0.4), pytest.approx(0.1)), (2, pytest.approx(0.3), pytest.approx(0.1))]


def test_without_q_all_of_it_was_on_the_refused_token() -> None:
    shown = _residual(torch.tensor([0.2, 0.5, 0.3]), None, 1)
    assert shown[0] == (1, pytest.approx(0.5), 1.0)
    assert [i for i, _, _ in shown[1:]] == [2, 0] and all(q == 0 for _, _, q in shown[1:])


@pytest.mark.parametrize("strategy", DRAFTING)
@pytest.mark.parametrize("verifier", sorted(VERIFIERS))
def test_only_rejected_tokens_of_exact_sampling_have_one(strategy: str, verifier: str) -> None:
    if VERIFIERS[verifier].mixes:
        return
    target, helper = pair_for(strategy, stops=False)
    one = run(strategy, target, helper, temperature=1.0, verifier=verifier, max_new_tokens=40, seed=3)
    tokens = [t for r in one.rounds for t in r.tokens]
    assert all(bool(t.residual) is (t.verdict == "rejected" and verifier == "exact") for t in tokens)
    for a, b in [(a, b) for r in one.rounds for a, b in zip(r.tokens, r.tokens[1:], strict=False)]:
        if a.residual and b.verdict == "corrected":
            assert a.residual[0][0] == a.id and a.residual[0][1] <= a.residual[0][2]
            assert b.id not in {i for i, p, q in a.residual[1:] if p <= q}
    greedy = run(strategy, target, helper, max_new_tokens=20)
    assert all(t.residual == () for r in greedy.rounds for t in r.tokens)
