"""The decode loop: a generator over rounds, for plain and speculative decoding alike.

    for event in decode(request, target, drafter):
        ...

It knows distributions, drafts and clocks; it knows no text, no page and no strategy by name. A
consumer that stops early closes the generator, and target and drafter let go of their caches.
No clock runs across a yield.
"""

import math
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

import torch
from torch import Tensor

from playground.sampling import Chance, Law, Rule, Verdicts, distance, topk
from playground.trace import Event, Finished, FinishReason, InvalidRequest, Reading, Request, Round, Started, Token

TOP = 5
CALIBRATION_PASSES = 3
PREFILL_TOKENS = 256


class Target(Protocol):
    """A model that follows a token prefix: what the loop needs of it."""

    @property
    def vocab_size(self) -> int:
        """V, the width of its logits."""
        ...

    @property
    def context(self) -> int | None:
        """The most tokens that it can read; None: no limit."""
        ...

    def logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """Logits [keep, V], float32, on the host, at the last `keep` positions of `ids`."""
        ...

    def release(self) -> None:
        """Let go of the cache."""
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """A draft: `ids`, and the distribution [len(ids), V] that each was drawn from, after the request's
    logits processors. None: nothing was drawn at random, so that q is one-hot. `scores` [len(ids), V]
    is what the five likeliest are shown from. `drafted_as` are the pieces of text that were drafted, where another
    tokenizer's tokens were and `ids` are that text tokenised again."""

    ids: tuple[int, ...] = ()
    q: Tensor | None = None
    scores: Tensor | None = None
    drafted_as: tuple[str, ...] = ()


class Drafter(Protocol):
    """Whatever proposes tokens. One object serves one run."""

    def prepare(self, ids: Sequence[int]) -> None:
        """Read the prompt, so that the first draft costs what the others do."""
        ...

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """At most `k` tokens to follow `ids`; none at all means a plain round."""
        ...

    def release(self) -> None:
        """Let go of caches."""
        ...


# How many of the emitted ids, of which the last `new` are new, the output may keep: None means all of them.
StopRule = Callable[[Sequence[int], int], int | None]


def decode(
    request: Request,
    target: Target,
    drafter: Drafter,
    *,
    stop_rule: StopRule | None = None,
    calibrate: bool = False,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Event]:
    """Decode `request`: one Started, Rounds, one Finished; before them a Reading now and then where the prompt is
    long.

    `stop_rule` finds the request's stop strings, for which text is needed. `calibrate` times a few
    one-token target passes before the first round (Started.pass_seconds).

    Raises:
        InvalidRequest: the prompt does not fit the target, a token id lies outside its vocabulary, there are
            stop strings but no rule for them, no such verifier or a bad setting of it, or a draft without q for
            a verifier that mixes q in.
    """
    rule = Rule.of(request)
    _check(request, target, stop_rule)
    law = Law(request)
    rng = Random(f"verifier {request.seed}")
    prompt = list(request.prompt_ids)
    ids = list(prompt)
    emitted = 0
    rounds = 0
    reason: FinishReason | None = None
    try:
        yield (yield from _prefill(target, drafter, ids, calibrate, clock))
        while reason is None:
            room = request.max_new_tokens - emitted
            context_room = None if target.context is None else target.context - len(ids)
            most = min(request.k, room - 1, *([] if context_room is None else [context_room]))
            with torch.inference_mode():
                begin = clock()
                proposal = drafter.propose(ids, most) if most > 0 else Proposal()
                drafted = clock()
                draft = list(proposal.ids)
                _check_draft(draft, most, target.vocab_size)
                logits = target.logits(ids + draft, keep=len(draft) + 1)
                verified = clock()
                scores = law.scores(logits, ids, draft)
                p = law.probabilities(scores)
                weighed = _weighed(rule, law, p, scores, proposal)
                verdicts = rule.verify(*weighed, draft, Chance(rng, request.seed, len(ids), law.greedy))
                kept = [*draft[: verdicts.accepted], verdicts.next_id]
                kept, reason = _cut(request, ids[len(prompt) :], kept, stop_rule)
                sampled = clock()
                tokens = _observe(draft, proposal, verdicts, kept, scores, p, law, rule, weighed)
                observed = clock()
            ids += kept
            emitted += len(kept)
            if reason is None and emitted >= request.max_new_tokens:
                reason = "length"
            elif reason is None and target.context is not None and len(ids) > target.context:
                reason = "context"
            yield Round(
                index=rounds,
                tokens=tokens,
                draft_seconds=drafted - begin,
                verify_seconds=verified - drafted,
                sample_seconds=sampled - verified,
                observe_seconds=observed - sampled,
                width=len(draft) + 1,
                drafted_as=proposal.drafted_as,
            )
            rounds += 1
        yield Finished(reason, rounds, emitted)
    finally:
        drafter.release()
        target.release()


