"""Logits to probabilities, and the verifiers: which drafted tokens are kept and what follows them.

Nothing here knows a model, a cache or a strategy. p is the target's distribution and q the
drafter's, both after the same logits processors; [n, V] is n positions over a vocabulary of V.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any
from zlib import crc32

import torch
from torch import Tensor
from transformers import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopPLogitsWarper,
)

from playground.settings import Choice, settled
from playground.trace import InvalidRequest, Request, Setting

COUPLED = "coupled"  # the verifier that shares its random numbers with the drafter
NUCLEUS = 512  # how many of the best tokens a nucleus is first looked for in
CHUNK = 128  # columns whose largest is found first


class Law:
    """The request's logits processors, in transformers' order, for all positions of a draft at once.

    Temperature 0 is the limit: all probability on the first largest logit.
    """

    def __init__(self, request: Request) -> None:
        self.greedy = request.temperature == 0
        self._banned = list(request.banned_ids)
        penalty, heat = float(request.repetition_penalty), float(request.temperature)  # theirs refuse whole numbers
        self._penalty = RepetitionPenaltyLogitsProcessor(penalty) if penalty != 1 else None
        self._temperature = None if heat in (0, 1) else TemperatureLogitsWarper(heat)
        self._top_k = request.top_k
        self._top_p = request.top_p
        self._min_p = [MinPLogitsWarper(request.min_p)] if request.min_p > 0 else []

    def scores(
        self, logits: Tensor, context: Sequence[int], draft: Sequence[int] = (), tokens: Tensor | None = None
    ) -> Tensor:
        """What is left of `logits` [n, V] (float32) after penalty and bans, before temperature.

        Row i is the position after `context` and the first i tokens of `draft`. `tokens`, ascending ids, are those
        that the columns stand for where they are not all V.
        """
        if self._penalty is not None:
            # A row's prefix is padded with a token that it holds anyway: the penalty counts presence, not times.
            rows = [[*context, *draft[:i]] for i in range(len(logits))]
            longest = len(context) + max(0, len(logits) - 1)
            ids = torch.tensor([[row[0]] * (longest - len(row)) + row for row in rows])
            if tokens is None:
                logits = self._penalty(ids, logits)
            else:  # one column more takes the penalty of tokens that have none
                logits = self._penalty(_columns(ids, tokens), torch.nn.functional.pad(logits, (0, 1)))[:, :-1]
        if self._banned:
            logits = logits.clone()
            banned = torch.tensor(self._banned)
            if tokens is not None:
                banned = _columns(banned, tokens)
                banned = banned[banned < len(tokens)]
            logits[:, banned] = -torch.inf
        return logits

    def probabilities(self, scores: Tensor) -> Tensor:
        """The distribution [n, V] (float32) that tokens are drawn from, given `scores` [n, V]."""
        if self.greedy:
            return torch.zeros_like(scores).scatter_(1, argmax(scores)[:, None], 1.0)
        if self._temperature is not None:
            scores = self._temperature(None, scores)
        if self._top_k or self._top_p < 1:
            few = self._top(scores)
            if few is not None:
                return few
        return self._softmax(scores, [TopPLogitsWarper(self._top_p)] if self._top_p < 1 else [])

    def _softmax(self, scores: Tensor, first: Sequence[Callable[..., Any]] = ()) -> Tensor:
        for processor in (*first, *self._min_p):
            scores = processor(None, scores)
        return scores.softmax(-1)

    def _top(self, scores: Tensor) -> Tensor | None:
        """top_k, then top_p, then min_p, on the few best scores only: transformers' top_p sorts the whole
        vocabulary, 4 ms a position. None: the nucleus is not within the few."""
        vocab = scores.shape[-1]
        if self._top_k:
            # As transformers, every token that ties with the k-th stays.
            threshold = scores.topk(min(self._top_k, vocab), dim=-1).values[:, -1:]
            most = int((scores >= threshold).sum(-1).max())
            few, ids = scores.topk(most, dim=-1)
            few = few.masked_fill(few < threshold, -torch.inf)
            total = few.logsumexp(-1, keepdim=True)
        else:
            few, ids = scores.topk(min(NUCLEUS, vocab), dim=-1)
            total = scores.logsumexp(-1, keepdim=True)
        if self._top_p < 1:
            mass = (few - total).exp()
            before = mass.cumsum(-1) - mass
            if not self._top_k and bool((before[:, -1] < self._top_p).any()):
                return None
            few = few.masked_fill(before >= self._top_p, -torch.inf)
        return torch.zeros_like(scores).scatter_(1, ids, self._softmax(few))


def _columns(ids: Tensor, tokens: Tensor) -> Tensor:
    """Where the ids are among `tokens` [n], ascending; n for those that are not."""
    at = torch.searchsorted(tokens, ids)
    return at.masked_fill(tokens[at.clamp(max=len(tokens) - 1)] != ids, len(tokens))


def argmax(scores: Tensor) -> Tensor:
    """The first largest of each row [n] of `scores` [n, V]. torch's own looks at one number at a time; its maximum
    of a chunk looks at many."""
    if scores.shape[-1] % CHUNK:
        return scores.argmax(-1)
    chunks = scores.unflatten(-1, (-1, CHUNK))
    first = chunks.amax(-1).argmax(-1)
    return first * CHUNK + chunks[torch.arange(len(scores)), first].argmax(-1)


def topk(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of `scores` [n, V], best first, and where they are: each [n, count]. They lie
    in the `count` chunks with the largest maxima."""
    if scores.shape[-1] % CHUNK or count > CHUNK:
        best, at = scores.topk(count, dim=-1)
        return best, at
    chunks = scores.unflatten(-1, (-1, CHUNK))
    which = chunks.amax(-1).topk(min(count, chunks.shape[1]), dim=-1).indices
    best, at = chunks.gather(1, which[..., None].expand(-1, -1, CHUNK)).flatten(1).topk(count, dim=-1)
    return best, which.gather(1, at // CHUNK) * CHUNK + at % CHUNK


def sample(p: Tensor, u: float) -> int:
    """The token of `p` [V] (need not sum to 1) at the uniform number `u` in [0, 1), by inverse
    transform; one of probability 0 is never returned."""
    cumulative = p.double().cumsum(-1)
    total = cumulative[-1]
    token = int(torch.searchsorted(cumulative, u * total, right=True))
    if token < len(p) and p[token] > 0:
        return token
    return int(p.nonzero()[-1])  # u * total rounded up to total


def coupled_sample(p: Tensor, seed: int, position: int) -> int:
    """The token of `p` [V] that wins an exponential race (the Gumbel maximum) with noise of this seed and position
    alone: whoever samples a similar distribution at the same place mostly gets the same token.

    Source: Daliri et al. 2024 (arXiv 2408.07978).
    """
    return int((p.float() / coupled_noise(p.shape[-1], seed, position)).argmax())


def coupled_noise(vocab: int, seed: int, position: int) -> Tensor:
    """The exponential noise [vocab] of that race."""
    generator = torch.Generator().manual_seed(crc32(f"coupled {seed} {position}".encode()))
    return torch.empty(vocab).exponential_(generator=generator).clamp_(min=1e-30)


@dataclass(frozen=True, slots=True)
class Chance:
    """What a verifier decides with: random numbers of its own; seed and position (the number of tokens before the
    draft) for noise that it shares with the drafter; `greedy`: temperature 0, nothing is left to chance."""

    rng: Random
    seed: int = 0
    position: int = 0
    greedy: bool = False


@dataclass(frozen=True, slots=True)
class Tested:
    """How one drafted token fared: its chance to be kept, given that it was drafted, and the number drawn (None:
    none was)."""

    accept: float
    drawn: float | None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The tested tokens of a draft, how many were kept, and the target's token that follows them."""

    tested: tuple[Tested, ...]
    accepted: int
    next_id: int


Verifier = Callable[[Tensor, Tensor | None, Sequence[int], Chance], Verdicts]


def exact(p: Tensor, q: Tensor | None, draft: Sequence[int], chance: Chance) -> Verdicts:
    """Speculative sampling: keep token x with probability min(1, p(x) / q(x)); in the place of the first
    refused one comes a token from max(p - q, 0), normalised; after a full draft, one from p.

    `p` [K + 1, V], `q` [K, V] or None for a deterministic draft, whose q is one-hot.
    Source: Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1; Chen et al. 2023 (arXiv 2302.01318).
    """
    rng = chance.rng
    tested: list[Tested] = []
    for i, x in enumerate(draft):
        px, qx = float(p[i, x]), 1.0 if q is None else float(q[i, x])
        accept = min(1.0, px / qx) if qx > 0 else 0.0
        u = rng.random()
        tested.append(Tested(accept, u))
        if u >= accept:
            return Verdicts(tuple(tested), i, sample(residual(p[i], None if q is None else q[i], x), rng.random()))
    return Verdicts(tuple(tested), len(draft), sample(p[len(draft)], rng.random()))


def residual(p: Tensor, q: Tensor | None, x: int) -> Tensor:
    """max(p - q, 0), [V], not normalised; q None is all on `x`. Where rounding leaves nothing, p."""
    if q is None:
        rest = p.clone()
        rest[x] = 0.0
    else:
        rest = (p - q).clamp_(min=0.0)
    return rest if float(rest.sum()) > 0 else p


def match(p: Tensor, q: Tensor | None, draft: Sequence[int], chance: Chance) -> Verdicts:
    """The target draws its own token at each position; the draft is kept while it is the same.

    Lossless whatever q is; a drafted x is kept with probability p(x). `exact` comes down to it
    where the draft is deterministic. `p` [K + 1, V].
    """
    tested: list[Tested] = []
    for i, x in enumerate(draft):
        own = sample(p[i], chance.rng.random())
        tested.append(Tested(float(p[i, x]), None))
        if own != x:
            return Verdicts(tuple(tested), i, own)
    return Verdicts(tuple(tested), len(draft), sample(p[len(draft)], chance.rng.random()))


def coupled(p: Tensor, q: Tensor | None, draft: Sequence[int], chance: Chance) -> Verdicts:
    """`match` with the noise of (seed, position) that the drafter drew with: the target's own token is a function
    of p, seed and position, so that one seed gives one text, whoever drafts.

    Lossless: over the seeds the target's token follows p. A draft from q is kept with probability at least
    (1 - TV) / (1 + TV) and at most 1 - TV, that of `exact`, TV between p and q. `p` [K + 1, V], `q` [K, V].
    Source: Daliri et al. 2024 (arXiv 2408.07978).
    """
    tested: list[Tested] = []
    for i, x in enumerate(draft):
        own = coupled_sample(p[i], chance.seed, chance.position + i)
        tested.append(Tested(agreement(p[i], None if q is None else q[i], x), None))
        if own != x:
            return Verdicts(tuple(tested), i, own)
    return Verdicts(tuple(tested), len(draft), coupled_sample(p[len(draft)], chance.seed, chance.position + len(draft)))


def agreement(p: Tensor, q: Tensor | None, x: int) -> float:
    """How likely `coupled_sample` is to give `x` for p [V], given that it gave it for q [V]; p(x) where q is None and
    the guess owes nothing to the noise.

    x wins both races when its exponential beats every other's at the larger of its two rates, with probability
    1 / sum over y of max(p(y) / p(x), q(y) / q(x)); that it wins q's has probability q(x).
    """
    if q is None:
        return float(p[x])
    px, qx = float(p[x]), float(q[x])
    return min(1.0, 1.0 / float(torch.maximum(p * (qx / px), q).sum())) if px > 0 else 0.0


def ensemble(p: Tensor, q: Tensor | None, draft: Sequence[int], chance: Chance, weight: float) -> Verdicts:
    """`exact` against r = weight p + (1 - weight) q in p's place at drafted positions: keep x with probability
    min(1, r(x) / q(x)), replace from max(r - q, 0); after a full draft the token is p's. Lossy: r is written, not p.

    `p` [K + 1, V], `q` [K, V]; None only for the empty draft. Where `chance.greedy`, p and q are those of temperature
    1 and the likeliest token of r decides, as in transformers (`assistant_ensemble_weight`).
    Source: static ensemble verification (arXiv 2604.07622).
    """
    n = len(draft)
    law = p if q is None else torch.cat([mixture(p[:n], q, weight), p[n:]])
    return exact(_one_hot(law), None, draft, chance) if chance.greedy else exact(law, q, draft, chance)


def mixture(p: Tensor, q: Tensor, weight: float) -> Tensor:
    """weight p + (1 - weight) q."""
    return weight * p + (1.0 - weight) * q


def typical(
    p: Tensor, q: Tensor | None, draft: Sequence[int], chance: Chance, epsilon: float, delta: float
) -> Verdicts:
    """Keep x where p(x) > min(epsilon, delta exp(-H(p))), H the entropy in nats: likely enough for how sure the target
    is. A refused one's place takes a token from p, and so does the position after a full draft.

    Lossy where tokens are drawn; at temperature 0, where p is one-hot, it is `match`. `p` [K + 1, V].
    Source: Medusa, Cai et al. 2024 (arXiv 2401.10774); there a round's first token is the target's
    likeliest and always kept.
    """
    tested: list[Tested] = []
    passing = passes(p[: len(draft)], epsilon, delta)
    for i, x in enumerate(draft):
        kept = bool(passing[i, x])
        tested.append(Tested(float(kept), None))
        if not kept:
            return Verdicts(tuple(tested), i, sample(p[i], chance.rng.random()))
    return Verdicts(tuple(tested), len(draft), sample(p[len(draft)], chance.rng.random()))


def passes(p: Tensor, epsilon: float, delta: float) -> Tensor:
    """Which tokens typical acceptance keeps, [n, V] of bool, for p [n, V]."""
    entropy = torch.special.entr(p).sum(-1, keepdim=True)
    return p > (delta * (-entropy).exp()).clamp(max=epsilon)


# Of a verifier at tested positions, given p and q [n, V] as it is given them (q None: one-hot) and the draft: how
# likely a draft from q is to pass, [n], and the law [n, V] of the token that is written there, over such drafts
# (None: p).
Outcome = Callable[[Tensor, Tensor | None, Sequence[int], bool], tuple[Tensor, Tensor | None]]


def coupled_outcome(p: Tensor, q: Tensor | None, draft: Sequence[int], greedy: bool) -> tuple[Tensor, Tensor | None]:
    """How likely this very draft is to pass: over all drafts from q it would cost a sum over pairs of tokens."""
    return torch.tensor([agreement(p[i], None if q is None else q[i], x) for i, x in enumerate(draft)]), None


def ensemble_outcome(
    p: Tensor, q: Tensor | None, draft: Sequence[int], greedy: bool, weight: float
) -> tuple[Tensor, Tensor | None]:
    """sum(min(r, q)) = 1 - weight TV(p, q), and r. Where `greedy`, both are those of the likeliest token of r."""
    assert q is not None, "refused before"
    r = mixture(p, q, weight)
    if greedy:
        r, q = _one_hot(r), _all_on(draft, r)
    return torch.minimum(r, q).sum(-1), r


def typical_outcome(
    p: Tensor, q: Tensor | None, draft: Sequence[int], greedy: bool, epsilon: float, delta: float
) -> tuple[Tensor, Tensor | None]:
    """With A the tokens that pass: q(A), and q on A plus (1 - q(A)) p."""
    kept = (_all_on(draft, p) if q is None else q) * passes(p, epsilon, delta)
    share = kept.sum(-1)
    return share, kept + (1.0 - share[:, None]) * p


def _one_hot(law: Tensor) -> Tensor:
    return torch.zeros_like(law).scatter_(-1, law.argmax(-1, keepdim=True), 1.0)


def _all_on(draft: Sequence[int], like: Tensor) -> Tensor:
    return torch.zeros_like(like).scatter_(-1, torch.tensor(list(draft))[:, None], 1.0)


def distance(a: Tensor, b: Tensor) -> Tensor:
    """Total variation [n] of distributions [n, V]: half the sum of |a - b|."""
    return 0.5 * (a - b).abs().sum(-1)


@dataclass(frozen=True, slots=True)
class VerifierInfo:
    """A verifier and what the page says of it. `weighs_q` says that it accepts by p against q. One that `mixes` tests
    against both together: it needs a q, and at temperature 0, where both are one-hot, it is given those of
    temperature 1. `outcome` is of those whose chance to pass is not sum(min(p, q)), or whose law is not p."""

    title: str
    about: str
    verify: Callable[..., Verdicts]
    lossless: bool = True
    lossless_greedy: bool = True
    weighs_q: bool = True
    mixes: bool = False
    settings: tuple[Choice, ...] = ()
    outcome: Callable[..., tuple[Tensor, Tensor | None]] | None = None

    @property
    def draws_residual(self) -> bool:
        """Whether it draws the token in a refused one's place from max(p - q, 0)."""
        return self.verify is exact


VERIFIERS: dict[str, VerifierInfo] = {
    "exact": VerifierInfo(
        "Exact (speculative sampling)",
        "Keeps a guess with probability min(1, p/q) and replaces a refused one from max(p - q, 0): "
        "the output has exactly the target's distribution.",
        exact,
    ),
    "match": VerifierInfo(
        "Match",
        "The target draws its own token and a guess is kept only if it is the same. Lossless too, "
        "but keeps fewer guesses when sampling.",
        match,
        weighs_q=False,
    ),
    COUPLED: VerifierInfo(
        "Coupled (shared noise)",
        "Target and drafter draw with the same noise, and a guess is kept if both drew it. Lossless, and one seed "
        "gives one text, whoever drafts. Keeps a little less than exact.",
        coupled,
        outcome=coupled_outcome,
    ),
    "ensemble": VerifierInfo(
        "Ensemble (lossy)",
        "Tests guesses against a mixture of both models instead of the target alone: more are kept, and the text is "
        "no longer the target's. Needs a drafter with probabilities.",
        ensemble,
        lossless=False,
        lossless_greedy=False,
        mixes=True,
        settings=(
            Choice(
                name="weight",
                label="Weight of the target",
                help="How much of the mixture is the target's; the rest is the drafter's (transformers' "
                "assistant_ensemble_weight).",
                default=0.5,
                minimum=0.01,
                maximum=0.99,
                step=0.01,
            ),
        ),
        outcome=ensemble_outcome,
    ),
    "typical": VerifierInfo(
        "Typical acceptance (lossy)",
        "Keeps every guess that the target finds likely enough, more leniently where it is unsure (Medusa): the text "
        "is no longer the target's where tokens are drawn. At temperature 0 it is match, and lossless.",
        typical,
        lossless=False,
        weighs_q=False,
        settings=(
            Choice(
                name="epsilon",
                label="Epsilon",
                help="A guess that the target gives more than this always passes.",
                default=0.09,
                minimum=0.01,
                maximum=0.9,
                step=0.01,
            ),
            Choice(
                name="delta",
                label="Delta",
                help="One that it gives more than this times exp(-entropy) passes too.",
                default=0.3,
                minimum=0.01,
                maximum=0.9,
                step=0.01,
            ),
        ),
        outcome=typical_outcome,
    ),
}


def verifier(name: str) -> VerifierInfo:
    """The verifier of that name.

    Raises:
        InvalidRequest: there is none.
    """
    if name not in VERIFIERS:
        raise InvalidRequest(f"verifier is {name!r}; it must be one of {', '.join(VERIFIERS)}.")
    return VERIFIERS[name]


def verifier_settings(name: str, values: Mapping[str, object]) -> tuple[tuple[str, Setting], ...]:
    """Every setting of the verifier of that name, checked, defaults filled in, sorted by name.

    Raises:
        InvalidRequest: no such verifier, an unknown setting or a bad value.
    """
    return settled(name, verifier(name).settings, values)


@dataclass(frozen=True, slots=True)
class Rule:
    """A request's verifier with its settings.

    Raises:
        InvalidRequest: no such verifier, an unknown setting or a bad value.
    """

    name: str
    info: VerifierInfo
    verify: Verifier
    outcome: Outcome | None

    @classmethod
    def of(cls, request: Request) -> "Rule":
        """The rule that this request asks for."""
        settings = dict(verifier_settings(request.verifier, dict(request.verifier_settings)))
        info = verifier(request.verifier)
        outcome = None if info.outcome is None else partial(info.outcome, **settings)
        return cls(request.verifier, info, partial(info.verify, **settings), outcome)


def is_lossless(request: Request) -> bool:
    """Whether the output has the target's distribution, or at temperature 0 its text."""
    info = verifier(request.verifier)
    return info.lossless_greedy if request.temperature == 0 else info.lossless
