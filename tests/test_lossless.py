"""When sampling, the distribution of the output is the target's, whatever drafts.

Where p and q are small enough the law of a whole round is enumerated: every draft, every verdict, every
replacement. The decode loop itself, with its caches and clocks, is tested by chi-square on the target's
law, with fixed seeds and a threshold that a deliberately wrong drafter fails.
"""

import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
import torch
from fakes import ScriptedTarget, pair_for, table_logits
from runs import ALL, request_for
from torch import Tensor

from playground.engine import Drafter, Proposal, decode
from playground.run import Prepared
from playground.sampling import (
    COUPLED,
    VERIFIERS,
    Chance,
    Law,
    argmax,
    coupled_sample,
    exact,
    match,
    residual,
    sample,
    topk,
)
from playground.trace import Request, Round, emitted_ids
from strategies import STRATEGIES

V = 6
LOSSLESS = sorted(name for name, info in VERIFIERS.items() if info.lossless)


def random_law(seed: int, rows: int, vocab: int = V) -> Tensor:
    """[rows, V] distributions, some tokens impossible."""
    generator = torch.Generator().manual_seed(seed)
    logits = 1.5 * torch.randn(rows, vocab, generator=generator, dtype=torch.float64)
    logits[torch.rand(rows, vocab, generator=generator) < 0.2] = -torch.inf
    logits[:, 0] = logits[:, 0].clamp(min=-1)
    return logits.softmax(-1)


# --- exact enumeration of one position --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_5_and_6_the_share_accepted_and_the_residual_are_those_of_the_paper(seed: int) -> None:
    p, q = random_law(seed, 1)[0], random_law(seed + 100, 1)[0]
    accept = torch.tensor([min(1.0, float(p[x] / q[x])) if q[x] > 0 else 0.0 for x in range(V)], dtype=torch.float64)
    share = float((q * accept).sum())
    assert share == pytest.approx(float(torch.minimum(p, q).sum()))
    if share < 1:
        rest = residual(p, q, 0)
        law = q * accept + (1 - share) * rest / rest.sum()
        assert torch.allclose(law, p, atol=1e-9)


class Dice(Random):
    """Uniform numbers as told; the last is repeated."""

    def __init__(self, numbers: Sequence[float]) -> None:
        super().__init__(0)
        self._numbers = list(numbers)

    def random(self) -> float:
        """The next one."""
        return self._numbers.pop(0) if len(self._numbers) > 1 else self._numbers[0]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("deterministic", [False, True])
def test_exact_implements_that_law(seed: int, deterministic: bool) -> None:
    p, q = random_law(seed, 2), random_law(seed + 100, 1)
    steps = 2000
    for x in range(V):
        if not deterministic and q[0, x] == 0:
            continue
        chance = min(1.0, float(p[0, x] / (1.0 if deterministic else q[0, x])))
        kept = sum(
            exact(p, None if deterministic else q, [x], Chance(Dice([(i + 0.5) / steps, 0.5]))).accepted
            for i in range(steps)
        )
        assert kept / steps == pytest.approx(chance, abs=1 / steps)
        if chance < 1:
            rest = residual(p[0], None if deterministic else q[0], x)
            got = Counter(
                exact(p, None if deterministic else q, [x], Chance(Dice([1 - 1e-12, (i + 0.5) / steps]))).next_id
                for i in range(steps)
            )
            law = rest / rest.sum()
            assert all(abs(got[y] / steps - float(law[y])) <= 2 / steps for y in range(V))
            assert not deterministic or got[x] == 0


@pytest.mark.parametrize("seed", range(5))
def test_match_implements_its_law(seed: int) -> None:
    p = random_law(seed, 2)
    steps = 2000
    for x in range(V):
        outcomes = [match(p, None, [x], Chance(Dice([(i + 0.5) / steps, 0.5]))) for i in range(steps)]
        assert sum(o.accepted for o in outcomes) / steps == pytest.approx(float(p[0, x]), abs=2 / steps)
        first = Counter(x if o.accepted else o.next_id for o in outcomes)
        assert all(abs(first[y] / steps - float(p[0, y])) <= 2 / steps for y in range(V))


@pytest.mark.parametrize("vocab", [5, 128, 640, 1000])
def test_the_largest_of_a_chunk_lead_to_the_largest_of_all(vocab: int) -> None:
    generator = torch.Generator().manual_seed(vocab)
    scores = torch.randn(40, vocab, generator=generator).bfloat16().float()
    scores[:3] = -torch.inf
    scores[torch.rand(40, vocab, generator=generator) < 0.5] = -torch.inf
    assert torch.equal(argmax(scores), scores.argmax(-1))
    best, at = topk(scores, 5)
    assert torch.equal(best, scores.topk(5).values) and torch.equal(best, scores.gather(-1, at))
    assert all(len(set(row)) == 5 for row in at.tolist())


