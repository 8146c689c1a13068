"""The target drafts for itself: its first layers guess, the others check.

Self-speculation with an early exit: LayerSkip, Elhoushi et al. 2024 (arXiv 2404.16710). transformers'
`assistant_early_exit`, which keeps a second cache and runs the first layers again when it verifies; here what they
have read is kept.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from playground.engine import Proposal
from playground.fused import fused
from playground.split import SplitModel, last_exit
from playground.trace import Request
from strategies.base import Choice, Context, Strategy

if TYPE_CHECKING:
    from playground.models import Loaded


class EarlyExitDrafter:
    """Drafts token by token with the target's layers up to the exit, its final norm and its head."""

    def __init__(self, context: Context) -> None:
        assert isinstance(context.target, SplitModel), "made by this strategy's follow"
        self._target = context.target
        self._draft_one_by_one = context.draft_one_by_one
        self._confidence = float(context.request.setting("confidence", 0.0))

    def prepare(self, ids: Sequence[int]) -> None:
        """Nothing to read: the target has read the prompt."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """At most `k` tokens, with the distribution [n, V] that each was drawn from."""
        return self._draft_one_by_one(ids, k, lambda draft: self._target.early_logits([*ids, *draft]), self._confidence)

    def release(self) -> None:
        """Nothing to free: the cache is the target's."""


def _last_exit(target: "Loaded") -> int:
    return last_exit(target.model, target.name)


def _check(target: "Loaded", assistant: "Loaded | None") -> None:
    _last_exit(target)


def _follow(target: "Loaded", request: Request) -> SplitModel:
    return SplitModel(fused(target.model), int(request.setting("exit_layer", 1)), target.name)


STRATEGY = Strategy(
    name="early-exit",
    title="Early exit",
    about="The target's own first layers, with its final norm and head, guess K tokens; the layers above check them "
    "in one pass and start from what the first ones left. No second model, no second cache.",
    wins="Wins with targets that were trained for it (LayerSkip: layer dropout and a loss at every exit). Any other "
    "target works and gives the same text, but is slow: its head was only ever taught to read the last layer, so the "
    "guesses are mostly refused.",
    build=EarlyExitDrafter,
    settings=(
        Choice(
            name="exit_layer",
            label="Exit layer",
            help="How many of the target's layers guess: from 1 to one fewer than it has. More layers guess better "
            "and cost more.",
            default=1,
            minimum=1,
            step=1,
            maximum_of=_last_exit,
        ),
        Choice(
            name="confidence",
            label="Confidence threshold",
            help="A guess that the exit gives less than this is the draft's last; 0 always guesses K.",
            default=0.0,
            minimum=0.0,
            maximum=1.0,
            step=0.05,
        ),
    ),
    check=_check,
    follow=_follow,
)
