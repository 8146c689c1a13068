"""The check of losslessness on one setting: same text at temperature 0, same distribution when sampling.

    prover = Prover(prepared, draws=200)
    for _ in prover.steps():   # a round or a draw at a time
        show(prover.proof())   # as far as it got

At temperature 0 the target decodes alone and with the strategy, and the texts are compared token for token. When
sampling, the coupled verifier's texts are compared in the same way (one seed, whoever drafts), and the first two tokens
are drawn many times under the chosen verifier and compared with the target's own distribution: of the first token, and
of the second after each of the commonest first ones. Knows no widget and says nothing in words.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from playground.cache import PrefixModel
from playground.engine import PREFILL_TOKENS
from playground.fit import Finding, Fit, Group, fit, judge
from playground.metrics import Tally
from playground.race import race
from playground.read_once import ReadOnce, read_once
from playground.run import Prepared
from playground.sampling import COUPLED, Law, coupled_noise, is_lossless
from playground.text import IncrementalText, decode_all
from playground.trace import Finished, FinishReason, InvalidRequest, Request, Round, Started, Token
from strategies import strategy

DRAWS = 200
MOST_DRAWS = 2000
COUPLED_TOKENS = 64  # of each of the coupled texts, at most
SECOND_DRAFTER = "prompt-lookup"  # costs nothing, and guesses unlike any model
COMMON_FIRST = 8  # first tokens after which the second is looked at, at most
LEAST_DRAWS = 5  # of a first token, for its second to be looked at
BARS = 6
LOOSE_SIMULATIONS = 200  # of the noise floor while draws still come
ROUNDING = 0.5  # logits of some tens are 0.125 apart in bfloat16: a few steps are a tie


@dataclass(frozen=True, slots=True)
class Written:
    """A text: who drafted it, its tokens, their texts (which with `tail` join to it), why it ended (None: it was
    stopped), and the mean of Token.tv over its tested positions (None: it has none)."""

    strategy: str
    tokens: tuple[Token, ...] = ()
    pieces: tuple[str, ...] = ()
    tail: str = ""
    reason: FinishReason | None = None
    tv: float | None = None


@dataclass(frozen=True, slots=True)
class Agreement:
    """How a text agrees with the target's own: its first `same` tokens are the same. Where `parted`, the next differs:
    `names` are the target's token and the other there, each by itself. `gap` is how far apart the two are in the
    target's logits, under shared noise with what the noise adds to each (None: not among the five best that are kept),
    and `tie` says that this is within the rounding of the number format."""

    same: int
    parted: bool = False
    names: tuple[str, str] = ("", "")
    gap: float | None = None
    tie: bool = False


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of one setting: first the target's own, then the strategies', each with how it agrees with the first."""

    verifier: str
    lanes: tuple[Written, ...]
    agreements: tuple[Agreement, ...]
    limit: int  # tokens of each, at most

    @property
    def ended(self) -> bool:
        """All were written to their end."""
        return all(lane.reason is not None for lane in self.lanes)


@dataclass(frozen=True, slots=True)
class Bar:
    """A first token: the target's probability of it and its share of the draws."""

    name: str
    p: float
    share: float


@dataclass(frozen=True, slots=True)
class Drawn:
    """The draws so far against the target's own distribution.

    `first` is the Fit of the first token, `second` that of the second after each of `after` (a first token's text and
    how often it came). `estimate` is the mean of Token.tv at the first token: what the runs themselves reckon that a
    lossy verifier costs there. `bars` are the likeliest first tokens. `rereads`: every draw read the prompt again.
    """

    wanted: int
    done: int
    first: Fit | None = None
    second: Fit | None = None
    after: tuple[tuple[str, int], ...] = ()
    estimate: float | None = None
    bars: tuple[Bar, ...] = ()
    seconds: float = 0.0
    rereads: bool = False

    @property
    def fits(self) -> tuple[Fit, ...]:
        """Those that were made."""
        return tuple(one for one in (self.first, self.second) if one is not None)