def test_sample_never_returns_a_token_of_probability_zero() -> None:
    p = torch.tensor([0.0, 0.25, 0.0, 0.75, 0.0])
    for u in (0.0, 0.2499, 0.25, 0.5, 1 - 2**-53):
        assert p[sample(p, u)] > 0
    assert [sample(p, u) for u in (0.0, 0.2499, 0.2501)] == [1, 1, 3]


# --- the whole loop ------------------------------------------------------------------------------------


class TableDrafter:
    """Samples its draft from a Markov model of its own, and says so with `claim`: honest, or the kinds of lie
    that other tools tell."""

    def __init__(self, request: Request, vocab: int, claim: str) -> None:
        self._logits = table_logits(vocab, seed=77)
        self._law, self._claim = Law(request), claim
        self._rng = Random(f"table {request.seed}")
        self._seed = request.seed if request.verifier == COUPLED and claim == "sampled" else None

    def prepare(self, ids: Sequence[int]) -> None:
        """Nothing."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """k tokens of the other model."""
        prefix, draft, laws = list(ids), [], []
        for _ in range(k):
            scores = self._law.scores(self._logits(tuple(prefix))[None], prefix)
            q = self._law.probabilities(scores)
            token = int(q[0].argmax()) if self._claim.startswith("argmax") else self._draw(q[0], len(prefix))
            draft.append(token)
            prefix.append(token)
            laws.append(scores.softmax(-1) if self._claim.endswith("raw logits") else q)
        one_hot = self._claim.endswith("one-hot")  # lossless however the draft was made: accepted with chance p(x)
        return Proposal(tuple(draft), None if one_hot else torch.cat(laws))

    def _draw(self, q: Tensor, position: int) -> int:
        return sample(q, self._rng.random()) if self._seed is None else coupled_sample(q, self._seed, position)

    def release(self) -> None:
        """Nothing."""


SETTINGS: dict[str, dict[str, float]] = {
    "temperature": {"temperature": 1.3},
    "top_k": {"temperature": 0.9, "top_k": 4},
    "top_p": {"temperature": 1.0, "top_p": 0.8},
    "min_p": {"temperature": 1.0, "min_p": 0.15},
    "penalty": {"temperature": 1.0, "repetition_penalty": 1.5},
    "all": {"temperature": 0.8, "top_k": 5, "top_p": 0.95, "min_p": 0.02, "repetition_penalty": 1.2},
}


def law_of(request: Request, logits_of: object, length: int) -> dict[tuple[int, ...], float]:
    """The exact distribution of the next `length` tokens, by enumeration."""
    law = Law(request)
    chances: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        grown: dict[tuple[int, ...], float] = {}
        for text, chance in chances.items():
            prefix = (*request.prompt_ids, *text)
            p = law.probabilities(law.scores(logits_of(prefix)[None], prefix))[0]
            for token, share in enumerate(p.tolist()):
                if share > 0:
                    grown[(*text, token)] = chance * share
        chances = grown
    return chances


def chi_square(counts: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float], runs: int) -> float:
    """How many standard deviations chi-square lies above its mean; cells expected less than 5 times are one."""
    assert set(counts) <= set(law), "an impossible text was written"
    large = [text for text, chance in law.items() if chance * runs >= 5]
    rest = 1.0 - sum(law[text] for text in large)
    cells = [(counts[text], law[text] * runs) for text in large]
    if rest * runs >= 5:
        cells.append((runs - sum(counts[text] for text in large), rest * runs))
    value = sum((seen - expected) ** 2 / expected for seen, expected in cells)
    freedom = len(cells) - 1
    return (value - freedom) / (2 * freedom) ** 0.5


LIMIT = 4.0  # standard deviations; a correct loop exceeds it once in tens of thousands of seeds


def deviation(values: dict[str, float], claim: str, verifier: str, runs: int = 1000) -> float:
    """Chi-square of the first three tokens that the loop writes with a TableDrafter."""
    logits_of = table_logits(V, seed=3)
    base = {"prompt_ids": (1, 2), "max_new_tokens": 3, "k": 2, "verifier": verifier, **values}
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(runs):
        request = Request(seed=seed, **base)
        drafter: Drafter = TableDrafter(request, V, claim)
        rounds = [e for e in decode(request, ScriptedTarget(V, logits_of), drafter) if isinstance(e, Round)]
        counts[emitted_ids(rounds)] += 1
    return chi_square(counts, law_of(Request(**base), logits_of, 3), runs)


@pytest.mark.parametrize("verifier", LOSSLESS)
@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("claim", ["sampled", "argmax, one-hot", "sampled, one-hot"])
def test_every_lossless_verifier_keeps_the_targets_law(verifier: str, values: dict[str, float], claim: str) -> None:
    assert deviation(values, claim, verifier) < LIMIT


@pytest.mark.parametrize("claim", ["argmax, sampled q", "argmax, raw logits", "raw logits"])
def test_the_test_fails_for_a_wrong_q(claim: str) -> None:
    assert deviation({"temperature": 0.5, "top_k": 2}, claim, "exact") > 2 * LIMIT


@pytest.mark.parametrize("verifier", LOSSLESS)
@pytest.mark.parametrize("strategy", ALL)
def test_every_strategy_keeps_the_targets_law(strategy: str, verifier: str) -> None:
    """Real models, caches and drafters; two tokens of a vocabulary of 12 of which the prompt repeats."""
    pair = pair_for(strategy, vocab=12)
    runs = 400
    base = {"prompt": (1, 2, 3, 1, 2, 3, 1, 2), "max_new_tokens": 2, "k": 2, "verifier": verifier,
            "temperature": 1.0, "top_k": 6}  # fmt: skip
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(runs):
        request = request_for(strategy, seed=seed, **base)
        helper = pair[1] if STRATEGIES[strategy].needs_assistant else None
        rounds = [e for e in Prepared(request, pair[0], helper).events() if isinstance(e, Round)]
        counts[emitted_ids(rounds)] += 1
    model = pair[0].model

    def logits_of(prefix: tuple[int, ...]) -> Tensor:
        with torch.inference_mode():
            return model(torch.tensor([prefix])).logits[0, -1].float()

    assert chi_square(counts, law_of(request_for(strategy, **base), logits_of, 2), runs) < LIMIT


# --- processors ----------------------------------------------------------------------------------------


def near_the_edge(law: Law, logits: Tensor, context: tuple, draft: tuple, row: int, top_p: float) -> bool:
    """Whether the nucleus ends within rounding of a token's end."""
    p = law.probabilities(law.scores(logits, context, draft))[row].double().sort(descending=True).values
    return bool(((p.cumsum(-1) - top_p).abs() < 1e-5).any())


