"""What each verifier does to the law of the text, by enumeration and on whole runs; their settings and labels."""

import math
import re
from collections import Counter
from random import Random

import pytest
import torch
from fakes import ScriptedDrafter, ScriptedTarget, byte_tokenizer, pair_for, table_logits, tiny_llama
from runs import ALL, Run, collect, request_for
from test_lossless import V, chi_square, law_of, random_law
from torch import Tensor

from playground.engine import Proposal, decode
from playground.metrics import DEFINITIONS, Tally
from playground.models import Library, Loaded, wrap
from playground.run import Prepared, prepare
from playground.sampling import (
    COUPLED,
    VERIFIERS,
    Chance,
    Law,
    Rule,
    agreement,
    coupled_sample,
    distance,
    is_lossless,
    sample,
)
from playground.trace import (
    Finished,
    InvalidRequest,
    InvalidTrace,
    Request,
    Round,
    Started,
    Token,
    Trace,
    emitted_ids,
    trace_from_json,
)
from strategies import STRATEGIES

COPYING = (1, 2, 3, 1, 2, 3, 1, 2)
SEEDS = 3000


def rule(name: str, **settings: float) -> Rule:
    """That verifier with these settings, over drawn tokens."""
    return Rule.of(Request((1,), temperature=1.0, verifier=name, verifier_settings=tuple(settings.items())))


# --- one position, by enumeration -------------------------------------------------------------------


def written_law(chosen: Rule, p: Tensor, q: Tensor, steps: int = 1500) -> tuple[Tensor, float]:
    """The law [V] of the first token written, drafts drawn from q [V], and the share of drafts kept: every draft, and
    a grid over the two uniform numbers that decide."""
    law, kept = torch.zeros(V, dtype=torch.float64), 0.0
    rows = torch.stack([p, p])
    for x in range(V):
        if q[x] == 0:
            continue
        for i in range(steps):
            u = (i + 0.5) / steps
            # The second number is spread evenly too, and out of step with the first.
            got = chosen.verify(rows, q[None], [x], Chance(Stepped(u, (i * 0.6180339887498949) % 1.0)))
            kept += float(q[x]) * got.accepted / steps
            law[x if got.accepted else got.next_id] += float(q[x]) / steps
    return law, kept