@dataclass(frozen=True, slots=True)
class Proof:
    """What was found so far. `finding` is of the draws; None: there are none yet, or none were to be made."""

    request: Request
    dtype: str
    lossless: bool
    texts: Texts | None = None
    drawn: Drawn | None = None
    finding: Finding | None = None
    wanted: int = 0  # draws
    done: bool = False
    stopped: bool = False


def check_drafts(name: str) -> None:
    """Refuse a strategy of which there is nothing to prove.

    Raises:
        InvalidRequest: it does not draft.
    """
    if not strategy(name).drafts:
        raise InvalidRequest(
            "strategy is 'plain', which is the target alone: there is nothing to prove. Choose a strategy that drafts."
        )


def check_draws(draws: Any) -> int:
    """`draws` as a whole number.

    Raises:
        InvalidRequest: it is none from 1 to MOST_DRAWS.
    """
    whole = isinstance(draws, int | float) and not isinstance(draws, bool) and float(draws).is_integer()
    if not (whole and 1 <= draws <= MOST_DRAWS):
        raise InvalidRequest(f"How many draws is {draws!r}; it must be a whole number from 1 to {MOST_DRAWS:,}.")
    return int(draws)


@dataclass(slots=True)
class _Lane:
    prepared: Prepared
    words: IncrementalText
    tokens: list[Token] = field(default_factory=list)
    pieces: list[str] = field(default_factory=list)
    reason: FinishReason | None = None
    tally: Tally = field(default_factory=Tally)

    @classmethod
    def of(cls, prepared: Prepared) -> "_Lane":
        return cls(prepared, IncrementalText(prepared.target.tokenizer))

    def add(self, one: Round) -> None:
        self.tally.add(one)
        for token in one.emitted:
            self.tokens.append(token)
            self.pieces.append(self.words.push(token.id))

    def written(self) -> Written:
        text = "".join(self.pieces)
        whole = decode_all(self.prepared.target.tokenizer, [t.id for t in self.tokens])
        tail = whole[len(text) :] if whole.startswith(text) else ""
        tv = self.tally.tv_sum / self.tally.tv_count if self.tally.tv_count else None
        name = self.prepared.request.strategy
        return Written(name, tuple(self.tokens), tuple(self.pieces), tail, self.reason, tv)


