"""A long prompt is read in parts, so that whoever waits can leave; a verifier's chance to accept is its own."""

import pytest
from fakes import ScriptedDrafter, ScriptedTarget, table_logits
from runs import run

from playground.engine import PREFILL_TOKENS, Proposal, decode
from playground.metrics import Tally
from playground.models import Loaded
from playground.trace import Reading, Request, Started


def test_a_long_prompt_is_read_in_parts_and_can_be_left_between_them() -> None:
    prompt = tuple(i % 8 for i in range(3 * PREFILL_TOKENS + 5))
    target, drafter = ScriptedTarget(8, table_logits(8, 0)), ScriptedDrafter(lambda ids, k: Proposal())
    events = decode(Request(prompt_ids=prompt, max_new_tokens=3), target, drafter)
    parts = [next(events) for _ in range(3)]
    assert [(e.read, e.total) for e in parts if isinstance(e, Reading)] == [
        (n * PREFILL_TOKENS, len(prompt)) for n in (1, 2, 3)
    ]
    assert [len(ids) for ids in target.fed] == [PREFILL_TOKENS, 2 * PREFILL_TOKENS, 3 * PREFILL_TOKENS]
    events.close()
    assert (target.released, drafter.released) == (1, 1)


def test_a_short_prompt_is_read_at_once() -> None:
    target, drafter = ScriptedTarget(8, table_logits(8, 0)), ScriptedDrafter(lambda ids, k: Proposal())
    events = decode(Request(prompt_ids=(1, 2, 3), max_new_tokens=1), target, drafter)
    assert isinstance(next(events), Started)
    assert target.fed == [(1, 2)]


def test_alpha_is_not_claimed_for_a_verifier_that_does_not_weigh_q(tiny: Loaded, tiny_helper: Loaded) -> None:
    values = {"max_new_tokens": 60, "temperature": 0.8, "seed": 3}
    exact = Tally.of(run("assistant", tiny, tiny_helper, verifier="exact", **values).rounds)
    match = Tally.of(run("assistant", tiny, tiny, verifier="match", **values).rounds)
    assert exact.alpha is not None and match.alpha is None
    tested = match.tested_acceptance_rate
    assert tested is not None and 0 < tested < 1
    match.calibrated_pass_seconds = 1e9  # drafting is free against it
    expected = sum(n * sum(tested**i for i in range(k + 1)) for k, n in match.draft_lengths.items())
    assert match.predicted_speedup() == pytest.approx(expected / match.rounds, rel=1e-3)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_number_counts_as_drawn_only_where_it_decides(temperature: float, tiny: Loaded, tiny_helper: Loaded) -> None:
    one = run("assistant", tiny, tiny_helper, max_new_tokens=20, temperature=temperature)
    tested = [t for r in one.rounds for t in r.tokens if t.verdict in ("accepted", "rejected")]
    assert all((t.drawn is None) == (temperature == 0) for t in tested)
