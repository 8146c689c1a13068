"""Logits to probabilities, and the verifiers: which drafted tokens are kept and what follows them.

Nothing here knows a model, a cache or a strategy. p is the target's distribution and q the
drafter's, both after the same logits processors; [n, V] is n positions over a vocabulary of V.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

from playground.trace import InvalidRequest, Request

COUPLED = "coupled"  # the verifier that shares its random numbers with the drafter
NUCLEUS = 512  # how many of the best tokens a nucleus is first looked for in


class Law:
    """The request's logits processors, in transformers' order, for all positions of a draft at once.

    Temperature 0 is the limit: all probability on the first largest logit.
    """

    def __init__(self, request: Request) -> None:
        self.greedy = request.temperature == 0
        self._banned = list(request.banned_ids)
        self._penalty = (
            RepetitionPenaltyLogitsProcessor(request.repetition_penalty) if request.repetition_penalty != 1 else None
        )
        self._temperature = None if request.temperature in (0, 1) else TemperatureLogitsWarper(request.temperature)
        self._top_k = request.top_k
        self._top_p = request.top_p
        self._min_p = [MinPLogitsWarper(request.min_p)] if request.min_p > 0 else []

    def scores(self, logits: Tensor, context: Sequence[int], draft: Sequence[int] = ()) -> Tensor:
        """What is left of `logits` [n, V] (float32) after penalty and bans, before temperature.

        Row i is the position after `context` and the first i tokens of `draft`.
        """
        if self._penalty is not None:
            # A row's prefix is padded with a token that it holds anyway: the penalty counts presence, not times.
            rows = [[*context, *draft[:i]] for i in range(len(logits))]
            longest = len(context) + max(0, len(logits) - 1)
            ids = torch.tensor([[row[0]] * (longest - len(row)) + row for row in rows])
            logits = self._penalty(ids, logits)
        if self._banned:
            logits = logits.clone()
            logits[:, self._banned] = -torch.inf
        return logits

    def probabilities(self, scores: Tensor) -> Tensor:
        """The distribution [n, V] (float32) that tokens are drawn from, given `scores` [n, V]."""
        if self.greedy:
            return torch.zeros_like(scores).scatter_(1, scores.argmax(-1, keepdim=True), 1.0)
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
    generator = torch.Generator().manual_seed(crc32(f"coupled {seed} {position}".encode()))
    noise = torch.empty(p.shape[-1]).exponential_(generator=generator)
    return int((p.float() / noise.clamp_(min=1e-30)).argmax())


@dataclass(frozen=True, slots=True)
class Tested:
    """How one drafted token fared: its chance to be kept and the number drawn (None: none was)."""

    accept: float
    drawn: float | None


@dataclass(frozen=True, slots=True)
class Verdicts:
    """The tested tokens of a draft, how many were kept, and the target's token that follows them."""

    tested: tuple[Tested, ...]
    accepted: int
    next_id: int


Verifier = Callable[[Tensor, Tensor | None, Sequence[int], Random], Verdicts]


def exact(p: Tensor, q: Tensor | None, draft: Sequence[int], rng: Random) -> Verdicts:
    """Speculative sampling: keep token x with probability min(1, p(x) / q(x)); in the place of the first
    refused one comes a token from max(p - q, 0), normalised; after a full draft, one from p.

    `p` [K + 1, V], `q` [K, V] or None for a deterministic draft, whose q is one-hot.
    Source: Leviathan et al. 2023 (arXiv 2211.17192), algorithm 1; Chen et al. 2023 (arXiv 2302.01318).
    """
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


def match(p: Tensor, q: Tensor | None, draft: Sequence[int], rng: Random) -> Verdicts:
    """The target draws its own token at each position; the draft is kept while it is the same.

    Lossless whatever q is; a drafted x is kept with probability p(x). `exact` comes down to it
    where the draft is deterministic. `p` [K + 1, V].
    """
    tested: list[Tested] = []
    for i, x in enumerate(draft):
        own = sample(p[i], rng.random())
        tested.append(Tested(float(p[i, x]), None))
        if own != x:
            return Verdicts(tuple(tested), i, own)
    return Verdicts(tuple(tested), len(draft), sample(p[len(draft)], rng.random()))


@dataclass(frozen=True, slots=True)
class VerifierInfo:
    """A verifier and what the page says of it. `weighs_q` says that it accepts by p against q."""

    title: str
    about: str
    verify: Verifier
    lossless: bool = True
    weighs_q: bool = True


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
}


def verifier(name: str) -> VerifierInfo:
    """The verifier of that name.

    Raises:
        InvalidRequest: there is none.
    """
    if name not in VERIFIERS:
        raise InvalidRequest(f"verifier is {name!r}; it must be one of {', '.join(VERIFIERS)}.")
    return VERIFIERS[name]