def _check(request: Request, target: Target, stop_rule: StopRule | None) -> None:
    outside = [i for i in (*request.prompt_ids, *request.banned_ids) if i >= target.vocab_size]
    if outside:
        raise InvalidRequest(
            f"Token id {outside[0]} lies outside the target's vocabulary of {target.vocab_size}: "
            "use the target's own tokenizer."
        )
    if target.context is not None and len(request.prompt_ids) > target.context:
        raise InvalidRequest(
            f"The prompt is {len(request.prompt_ids)} tokens long and the target reads at most {target.context}: "
            "shorten the prompt."
        )
    if request.stop_strings and stop_rule is None:
        raise InvalidRequest(f"stop_strings is {request.stop_strings!r}, but no stop rule was given to find them.")


def _check_draft(draft: Sequence[int], most: int, vocab_size: int) -> None:
    if len(draft) > max(most, 0):
        raise ValueError(f"The drafter drafted {len(draft)} tokens where at most {most} were asked for.")
    if any(not 0 <= i < vocab_size for i in draft):
        raise ValueError(f"The drafter drafted {draft}, with an id outside the target's vocabulary of {vocab_size}.")


def _weighed(rule: Rule, law: Law, p: Tensor, scores: Tensor, proposal: Proposal) -> tuple[Tensor, Tensor | None]:
    """p and q as the verifier takes them: one that mixes them is given those of temperature 1 at temperature 0, where
    a mixture of one-hot distributions would know nothing of how sure either model is."""
    if not (rule.info.mixes and proposal.ids):
        return p, proposal.q
    q = proposal.q
    if law.greedy:
        p, q = scores.softmax(-1), None if proposal.scores is None else proposal.scores.softmax(-1)
    if q is None:
        raise InvalidRequest(
            f"verifier is {rule.name!r}, which mixes the drafter's probabilities in, and this drafter has none: "
            "choose a drafter that has, such as an assistant model, or another verifier."
        )
    return p, q


def _prefill(
    target: Target, drafter: Drafter, ids: Sequence[int], calibrate: bool, clock: Callable[[], float]
) -> Generator[Event, None, Started]:
    """Read all of the prompt but its last token, which the first round reads; in parts, so that a reader who has
    had enough of a long one can leave between them."""
    seconds = 0.0
    for start in range(0, len(ids) - 1, PREFILL_TOKENS):
        end = min(start + PREFILL_TOKENS, len(ids) - 1)
        with torch.inference_mode():
            begin = clock()
            target.logits(ids[:end], keep=1)
            seconds += clock() - begin
        if end < len(ids) - 1:
            yield Reading(end, len(ids))
    with torch.inference_mode():
        begin = clock()
        drafter.prepare(ids)
        drafted = clock()
        if calibrate:
            for _ in range(CALIBRATION_PASSES):
                target.logits(ids, keep=1)
        calibrated = clock()
    return Started(
        prefill_seconds=seconds,
        draft_prefill_seconds=drafted - begin,
        pass_seconds=(calibrated - drafted) / CALIBRATION_PASSES if calibrate else None,
    )


def _cut(
    request: Request, before: Sequence[int], kept: list[int], stop_rule: StopRule | None
) -> tuple[list[int], FinishReason | None]:
    """`kept` up to the first stop token or the end of the first stop string, and which it was."""
    reason: FinishReason | None = None
    for i, token in enumerate(kept):
        if token in request.stop_ids:
            kept, reason = kept[: i + 1], "stop_token"
            break
    if request.stop_strings and stop_rule is not None:
        most = stop_rule([*before, *kept], len(kept))
        if most is not None and (most < len(before) + len(kept) or reason is None):
            kept, reason = kept[: most - len(before)], "stop_string"
    return kept, reason


