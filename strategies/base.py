"""What a strategy is: a name, its settings, its checks, and a drafter for a run.

A strategy proposes and nothing else; the engine verifies.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from playground.cache import widened
from playground.engine import Drafter, Proposal
from playground.sampling import COUPLED, Law, argmax, coupled_sample, sample
from playground.settings import Choice, settled
from playground.trace import Request, Setting

__all__ = ["Choice", "Context", "Strategy", "drafter_rng"]

if TYPE_CHECKING:
    from playground.cache import PrefixModel
    from playground.models import Loaded


@dataclass(frozen=True, slots=True)
class Context:
    """What a drafter may use for one run. `rng` is its own, apart from the verifier's: were they one
    sequence, a draft and its test would not be independent."""

    request: Request
    target: "PrefixModel"
    assistant: "PrefixModel | None"
    law: Law
    rng: Random
    target_tokenizer: Any = None
    assistant_tokenizer: Any = None

    def draw(self, q: Tensor, position: int) -> int:
        """A token drawn from `q` [V], the distribution at `position` (the number of tokens before it). Under the
        coupled verifier with the noise that the target will use there, otherwise with the drafter's own."""
        if self.request.verifier == COUPLED:
            return coupled_sample(q, self.request.seed, position)
        return sample(q, self.rng.random())

    def draft_one_by_one(
        self,
        ids: Sequence[int],
        k: int,
        logits_of: Callable[[list[int]], Tensor],
        confidence: float = 0.0,
        tokens: Tensor | None = None,
    ) -> Proposal:
        """At most `k` tokens to follow `ids`, each drawn after those before it, with their distribution [n, V].

        `logits_of` gives the logits [1, V], V the target's, after `ids` and the tokens that it is called with; where
        `tokens`, ascending ids, are given, only theirs. A token that is given less than `confidence` is the draft's
        last.
        """
        draft: list[int] = []
        all_scores: list[Tensor] = []
        all_q: list[Tensor] = []
        for _ in range(k):
            scores = self.law.scores(logits_of(draft), [*ids, *draft], tokens=tokens)
            if self.law.greedy:
                column = int(argmax(scores))
            else:
                all_q.append(self.law.probabilities(scores))
                column = self._column(all_q[-1], len(ids) + len(draft), tokens)
            draft.append(column if tokens is None else int(tokens[column]))
            all_scores.append(scores)
            if confidence > 0 and float(scores[0].softmax(-1)[column]) < confidence:
                break
        if not draft:
            return Proposal()
        every = torch.cat(all_scores)
        q = self.law.probabilities(every) if self.law.greedy else torch.cat(all_q)
        return Proposal(tuple(draft), self._wide(q, tokens, 0.0), self._wide(every, tokens, -torch.inf))

    def _column(self, q: Tensor, position: int, tokens: Tensor | None) -> int:
        if tokens is not None and self.request.verifier == COUPLED:  # its noise belongs to ids
            return int(torch.searchsorted(tokens, self.draw(self._wide(q, tokens, 0.0)[0], position)))
        return self.draw(q[0], position)

    def _wide(self, few: Tensor, tokens: Tensor | None, fill: float) -> Tensor:
        return few if tokens is None else widened(few, tokens, self.target.vocab_size, fill)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to draft. `build` makes the drafter of one run; `check` refuses a pair of models that it
    cannot work with, before anything runs; `follow` gives the target a cache of another kind where one is needed.
    `has_q`: false where drafts may come without a distribution, which some verifiers need; `q_when` names a
    setting and the value of it with which they all have one."""

    name: str
    title: str
    about: str
    wins: str
    build: Callable[[Context], Drafter]
    needs_assistant: bool = False
    drafts: bool = True
    has_q: bool = True
    q_when: tuple[str, str] | None = None
    settings: tuple[Choice, ...] = ()
    check: Callable[["Loaded", "Loaded | None"], None] = field(default=lambda target, assistant: None)
    follow: Callable[["Loaded", Request], "PrefixModel"] = field(default=lambda target, request: target.follow())

    def settled(self, values: Mapping[str, object]) -> tuple[tuple[str, Setting], ...]:
        """Every setting of the strategy, checked, defaults filled in, sorted by name.

        Raises:
            InvalidRequest: an unknown name or a bad value.
        """
        return settled(self.name, self.settings, values)

    def gives_q(self, values: Mapping[str, object]) -> bool:
        """Whether every draft comes with a distribution, under these settings."""
        return self.has_q or (self.q_when is not None and dict(self.settled(values))[self.q_when[0]] == self.q_when[1])

    def check_settings(self, target: "Loaded", values: Sequence[tuple[str, Setting]]) -> None:
        """Refuse what `settled` could not know to be out of range: it depends on the target.

        Raises:
            InvalidRequest: a value is too large for `target`.
        """
        for choice in self.settings:
            choice.check_for(target, dict(values)[choice.name])


def drafter_rng(request: Request) -> Random:
    """The drafter's random numbers of a run."""
    return Random(f"drafter {request.seed}")
