"""A drafting head on the target's own hidden states: EAGLE.

Li et al. 2024 (arXiv 2401.15077): from the target's last hidden state and the token that follows it, one layer guesses
the next hidden state, and the target's own output layer reads the token off it; past the first token it goes on from
its own output. Scored are frequent tokens only: FR-Spec, Zhao et al. 2025 (arXiv 2502.14856). A chain; no tree.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

from playground.cache import HiddenRows
from playground.eagle_head import EagleHead, HeadModel
from playground.engine import Proposal
from playground.trace import InvalidRequest
from strategies.assistant import same_vocabulary
from strategies.base import Context, Strategy

if TYPE_CHECKING:
    from playground.models import Loaded


class EagleDrafter:
    """Drafts with a head, whose rows follow the target's text; the rows that it makes from its own output are of one
    round."""

    def __init__(self, context: Context) -> None:
        assert isinstance(context.assistant, HeadModel), "checked before"
        self._context, self._head = context, context.assistant
        self._embed = context.target.model.get_input_embeddings()
        weight = context.target.model.get_output_embeddings().weight
        frequent = self._head.draft_vocabulary
        self._scored = None if frequent is None else torch.tensor(sorted(frequent))
        self._weight = weight if self._scored is None else weight[self._scored.to(weight.device)]
        self._mute = set(frequent or range(len(weight))) <= set(context.request.banned_ids)
        self._text: list[int] = []  # what the rows were made of
        self._hidden = HiddenRows(context.target)
        self._state = weight[:0]  # [1, H]: what the head made of the last token that it read

    def prepare(self, ids: Sequence[int]) -> None:
        """Read the prompt but for the row that the first draft begins with."""
        end = min(self._hidden.known, len(ids) - 1) - 1
        if end > 0:
            self._read(ids[1 : end + 1], self._hidden[:end])
            self._text = list(ids)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """`k` tokens, with the distribution [k, V] that each was drawn from; none before the target has read any."""
        end = len(ids) - 1
        if end < 1 or self._hidden.known < end or self._mute:
            return Proposal()
        same = list(ids[: len(self._text)]) == self._text
        start = min(self._head.rows, end - 1) if same else 0
        self._head.crop(start)
        self._state = self._read(ids[start + 1 :], self._hidden[start:end])[-1:]
        proposal = self._context.draft_one_by_one(ids, k, self._logits, tokens=self._scored)
        self._head.crop(end)
        self._text = list(ids)
        return proposal

    def release(self) -> None:
        """Free the head's keys and values and the target's hidden states."""
        self._head.release()
        self._hidden.release()
        self._state, self._text = self._state[:0], []

    def _read(self, tokens: Sequence[int], hidden: Tensor) -> Tensor:
        """What the head makes, [n, H], of the next `tokens` and of the hidden states [n, H] before them."""
        embeds = self._embed(torch.tensor(tokens, device=hidden.device))
        return self._head.read(embeds, hidden)

    def _logits(self, draft: list[int]) -> Tensor:
        """[1, D], float32, on the host, after `draft`, whose tokens but for the last were read before."""
        if draft:
            self._state = self._read(draft[-1:], self._state)
        return F.linear(self._state, self._weight).float().cpu()


def _check(target: "Loaded", assistant: "Loaded | None") -> None:
    if assistant is None or not isinstance(assistant.model, EagleHead):
        given = "none was chosen" if assistant is None else f"{assistant.name} is none"
        raise InvalidRequest(
            f"The strategy eagle needs an assistant that is a drafting head, and {given}: choose smollm2-eagle, "
            "with the target smollm2-135m-instruct that it was trained on."
        )
    kind, width, needed = (
        target.model.config.model_type,
        target.model.config.get_text_config().hidden_size,
        assistant.model.config.hidden_size,
    )
    if kind != "llama" or width != needed:
        raise InvalidRequest(
            f"{assistant.name} is a drafting head for a Llama of hidden size {needed}, and {target.name} is a {kind} "
            f"of {width}: choose the target that it was trained for (smollm2-eagle: smollm2-135m-instruct)."
        )
    same_vocabulary(target, assistant)


STRATEGY = Strategy(
    name="eagle",
    title="EAGLE head",
    about="One layer trained on the target's hidden states guesses the next of them, and the target's own output layer "
    "reads a token off it; then it goes on from its own guess.",
    wins="Wins where a separate drafter sees too little: a hidden state says more than the text. A head is of use only "
    "to the target that it was trained on, and its later guesses are worse than its first.",
    build=EagleDrafter,
    needs_assistant=True,
    check=_check,
)