def _observe(
    draft: Sequence[int],
    proposal: Proposal,
    verdicts: Verdicts,
    kept: Sequence[int],
    scores: Tensor,
    p: Tensor,
    law: Law,
    rule: Rule,
    weighed: tuple[Tensor, Tensor | None],
) -> tuple[Token, ...]:
    """The round's tokens with all that is shown of them. Positions are looked at once, all together. The overlap of
    p and q is shown only under a verifier that weighs q; `weighed` are p and q as the verifier took them."""
    # A stop inside the draft ends the run there: what follows counts as never tested.
    n = len(verdicts.tested) if len(kept) > verdicts.accepted else len(kept)
    rows = verdicts.accepted + 1
    q = proposal.q
    p_top, margins = _top(scores[:rows], p[:rows], law.greedy)
    q_top = _top(proposal.scores, q, law.greedy)[0] if draft and proposal.scores is not None else [()] * len(draft)
    p_of = p[range(n), draft[:n]].tolist() if n else []
    q_of = q[range(len(draft)), draft].tolist() if q is not None and draft else [1.0] * len(draft)
    overlaps = (
        torch.minimum(p[:n], q[:n]).sum(-1).clamp(max=1.0).tolist()
        if q is not None and n and rule.info.weighs_q
        else [None] * n
    )
    expected, tv = _outcome(rule, law, p, weighed, draft[:n])

    def refused(i: int) -> bool:
        return i >= verdicts.accepted and rule.info.draws_residual and not law.greedy

    tokens = [
        Token(
            id=draft[i],
            verdict="accepted" if i < verdicts.accepted else "rejected",
            p=min(1.0, p_of[i]),
            q=min(1.0, q_of[i]),
            accept=verdicts.tested[i].accept,
            drawn=None if law.greedy else verdicts.tested[i].drawn,
            overlap=overlaps[i],
            margin=margins[i],
            p_top=p_top[i],
            q_top=q_top[i],
            expected=expected[i],
            tv=tv[i],
            residual=_residual(p[i], None if q is None else q[i], draft[i]) if refused(i) else (),
        )
        for i in range(n)
    ]
    tokens += [
        Token(id=draft[i], verdict="discarded", q=min(1.0, q_of[i]), q_top=q_top[i]) for i in range(n, len(draft))
    ]
    if len(kept) > verdicts.accepted:
        last = verdicts.accepted
        tokens.append(
            Token(
                id=verdicts.next_id,
                verdict="plain" if not draft else "bonus" if last == len(draft) else "corrected",
                p=min(1.0, float(p[last, verdicts.next_id])),
                margin=margins[last],
                p_top=p_top[last],
            )
        )
    return tuple(tokens)


def _residual(p: Tensor, q: Tensor | None, x: int) -> tuple[tuple[int, float, float], ...]:
    """Token.residual of the refused draft `x`, of p and q [V]; None: q was all on `x`."""
    guess = p.new_zeros(len(p)).index_fill_(0, torch.tensor([x]), 1.0) if q is None else q
    beyond, ids = topk((p - guess)[None], min(TOP, len(p)))
    shown = [x, *(i for i, gap in zip(ids[0].tolist(), beyond[0].tolist(), strict=True) if gap > 0 and i != x)]
    return tuple((i, min(1.0, float(p[i])), min(1.0, float(guess[i]))) for i in shown)


def _outcome(
    rule: Rule, law: Law, p: Tensor, weighed: tuple[Tensor, Tensor | None], draft: Sequence[int]
) -> tuple[list[float | None], list[float | None]]:
    """Token.expected and Token.tv at tested positions."""
    n = len(draft)
    if rule.outcome is None or not n:
        return [None] * n, [None] * n
    q = weighed[1]
    passing, written = rule.outcome(weighed[0][:n], None if q is None else q[:n], draft, law.greedy)
    tv = [None] * n if written is None else distance(written, p[:n]).clamp(max=1.0).tolist()
    return passing.clamp(max=1.0).tolist(), tv


def _top(
    scores: Tensor, p: Tensor | None, greedy: bool
) -> tuple[list[tuple[tuple[int, float], ...]], list[float | None]]:
    """The TOP likeliest tokens of each row, and the gap between its two best scores (None: only one is possible)."""
    count = min(TOP, scores.shape[-1])
    best, ids = topk(scores, count)
    # softmax takes half the time of logsumexp.
    chances = (scores.softmax(-1) if greedy or p is None else p).gather(-1, ids)
    gaps = (best[:, 0] - best[:, 1]).tolist() if count > 1 else [math.inf] * len(best)
    rows = [
        tuple((i, min(1.0, c)) for i, c in zip(row, chance, strict=True) if c > 0)
        for row, chance in zip(ids.tolist(), chances.tolist(), strict=True)
    ]
    return rows, [gap if math.isfinite(gap) else None for gap in gaps]
