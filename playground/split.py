"""A target in two parts: its first layers run ahead, and the others go on from where those stopped.

Both parts are the model's own forward with layers left out, so that embeddings, positions, final norm, head and
scales stay its own. Knows no drafter.
"""

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DummyLayer, DynamicLayer, DynamicSlidingWindowLayer

from playground.cache import PrefixModel, Wrapper, common, with_parts
from playground.trace import InvalidRequest


@dataclass(slots=True)
class Span:
    """The layers that a pass runs, `first` to `end` - 1, with the hidden states [1, n, H] that enter and leave them."""

    first: int
    end: int
    entering: Tensor | None = None  # None: what the model itself brings, its embeddings
    leaving: Tensor | None = None
    in_tuple: bool = False  # whether this model's layers return a tuple


class Gate(Wrapper):
    """A layer that runs only within the span; elsewhere it lets the hidden states through."""

    def __init__(self, layer: Any, index: int, span: Span) -> None:
        super().__init__(layer)
        self.index, self.span = index, span

    def forward(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        """The layer's output, or its input in the form of an output."""
        span = self.span
        if not span.first <= self.index < span.end:
            return (hidden_states,) if span.in_tuple else hidden_states
        if self.index == span.first and span.entering is not None:
            hidden_states, span.entering = span.entering, None
        out = self.inner(hidden_states, *args, **kwargs)
        span.in_tuple = isinstance(out, tuple)
        if self.index == span.end - 1:
            span.leaving = out[0] if span.in_tuple else out
        return out


class SplitModel(PrefixModel):
    """A model whose layers up to `exit_layer` can read ahead of the others, in one cache.

    What they read ahead keeps its keys and values and its hidden states behind `exit_layer`; `logits` sends it
    through the other layers only. `ids` are the tokens that all layers have read.
    """

    def __init__(self, model: Any, exit_layer: int, name: str = "the model") -> None:
        assert 1 <= exit_layer <= last_exit(model, name), "checked before"
        path = layers_path(model, name)
        layers = model.get_submodule(path)
        self.exit_layer = exit_layer
        self._count = len(layers)
        self._span = Span(0, self._count)
        gates = torch.nn.ModuleList(Gate(layer, i, self._span) for i, layer in enumerate(layers))
        super().__init__(_replaced(model, path.split("."), gates), name)

    def _reset(self) -> None:
        super()._reset()
        self._ahead: list[int] = []  # follow `ids`: read by the first layers only
        self._waiting: Tensor | None = None  # their hidden states [1, len(ahead), H]
        first, rest = self._cache.layers[: self.exit_layer], self._cache.layers[self.exit_layer :]
        # Lengths, positions and masks are taken from the first layer of a kind, which must not be one that is ahead.
        self._behind = copy.copy(self._cache)
        self._behind.layers = [next((x for x in rest if type(x) is type(y)), rest[0]) for y in first] + rest

    def logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """Logits [keep, V], float32, on the host, at the last `keep` positions of `ids`. What was read ahead of them
        enters behind `exit_layer`."""
        same = min(common(self.ids, ids), len(ids) - keep)
        if same == len(self.ids):
            same += common(self._ahead, ids[same:])
        self._take_back(same)
        return super().logits(ids, keep)

    def early_logits(self, ids: Sequence[int]) -> Tensor:
        """Logits [1, V], float32, on the host, after `ids`, of the first layers with the final norm and the head.
        Reads with these layers only what they have not read."""
        self._take_back(min(common([*self.ids, *self._ahead], ids), len(ids) - 1))
        begin = time.perf_counter()
        new = list(ids[len(self.ids) + len(self._ahead) :])
        fed = torch.tensor([new], device=self.model.device)
        self._span.first, self._span.end = 0, self.exit_layer
        on_host = super()._forward(fed, 1, self._cache).float().cpu()
        self._keep_waiting(new)
        self.pass_seconds += time.perf_counter() - begin
        return on_host

    def _forward(self, fed: Tensor, keep: int, cache: DynamicCache) -> Tensor:
        span, known = self._span, len(self._ahead)
        if not known:
            span.first, span.end = 0, self._count
            return super()._forward(fed, keep, cache)
        if known < fed.shape[1]:
            span.first, span.end = 0, self.exit_layer
            self.model.base_model(input_ids=fed[:, known:], cache=cache, use_cache=True)
            self._keep_waiting(fed[0, known:].tolist())
        span.first, span.end, span.entering = self.exit_layer, self._count, self._waiting
        self._ahead, self._waiting = [], None
        return super()._forward(fed, keep, self._behind)

    def _keep_waiting(self, new: list[int]) -> None:
        left, self._span.leaving = self._span.leaving, None
        assert left is not None
        self._ahead += new
        self._waiting = left if self._waiting is None else torch.cat([self._waiting, left], dim=-2)

    def _take_back(self, length: int) -> None:
        """Forget all after `length` tokens, in either part."""
        whole = len(self.ids)
        ahead = whole + len(self._ahead)
        if length >= ahead:
            return
        if (self._sliding and length < self._floor) or length == 0:
            self._reset()
            return
        for i, layer in enumerate(self._cache.layers):
            extra = (ahead if i < self.exit_layer else whole) - length
            if extra > 0:
                layer.crop(-extra)
        del self.ids[length:]
        del self._ahead[max(0, length - whole) :]
        self._waiting = self._waiting[..., : len(self._ahead), :] if self._ahead and self._waiting is not None else None
        self._floor = length


def layers_path(model: Any, name: str) -> str:
    """Where in `model` the list of its decoder's layers is.

    Raises:
        InvalidRequest: it is no decoder with all layers in one list.
    """
    decoder = model.get_decoder()
    place = next((path for path, module in model.named_modules() if module is decoder), None)
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    lists = [n for n, m in decoder.named_children() if isinstance(m, torch.nn.ModuleList) and len(m) == count]
    if model.config.is_encoder_decoder or place is None or len(lists) != 1:
        raise InvalidRequest(
            f"{name} ({type(model).__name__}) cannot be split: it is no decoder with all its layers in one list. "
            "Choose a decoder-only model, or another strategy."
        )
    return f"{place}.{lists[0]}".removeprefix(".")


def last_exit(model: Any, name: str) -> int:
    """The last layer, counted from 1, behind which `model` can be split: the one before its last, or the one before
    the first whose keys and values later layers use too.

    Raises:
        InvalidRequest: it cannot be split anywhere.
    """
    layers_path(model, name)
    config = model.config.get_text_config(decoder=True)
    shared = getattr(config, "kv_sharing_modes", None) or [None] * config.num_hidden_layers
    for layer, mode in zip(DynamicCache(config=config).layers, shared, strict=True):
        if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) and not (
            isinstance(layer, DummyLayer) and mode == "reuse"
        ):
            raise InvalidRequest(
                f"{name} cannot be split: it keeps a {type(layer).__name__}. Choose a model with attention layers "
                "only, or another strategy."
            )
    lent = [i for i, mode in enumerate(shared) if mode == "store"] if "reuse" in shared else []
    last: int = min([config.num_hidden_layers - 1, *lent])
    if last < 1:
        raise InvalidRequest(
            f"{name} cannot be split: it has one layer only, or all later layers use the keys and values of its "
            "first. Choose a deeper model, or another strategy."
        )
    return last


def _replaced(module: Any, path: Sequence[str], part: Any) -> Any:
    """A view of `module` with `part` at `path`."""
    head, *rest = path
    return with_parts(module, **{head: _replaced(getattr(module, head), rest, part) if rest else part})
