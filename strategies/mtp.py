"""The target's own prediction layers draft: each reads the layer before it and guesses one token further.

transformers' guide: multi-token prediction, `use_mtp`. DeepSeek-V3 (arXiv 2412.19437), section 2.2; Gloeckle et al.
2024 (arXiv 2404.19737). Past the last layer it is applied again to its own output, as serving engines do with
checkpoints of one layer.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer, MtpCache

from playground.cache import GrowingLayer, HiddenRows, common
from playground.engine import Proposal
from playground.fused import fused
from playground.mtp_layers import prediction_layers
from strategies.base import Context, Strategy

if TYPE_CHECKING:
    from playground.models import Loaded


class MtpDrafter:
    """Drafts with the target's L prediction layers; they keep keys and values of their own.

    Row i of layer j is made of the target's hidden state at position i and of the tokens at i + 1 .. i + 1 + j. It
    holds as long as these tokens do, and gives the token at i + 2 + j. What the last layer makes from its own output
    is never kept beyond the round.
    """

    def __init__(self, context: Context) -> None:
        self._target = context.target  # whose layers these are, and whose clock of passes
        self._layers = prediction_layers(context.target.model, context.target.name)
        self._law, self._draw = context.law, context.draw
        self._depth = min(context.request.k, self._layers.num_mtp_layers)
        self._reset()
        self._hidden = HiddenRows(context.target)

    def _reset(self) -> None:
        self._cache = MtpCache(config=self._layers.config)
        self._cache.layers = [GrowingLayer() if type(x) is DynamicLayer else x for x in self._cache.layers]
        self._cache.activate_past_recording()
        self._text: list[int] = []  # what the rows were made of, drafts included
        self._rows = [0] * self._layers.num_mtp_layers
        self._floor = 0  # a sliding window may have forgotten what lies before

    def prepare(self, ids: Sequence[int]) -> None:
        """Read the prompt, but for the rows that the first draft's tokens are needed for."""
        end = min(self._hidden.known, len(ids) - 1) - self._depth
        if end > 0:
            hidden = self._hidden[:end]
            for layer in range(self._depth):
                hidden = self._read(layer, ids[1 + layer : end + 1 + layer], 1 + layer, hidden)
                self._rows[layer] = end
            self._text = list(ids)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """`k` tokens, with the distribution [k, V] that each was drawn from; none before the target has read any."""
        end = min(self._hidden.known, len(ids) - 1)
        if end < 1:
            return Proposal()
        depth = min(k, len(self._rows))
        start = self._take_back(ids, depth, end - 1)
        text = list(ids)
        all_scores: list[Tensor] = []
        all_q: list[Tensor] = []
        hidden = self._hidden[start:end]
        for j in range(k):
            layer = min(j, len(self._rows) - 1)
            if j < depth:
                hidden = self._read(layer, text[start + 1 + j :], start + 1 + j, hidden)
                self._rows[layer] = end
            else:
                hidden = self._read(layer, text[-1:], len(text) - 1, hidden[-1:])
            scores = self._law.scores(self._logits(hidden[-1:]), text)
            q = self._law.probabilities(scores)
            text.append(self._draw(q[0], len(text)))
            all_scores.append(scores)
            all_q.append(q)
        self._text = text
        return Proposal(tuple(text[len(ids) :]), torch.cat(all_q), torch.cat(all_scores))

    def release(self) -> None:
        """Free the layers' cache and the target's hidden states."""
        self._reset()
        self._hidden.release()

    def _take_back(self, ids: Sequence[int], depth: int, most: int) -> int:
        """Crop the first `depth` layers to the rows, `most` at most, that hold for `ids` in all of them; how many
        these are."""
        same = common(self._text, ids)
        self._rows = [max(0, min(rows, same - 1 - j)) for j, rows in enumerate(self._rows)]
        start = min(most, *self._rows[:depth])
        if start < self._floor:
            self._reset()
            return 0
        for cached in self._cache.layers[:depth]:
            if cached.is_initialized:
                cached.crop(start - cached.get_seq_length())
        self._floor = start
        return start

    def _read(self, layer: int, tokens: Sequence[int], position: int, hidden: Tensor) -> Tensor:
        """What `layer` makes, [n, H], of the `tokens` [n] from `position` on and of `hidden` [n, H]."""
        begin = time.perf_counter()
        ids = torch.tensor([list(tokens)], device=hidden.device)
        positions = torch.arange(position, position + ids.shape[1], device=hidden.device)[None]
        out: Tensor = self._layers.forward_layer(layer, hidden[None], positions, self._cache, input_ids=ids)
        self._target.pass_seconds += time.perf_counter() - begin
        return out[0]

    def _logits(self, hidden: Tensor) -> Tensor:
        begin = time.perf_counter()
        on_host: Tensor = self._layers._project_to_logits(hidden).float().cpu()
        self._target.pass_seconds += time.perf_counter() - begin
        return on_host


def _check(target: "Loaded", assistant: "Loaded | None") -> None:
    prediction_layers(fused(target.model), target.name)


STRATEGY = Strategy(
    name="mtp",
    title="Multi-token prediction",
    about="Layers that were trained with the target, and come in its own checkpoint, guess the tokens after the next: "
    "they start from the target's last hidden state. Beyond the last layer it guesses on from its own output.",
    wins="Wins with checkpoints that were trained this way: a layer costs little and has seen what the target saw. "
    "Guesses beyond the number of layers get worse quickly.",
    build=MtpDrafter,
    check=_check,
)