class Stepped(Random):
    """Two uniform numbers, as told."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__(0)
        self._numbers = [second, first]

    def random(self) -> float:
        """The next one."""
        return self._numbers.pop()


LOSSY = [("ensemble", {"weight": w}) for w in (0.1, 0.5, 0.9)] + [
    ("typical", {"epsilon": e, "delta": d}) for e, d in ((0.09, 0.3), (0.5, 0.9))
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("name", "settings"), LOSSY)
def test_a_lossy_verifier_writes_the_law_that_it_states(name: str, settings: dict[str, float], seed: int) -> None:
    p, q = random_law(seed, 1)[0], random_law(seed + 100, 1)[0]
    chosen = rule(name, **settings)
    law, kept = written_law(chosen, p, q)
    assert chosen.outcome is not None
    passing, stated = chosen.outcome(p[None], q[None], [0], False)
    assert stated is not None
    assert kept == pytest.approx(float(passing[0]), abs=5e-3)
    assert float(distance(law, stated[0])) < 5e-3
    far = float(distance(stated, p[None])[0])
    assert float(distance(law, p)) == pytest.approx(far, abs=5e-3)
    if name == "ensemble":
        tv = float(distance(p, q))
        assert far == pytest.approx((1 - settings["weight"]) * tv)
        assert kept == pytest.approx(1 - settings["weight"] * tv, abs=5e-3)


@pytest.mark.parametrize("seed", range(10))
def test_typical_keeps_what_is_above_the_papers_threshold(seed: int) -> None:
    p = random_law(seed, 2)
    row = [x for x in p[0].tolist() if x > 0]
    threshold = min(0.2, 0.6 * math.exp(sum(x * math.log(x) for x in row)))
    for x in range(V):
        got = rule("typical", epsilon=0.2, delta=0.6).verify(p, None, [x], Chance(Random(0)))
        assert got.accepted == (float(p[0, x]) > threshold)
        assert got.tested[0].accept == got.accepted


@pytest.mark.parametrize("seed", range(4))
def test_coupled_gives_the_target_its_own_law_and_the_draft_the_chance_that_it_states(seed: int) -> None:
    p, q = random_law(seed, 1)[0].float(), random_law(seed + 100, 1)[0].float()
    rows, chosen = torch.stack([p, p]), rule(COUPLED)
    first: Counter[tuple[int, ...]] = Counter()
    kept, stated = 0, []
    for noise in range(SEEDS):
        x = coupled_sample(q, noise, 7)
        got = chosen.verify(rows, q[None], [x], Chance(Random(0), noise, 7))
        own = x if got.accepted else got.next_id
        assert own == coupled_sample(p, noise, 7)
        first[(own,)] += 1
        kept += got.accepted
        stated.append(got.tested[0].accept)
    assert chi_square(first, {(x,): float(p[x]) for x in range(V) if p[x] > 0}, SEEDS) < 4
    deviation = 4 * 0.5 / math.sqrt(SEEDS)
    assert kept / SEEDS == pytest.approx(sum(stated) / SEEDS, abs=deviation)
    tv = float(distance(p, q))
    both = sum(float(q[x]) * agreement(p, q, x) for x in range(V) if q[x] > 0)
    assert (1 - tv) / (1 + tv) - 1e-6 <= both <= 1 - tv + 1e-6
    assert kept / SEEDS == pytest.approx(both, abs=deviation)


def test_coupled_agrees_wholly_where_p_is_q_and_never_where_they_share_nothing() -> None:
    p = random_law(5, 1)[0]
    assert all(agreement(p, p, x) == pytest.approx(1.0) for x in range(V) if p[x] > 0)
    assert agreement(torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0]), 1) == 0.0
    assert agreement(p, None, 0) == float(p[0])


# --- the loop ---------------------------------------------------------------------------------------


def table_run(request: Request, logits_of: object, drafts_from: object) -> list[Round]:
    """Rounds of the loop over two Markov models."""
    law = Law(request)
    rng = Random(f"table {request.seed}")

    def draft(ids: tuple[int, ...], k: int) -> Proposal:
        out: list[int] = []
        scores: list[Tensor] = []
        for _ in range(k):
            scores.append(law.scores(drafts_from((*ids, *out))[None], ids))  # type: ignore[operator]
            out.append(sample(law.probabilities(scores[-1])[0], rng.random()))
        return Proposal(tuple(out), law.probabilities(torch.cat(scores)), torch.cat(scores)) if out else Proposal()

    events = decode(request, ScriptedTarget(V, logits_of), ScriptedDrafter(draft))  # type: ignore[arg-type]
    return [e for e in events if isinstance(e, Round)]


@pytest.mark.parametrize(("name", "settings"), [("ensemble", {"weight": 0.5}), ("typical", {})])
def test_the_loop_is_as_far_from_the_target_as_it_says(name: str, settings: dict[str, float]) -> None:
    p_of, q_of = table_logits(V, seed=3), table_logits(V, seed=77)
    runs = 2500
    first: Counter[int] = Counter()
    said = set()
    for seed in range(runs):
        # Two tokens: the first is drafted, the second is the bonus or the next round's.
        request = Request(
            prompt_ids=(1, 2), max_new_tokens=2, k=1, temperature=1.0, seed=seed, verifier=name,
            verifier_settings=tuple(settings.items()),
        )  # fmt: skip
        rounds = table_run(request, p_of, q_of)
        first[emitted_ids(rounds)[0]] += 1
        tested = rounds[0].tokens[0]
        assert tested.tv is not None and tested.expected is not None
        said.add(round(tested.tv, 6))
    assert len(said) == 1  # the same position, whatever was drafted there
    p = law_of(Request(prompt_ids=(1, 2), temperature=1.0), p_of, 1)
    seen = 0.5 * sum(abs(first[x] / runs - p[(x,)]) for x in range(V))
    assert said.pop() > 0.05
    assert seen == pytest.approx(tested.tv, abs=0.04)
    counts = Counter({(x,): n for x, n in first.items()})
    assert chi_square(counts, p, runs) > 8  # and that is no accident


def run_of(strategy: str, pair: tuple[Loaded, Loaded], **values: object) -> Run:
    """A run of a registered strategy on a tiny pair."""
    request = request_for(strategy, **values)
    helper = pair[1] if STRATEGIES[strategy].needs_assistant else None
    return collect(Prepared(request, pair[0], helper).events(), request)


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("seed", range(4))
def test_with_shared_noise_a_seed_is_a_text_whoever_drafts(strategy: str, seed: int) -> None:
    pair = pair_for(strategy, vocab=12)
    values = {"prompt": COPYING, "max_new_tokens": 30, "k": 3, "temperature": 1.0, "top_k": 8, "seed": seed,
              "verifier": COUPLED}  # fmt: skip
    plain, one = run_of("plain", pair, **values), run_of(strategy, pair, **values)
    assert one.ids == plain.ids
    assert one.ids != run_of("plain", pair, **{**values, "seed": seed + 100}).ids
    for k in (1, 5):
        assert run_of(strategy, pair, **{**values, "k": k}).ids == plain.ids


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_identities_hold_for_every_strategy_and_verifier(strategy: str, verifier: str, temperature: float) -> None:
    pair = pair_for(strategy, vocab=12)
    values = {"prompt": COPYING, "max_new_tokens": 25, "k": 3, "temperature": temperature, "verifier": verifier}
    try:
        one = run_of(strategy, pair, **values)
    except InvalidRequest as error:
        assert VERIFIERS[verifier].mixes and "choose a drafter that has" in str(error)
        return
    tally = Tally.of(one.rounds, one.started)
    c = tally.counts
    assert tally.emitted == c["accepted"] + c["corrected"] + c["bonus"] + c["plain"] == len(one.ids) == 25
    assert tally.drafted == c["accepted"] + c["rejected"] + c["discarded"]
    assert sum(tally.accepted_lengths.values()) == tally.rounds
    for name, value in tally.numbers().items():
        if name in ("acceptance_rate", "tested_acceptance_rate", "alpha", "predicted_acceptance", "tv"):
            assert value is None or 0 <= value <= 1
    lossless = is_lossless(one.request)
    tested = [t for r in one.rounds for t in r.tokens if t.verdict in ("accepted", "rejected")]
    assert all(t.accept is not None for t in tested)
    assert lossless <= all(not t.tv for t in tested)
    if lossless and temperature == 0:
        assert one.ids == run_of("plain", pair, **values).ids
    trace = Trace(one.request, one.started, one.rounds, one.finished)
    assert trace_from_json(trace.to_json()) == trace


@pytest.mark.parametrize("verifier", [v for v in VERIFIERS if v != "ensemble"])
def test_at_temperature_0_all_others_are_one(verifier: str) -> None:
    pair = pair_for("assistant", vocab=12)
    values = {"prompt": COPYING, "max_new_tokens": 25, "k": 3}
    one, exact = (run_of("assistant", pair, **values, verifier=v) for v in (verifier, "exact"))
    assert [[(t.id, t.verdict) for t in r.tokens] for r in one.rounds] == [
        [(t.id, t.verdict) for t in r.tokens] for r in exact.rounds
    ]
    assert is_lossless(one.request)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_what_is_measured_meets_what_is_predicted(temperature: float) -> None:
    pair = pair_for("assistant", vocab=12)
    for verifier in VERIFIERS:
        tally = Tally()
        for seed in range(40):
            one = run_of(
                "assistant", pair, prompt=COPYING, max_new_tokens=30, k=2, temperature=temperature, seed=seed,
                verifier=verifier,
            )  # fmt: skip
            for each in one.rounds:
                tally.add(each)
        predicted, measured = tally.predicted_acceptance, tally.tested_acceptance_rate
        assert measured is not None
        if verifier == "match":
            assert predicted is None  # without a q of its own to weigh
            continue
        tested = tally.counts["accepted"] + tally.counts["rejected"]
        assert predicted == pytest.approx(measured, abs=2.5 * math.sqrt(0.25 / tested) if temperature else 1e-6)
        if verifier in (COUPLED, "exact"):
            assert tally.alpha is not None and predicted is not None and tally.tv is None
            tv = 1 - tally.alpha
            assert verifier == "exact" or (1 - tv) / (1 + tv) - 0.05 < predicted < tally.alpha + 0.05


@pytest.mark.parametrize("weight", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("seed", range(3))
def test_greedy_ensemble_writes_what_transformers_does(weight: float, seed: int) -> None:
    target, helper = tiny_llama(seed=seed, eos=None, spread=0.1), tiny_llama(seed=seed + 50, eos=None, spread=0.1)
    helper.generation_config.num_assistant_tokens = 4
    helper.generation_config.num_assistant_tokens_schedule = "constant"
    helper.generation_config.assistant_confidence_threshold = 0.0
    prompt = (72, 101, 108, 108, 111)
    # No pad token: the library would take it for padding in the drafter's text, wherever it is written.
    theirs = target.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long), max_new_tokens=40,
        do_sample=False, assistant_model=helper, assistant_ensemble_weight=weight,
    )[0, len(prompt) :]  # fmt: skip
    pair = (wrap("target", target, byte_tokenizer()), wrap("helper", helper, byte_tokenizer()))
    values = {"prompt": prompt, "max_new_tokens": 40, "k": 4}
    ours = run_of("assistant", pair, **values, verifier="ensemble", verifier_settings=(("weight", weight),))
    assert ours.ids == tuple(theirs.tolist())
    plain = run_of("plain", pair, **values)
    tv = Tally.of(ours.rounds).tv
    assert tv is not None and (ours.ids == plain.ids or tv > 0)
    if weight <= 0.3:
        assert tv > 0  # else nothing was tried


# --- settings and refusals -----------------------------------------------------------------------------


@pytest.mark.parametrize("name", VERIFIERS)
def test_settings_are_checked_by_name_and_range(name: str) -> None:
    with pytest.raises(InvalidRequest, match=f"{name} has no setting 'colour'"):
        rule(name, colour=1)
    for choice in VERIFIERS[name].settings:
        assert choice.check(choice.default) == choice.default
        assert choice.minimum is not None and choice.maximum is not None
        for value in (choice.maximum + 0.01, choice.minimum - 0.01, math.nan):
            with pytest.raises(InvalidRequest, match=f"{choice.name} is .*it must be from"):
                rule(name, **{choice.name: value})


def test_no_setting_of_a_verifier_has_the_name_of_a_strategys() -> None:
    # A variant of the benchmark gives both in one list.
    rules = {c.name for info in VERIFIERS.values() for c in info.settings}
    assert not rules & {"k", "verifier", *(c.name for s in STRATEGIES.values() for c in s.settings)}


def test_a_strategy_without_q_is_refused_by_a_verifier_that_mixes_it_before_anything_is_loaded() -> None:
    class Empty(Library):
        def load(self, *_: object, **__: object) -> Loaded:
            raise AssertionError("a model was loaded")

    without = [name for name, s in STRATEGIES.items() if s.drafts and not s.has_q]
    assert "prompt-lookup" in without
    for name in without:
        with pytest.raises(InvalidRequest, match=rf"verifier is 'ensemble'.*{re.escape(name)} has none here: .*choose"):
            prepare(Empty(), "abc", strategy_name=name, verifier="ensemble")


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_draft_without_q_is_refused_where_it_comes(temperature: float) -> None:
    request = Request((1, 2), max_new_tokens=9, temperature=temperature, verifier="ensemble")
    target = ScriptedTarget(V, table_logits(V, 0))
    events = decode(request, target, ScriptedDrafter(lambda ids, k: Proposal((1,))))
    with pytest.raises(InvalidRequest, match="verifier is 'ensemble'.*choose a drafter"):
        list(events)
    assert target.released == 1
    empty = decode(request, ScriptedTarget(V, table_logits(V, 0)), ScriptedDrafter(lambda ids, k: Proposal()))
    assert sum(isinstance(e, Round) for e in empty) == 9


def test_settings_survive_json_and_old_traces_are_read() -> None:
    request = Request((1,), verifier="typical", verifier_settings=(("delta", 0.4), ("epsilon", 0.2)))
    token = Token(1, "accepted", p=0.5, q=0.5, accept=1.0, expected=0.75, tv=0.125)
    trace = Trace(request, Started(0.0), (Round(0, (token,), 0, 0, 0, 0, 2),), Finished("length", 1, 1))
    text = trace.to_json()
    assert trace_from_json(text) == trace
    assert Tally.of(trace.rounds).numbers()["tv"] == 0.125
    old = text.replace(', "expected": 0.75, "tv": 0.125', "").replace(
        ', "verifier_settings": [["delta", 0.4], ["epsilon", 0.2]]', ""
    )
    assert '"tv"' not in old and trace_from_json(old).request.verifier_settings == ()
    with pytest.raises(InvalidTrace, match=r"tv is 1.5"):
        trace_from_json(text.replace('"tv": 0.125', '"tv": 1.5'))


def test_every_new_number_has_its_definition() -> None:
    assert {"predicted_acceptance", "tv"} <= set(DEFINITIONS)
