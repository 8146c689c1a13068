"""An assistant model drafts: a smaller model of the same vocabulary, greedy or sampling.

transformers' guide: assisted decoding with `assistant_model`. Leviathan et al. 2023 (arXiv 2211.17192). Drafting
among frequent tokens only: FR-Spec, Zhao et al. 2025 (arXiv 2502.14856).
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from playground.cache import PrefixModel
from playground.engine import Proposal
from playground.trace import InvalidRequest
from strategies.base import Choice, Context, Strategy

if TYPE_CHECKING:
    from playground.models import Loaded


class AssistantDrafter:
    """Drafts token by token with the assistant, whose cache follows the target's text.

    `schedule` says how many tokens a round drafts, never more than K: all K (constant); starting from K,
    two more after a fully accepted draft and one fewer otherwise (heuristic, as transformers); or until
    the assistant gives its own guess less than `confidence` (that guess is still drafted).
    """

    def __init__(self, context: Context) -> None:
        assert context.assistant is not None, "checked before"
        self._model: PrefixModel = context.assistant
        self._vocab = context.target.vocab_size
        self._draft_one_by_one = context.draft_one_by_one
        self._schedule = context.request.setting("schedule", "constant")
        sure = self._schedule == "confidence"
        self._confidence = float(context.request.setting("confidence", 0.4)) if sure else 0.0
        frequent = context.request.setting("vocabulary", "frequent") == "frequent"
        self._limited = frequent and self._model.draft_vocabulary is not None
        self._scored = 0  # ids whose tokens a limited output layer scores
        self._k = context.request.k
        self._length = context.request.k
        self._last: list[int] = []

    def prepare(self, ids: Sequence[int]) -> None:
        """Read the prompt but for its last token."""
        if self._limited:
            self._model.limit_to(self._model.draft_vocabulary or ())
            self._limit(self._readable(ids))
        if len(ids) > 1:
            self._model.logits(self._readable(ids[:-1]), keep=1)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """At most `k` tokens, with the distribution [n, V] that each was drawn from, V the target's."""
        if self._schedule == "heuristic":
            self._adapt(ids)
            k = min(k, self._length)
        if self._model.context is not None:
            k = min(k, self._model.context - len(ids) + 1)
        prefix = self._readable(ids)
        if self._limited:
            self._limit(prefix)
        scored = self._model.scored
        if scored is not None:
            scored = scored[: int(torch.searchsorted(scored, self._vocab))]

        def logits_of(draft: list[int]) -> Tensor:
            logits = self._model.scored_logits([*prefix, *draft], keep=1)
            return self._fit(logits) if scored is None else logits[:, : len(scored)]

        proposal = self._draft_one_by_one(ids, k, logits_of, self._confidence, scored)
        self._last = [*ids, *proposal.ids]
        return proposal

    def release(self) -> None:
        """Free the assistant's cache."""
        self._model.release()

    def _readable(self, ids: Sequence[int]) -> list[int]:
        # A padding row that the target wrote and the assistant lacks: any token in its place leaves q a
        # distribution, and so the run lossless.
        return [min(i, self._model.vocab_size - 1) for i in ids]

    def _limit(self, prefix: Sequence[int]) -> None:
        # The text's own tokens are scored too: those written since the last time.
        self._model.limit_to(prefix[self._scored :])
        self._scored = len(prefix)

    def _fit(self, logits: Tensor) -> Tensor:
        # Padding rows of either vocabulary: what the target cannot read is never drafted.
        missing = self._vocab - logits.shape[-1]
        if missing > 0:
            return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)
        return logits[:, : self._vocab]

    def _adapt(self, ids: Sequence[int]) -> None:
        # The last draft was kept whole if the text now begins with it. State of this run only.
        if not self._last:
            return
        kept = len(ids) > len(self._last) and list(ids[: len(self._last)]) == self._last
        self._length = min(self._k, self._length + 2) if kept else max(1, self._length - 1)


def _check(target: "Loaded", assistant: "Loaded | None") -> None:
    if assistant is None:
        raise InvalidRequest(
            "The strategy assistant needs an assistant model: choose one, for example smollm2-drafter."
        )
    assistant.check_writes()
    same_vocabulary(target, assistant)


def same_vocabulary(target: "Loaded", assistant: "Loaded") -> None:
    """Both tokenizers give every id the same token; rows without a token (padding) do not count.

    Raises:
        InvalidRequest: they do not.
    """
    ours, theirs = target.tokenizer.get_vocab(), assistant.tokenizer.get_vocab()
    if ours == theirs:
        return
    differing = sorted((t for t in ours.keys() & theirs.keys() if ours[t] != theirs[t]), key=lambda t: ours[t])
    only = sorted(ours.keys() ^ theirs.keys())
    example = differing[0] if differing else only[0]
    raise InvalidRequest(
        f"{assistant.name} and {target.name} do not share a vocabulary (for example {example!r} is "
        f"{ours.get(example, 'no token')} in the target and {theirs.get(example, 'no token')} in the assistant): "
        "choose an assistant with the target's tokenizer, or universal assisted decoding."
    )


STRATEGY = Strategy(
    name="assistant",
    title="Assistant model",
    about="A smaller model with the same tokenizer guesses K tokens one after another; the target checks them "
    "all in one pass.",
    wins="Wins when the assistant is much cheaper than the target and often agrees with it.",
    build=AssistantDrafter,
    needs_assistant=True,
    settings=(
        Choice(
            name="schedule",
            label="Draft length",
            help="How many tokens a round guesses, K at most.",
            default="constant",
            options=(
                ("constant", "always K"),
                ("heuristic", "+2 after a full accept, -1 otherwise"),
                ("confidence", "until the assistant is unsure"),
            ),
        ),
        Choice(
            name="confidence",
            label="Confidence threshold",
            help="A guess that the assistant gives less than this is the draft's last.",
            when=("schedule", "confidence"),
            default=0.4,
            minimum=0.0,
            maximum=1.0,
            step=0.05,
        ),
        Choice(
            name="vocabulary",
            label="Draft vocabulary",
            help="Guess among frequent tokens and those of the text so far only, where the assistant brings a list: "
            "its output layer, most of its cost, shrinks (FR-Spec). The target checks over all.",
            default="frequent",
            options=(("frequent", "frequent tokens"), ("full", "all tokens")),
        ),
    ),
    check=_check,
)