class Prover:
    """One check, a step at a time. Whoever drives the steps may stop in between and look at what there is.

    Raises:
        InvalidRequest: the strategy does not draft, or `draws` is out of range.
    """

    def __init__(self, prepared: Prepared, draws: Any = DRAWS) -> None:
        check_drafts(prepared.request.strategy)
        self._wanted = check_draws(draws)
        self._prepared = prepared
        self._request = prepared.request
        self._prompt = prepared.request.prompt_ids
        self._stop = threading.Event()
        self._done = False
        self._lanes: list[_Lane] = []
        self._draws: list[tuple[int, ...]] = []
        self._tv: list[float] = []
        self._seconds = 0.0
        self._laws: dict[tuple[int, ...], Any] = {}  # what follows the prompt and these tokens, [V]
        self._target = read_once(prepared.target)
        self._helper = None if prepared.assistant is None else read_once(prepared.assistant)

    @property
    def progress(self) -> tuple[int, int]:
        """Tokens written and draws made so far, each of all lanes together."""
        return sum(len(lane.tokens) for lane in self._lanes), len(self._draws)

    def stop(self) -> None:
        """Begin nothing more; what was drawn is still compared. Safe from any thread."""
        self._stop.set()

    def steps(self) -> Iterator[None]:
        """All of it. Between two steps no model runs; one that decodes holds the pass lock."""
        if self._request.temperature == 0:
            yield from self._write([self._prepared.plain(), self._prepared])
        else:
            if is_lossless(self._request):
                yield from self._write(self._coupled())
            yield from self._sample()
        self._done = True

    def proof(self) -> Proof:
        """What was found so far."""
        drawn = self._drawn()
        lossless = is_lossless(self._request)
        exact_numbers = self._prepared.target.dtype == "float32"
        return Proof(
            request=self._request,
            dtype=self._prepared.target.dtype,
            lossless=lossless,
            texts=self._texts(),
            drawn=drawn,
            finding=None if drawn is None else judge(drawn.fits, exact_numbers),
            wanted=self._wanted,
            done=self._done,
            stopped=self._stop.is_set(),
        )

    # --- texts ---------------------------------------------------------------------------------------

    def _coupled(self) -> list[Prepared]:
        limit = min(COUPLED_TOKENS, self._request.max_new_tokens)
        shared = replace(self._request, verifier=COUPLED, verifier_settings=(), max_new_tokens=limit)
        ours = replace(self._prepared, request=shared)
        lanes = [ours.plain(), ours]
        if shared.strategy != SECOND_DRAFTER:
            other = replace(shared, strategy=SECOND_DRAFTER, settings=strategy(SECOND_DRAFTER).settled({}))
            lanes.append(Prepared(replace(other, assistant=None), self._prepared.target, None))
        return lanes

    def _write(self, runs: Sequence[Prepared]) -> Iterator[None]:
        self._lanes = [_Lane.of(one) for one in runs]
        with closing(race([one.events() for one in runs])) as events:
            for lane, event in events:
                if isinstance(event, Round):
                    self._lanes[lane].add(event)
                elif isinstance(event, Finished):
                    self._lanes[lane].reason = event.reason
                yield
                if self._stop.is_set():
                    return

    def _texts(self) -> Texts | None:
        if not self._lanes:
            return None
        lanes = tuple(lane.written() for lane in self._lanes)
        request = self._lanes[0].prepared.request
        return Texts(
            request.verifier if request.temperature > 0 else self._request.verifier,
            lanes,
            tuple(self._agreement(lanes[0], other, request) for other in lanes[1:]),
            request.max_new_tokens,
        )

    def _agreement(self, own: Written, other: Written, request: Request) -> Agreement:
        same = 0
        for a, b in zip(own.tokens, other.tokens, strict=False):
            if a.id != b.id:
                break
            same += 1
        if same == min(len(own.tokens), len(other.tokens)):
            return Agreement(same)
        here, there = own.tokens[same], other.tokens[same]
        gap = _gap(here, there, request, len(self._prompt) + same, self._vocab)
        tie = self._prepared.target.dtype != "float32" and gap is not None and gap <= ROUNDING
        return Agreement(same, True, (self._name(here.id), self._name(there.id)), gap, tie)

    @property
    def _vocab(self) -> int:
        return int(self._prepared.target.model.get_output_embeddings().weight.shape[0])

    def _name(self, token: int) -> str:
        return decode_all(self._prepared.target.tokenizer, [token])

    # --- draws ---------------------------------------------------------------------------------------

    def _sample(self) -> Iterator[None]:
        reader = self._prepared.target.follow()
        try:
            if self._stop.is_set():
                return
            yield from _read(reader, self._prompt)
            self._laws[()] = self._law(reader, ())
            yield
            for i in range(self._wanted):
                if self._stop.is_set():
                    break
                begin = time.perf_counter()
                draw = yield from self._draw(replace(self._request, seed=(self._request.seed + i) % 2**63))
                self._seconds += time.perf_counter() - begin
                self._draws.append(draw)
                yield
            for first, _ in self._common():
                self._laws[(first,)] = self._law(reader, (first,))
                yield
        finally:
            reader.release()

    def _law(self, reader: PrefixModel, after: tuple[int, ...]) -> Any:
        """The target's distribution [V] after the prompt and these tokens, from a pass of its own."""
        law = Law(self._request)
        ids = [*self._prompt, *after]
        with torch.inference_mode():
            p = law.probabilities(law.scores(reader.logits(ids, keep=1), ids))[0].double().numpy()
        return p / p.sum()

    def _draw(self, request: Request) -> Generator[None, None, tuple[int, ...]]:
        """The first two tokens of a run of its own (one, where it ends with that)."""
        run = Prepared(request, self._target, self._helper)
        ids: list[int] = []
        with closing(race([run.events()])) as events:
            for _, event in events:
                if isinstance(event, Started):
                    for one in (self._target, self._helper):
                        if one is not None:
                            one.book.close()
                elif isinstance(event, Round):
                    head = event.tokens[0]
                    if not ids and head.tv is not None:
                        self._tv.append(head.tv)
                    ids += [token.id for token in event.emitted]
                    if len(ids) >= 2:
                        break
                else:
                    yield  # a long prompt is being read
        return tuple(ids[:2])

    def _common(self) -> list[tuple[int, int]]:
        """The first tokens, and how often they came, after which the second is looked at."""
        firsts = Counter(draw[0] for draw in self._draws)
        ended = {draw[0] for draw in self._draws if len(draw) < 2}
        return [(x, n) for x, n in firsts.most_common() if n >= LEAST_DRAWS and x not in ended][:COMMON_FIRST]

    def _drawn(self) -> Drawn | None:
        if not self._draws:
            return None
        finished = self._done
        simulations = {} if finished else {"simulations": LOOSE_SIMULATIONS}
        firsts = Counter(draw[0] for draw in self._draws)
        p, n = self._laws[()], len(self._draws)
        common = [(x, count) for x, count in self._common() if (x,) in self._laws] if finished else []
        groups = [Group(self._laws[(x,)], Counter(draw[1] for draw in self._draws if draw[0] == x)) for x, _ in common]
        likeliest = [int(x) for x in np.argsort(-p, kind="stable")[:BARS] if p[x] > 0]
        models: list[ReadOnce] = [one for one in (self._target, self._helper) if one is not None]
        return Drawn(
            wanted=self._wanted,
            done=n,
            first=fit([Group(p, firsts)], **simulations),
            second=fit(groups, **simulations) if groups else None,
            after=tuple((self._name(x), count) for x, count in common),
            estimate=sum(self._tv) / len(self._tv) if self._tv else None,
            bars=tuple(Bar(self._name(x), float(p[x]), firsts[x] / n) for x in likeliest),
            seconds=self._seconds,
            rereads=any(_reads_again(one) for one in models),
        )