@pytest.mark.parametrize("seed", range(5))
def test_the_law_is_that_of_transformers_processors(seed: int) -> None:
    from transformers import (
        LogitsProcessorList,
        MinPLogitsWarper,
        RepetitionPenaltyLogitsProcessor,
        TemperatureLogitsWarper,
        TopKLogitsWarper,
        TopPLogitsWarper,
    )

    generator = torch.Generator().manual_seed(seed)
    context, draft = (3, 9, 9), (4, 700, 3)
    logits = 3 * torch.randn(4, 2000, generator=generator)
    for t, k, p, m, r in itertools.product((0.7, 1.0), (0, 40), (0.5, 0.95, 0.9999, 1.0), (0.0, 0.05), (1.0, 1.3)):
        request = Request(
            prompt_ids=(1,), temperature=t, top_k=k, top_p=p, min_p=m, repetition_penalty=r, banned_ids=(5, 11)
        )
        ours = Law(request).probabilities(Law(request).scores(logits, context, draft))
        for i in range(4):
            if p < 1 and near_the_edge(Law(replace(request, top_p=1.0, min_p=0.0)), logits, context, draft, i, p):
                continue  # float32 rounds to either side
            chain = LogitsProcessorList()
            ids = torch.tensor([[*context, *draft[:i]]])
            if r != 1:
                chain.append(RepetitionPenaltyLogitsProcessor(r))
            chain.append(lambda ids, s: s.index_fill(1, torch.tensor([5, 11]), -torch.inf))
            chain.append(TemperatureLogitsWarper(t))
            if k:
                chain.append(TopKLogitsWarper(k))
            if p < 1:
                chain.append(TopPLogitsWarper(p))
            if m:
                chain.append(MinPLogitsWarper(m))
            theirs = chain(ids, logits[i : i + 1]).softmax(-1)
            assert torch.allclose(ours[i : i + 1], theirs, atol=1e-6), (t, k, p, m, r, i)