def _reads_again(model: ReadOnce) -> bool:
    return not model.book.ids


def _read(reader: PrefixModel, prompt: Sequence[int]) -> Iterator[None]:
    """Read all of the prompt but its last token, in parts."""
    for end in [*range(PREFILL_TOKENS, len(prompt) - 1, PREFILL_TOKENS), len(prompt) - 1]:
        if end:
            with torch.inference_mode():
                reader.logits(prompt[:end], keep=1)
            yield


def _gap(own: Token, other: Token, request: Request, position: int, vocab: int) -> float | None:
    """How far the target's own token is ahead of the other in its logits, as either pass saw it, whichever is less.
    None: neither kept both among its likeliest."""
    noise = {own.id: 0.0, other.id: 0.0}
    if request.temperature > 0:
        drawn = coupled_noise(vocab, request.seed, position)
        noise = {i: -math.log(float(drawn[i])) for i in noise}
    gaps = []
    for token in (own, other):
        chances = dict(token.p_top)
        if token.p is not None and request.temperature > 0:
            chances[token.id] = token.p
        if chances.get(own.id, 0.0) > 0 and chances.get(other.id, 0.0) > 0:
            scores = {i: math.log(chances[i]) + noise[i] for i in noise}
            gaps.append(abs(scores[own.id] - scores[other.id]) * (request.temperature or 1.0))
    return min(gaps, default=None)
