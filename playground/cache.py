"""A model that follows a token prefix: crop the cache to the longest common prefix, feed the rest."""

import copy
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

# One model pass at a time: two busy thread pools on few cores make each other wait at every parallel region.
# Whoever steps a run holds it around the step; no clock of the engine runs while it waits.
PASS_LOCK = threading.Lock()
SPARE_ROWS = 512


class GrowingLayer(DynamicLayer):
    """A DynamicLayer that writes into a buffer with room to spare; the library's copies all keys and values at
    every step."""

    _key_buffer: Tensor
    _value_buffer: Tensor
    is_initialized: bool

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Append [1, heads, n, d] and return all keys and values so far."""
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        if not self.is_initialized or end > self._key_buffer.shape[-2]:
            self._grow(key_states, value_states, start, end)
        self._key_buffer[:, :, start:end] = key_states
        self._value_buffer[:, :, start:end] = value_states
        self.keys, self.values = self._key_buffer[:, :, :end], self._value_buffer[:, :, :end]
        return self.keys, self.values

    def _grow(self, key_states: Tensor, value_states: Tensor, start: int, end: int) -> None:
        room = max(256, 2 * end)
        old = (self.keys, self.values) if self.is_initialized else None
        self._key_buffer = key_states.new_empty((*key_states.shape[:2], room, key_states.shape[-1]))
        self._value_buffer = value_states.new_empty((*value_states.shape[:2], room, value_states.shape[-1]))
        if old is not None:
            self._key_buffer[:, :, :start], self._value_buffer[:, :, :start] = old
        self.device = key_states.device
        self.is_initialized = True


# (start, hidden): after a pass, `hidden` [n, H] are the last hidden states, after the final norm, of the tokens at
# positions start .. start + n - 1. What was told of later positions before is void. Where the last layers share keys
# and values (Gemma 4) these may be no more than the tokens whose logits were asked for.
Watcher = Callable[[int, Tensor], None]


class Wrapper(torch.nn.Module):
    """A module around another, whose attributes it shows as its own."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("inner"), name)


class Recorder(Wrapper):
    """A base model that keeps the last hidden states of its last pass."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.last_hidden: Tensor | None = None  # [1, n, H]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The inner model's output."""
        out = self.inner(*args, **kwargs)
        self.last_hidden = out.last_hidden_state
        return out


def with_parts(module: Any, **parts: Any) -> Any:
    """A shallow copy of `module` with some of its submodules replaced: the weights are shared and the module itself,
    which other runs use, is not changed."""
    view = copy.copy(module)
    view._modules = dict(module._modules) | parts
    return view


class UncroppableCache(ValueError):
    """The model's state cannot go back over rejected tokens."""


class PrefixModel:
    """A transformers causal model and its cache, for one run. Batch size 1.

    Raises:
        UncroppableCache: the model keeps a recurrent state that cannot be taken back.
    """

    def __init__(self, model: Any, name: str = "the model", draft_vocabulary: tuple[int, ...] | None = None) -> None:
        self.model = model
        self.name = name
        self.draft_vocabulary = draft_vocabulary
        self.pass_seconds = 0.0  # in model passes so far, from inputs to logits on the host
        self._watcher: Watcher | None = None
        self.scored: Tensor | None = None  # the tokens, ascending, that limit_to has left; None: all
        self._scored: set[int] = set()
        self._order = self._rows = torch.zeros(0, dtype=torch.long)
        self._few_weights = model.get_output_embeddings().weight[:0]
        config = model.config.get_text_config(decoder=True)
        self.vocab_size: int = int(model.get_output_embeddings().weight.shape[0])
        self.context = context_of(model)
        self._config = config
        self._reset()

    def _reset(self) -> None:
        self.ids: list[int] = []
        self._cache = DynamicCache(config=self._config)
        stuck = [type(layer).__name__ for layer in self._cache.layers if not getattr(layer, "is_croppable", False)]
        if stuck:
            raise UncroppableCache(
                f"{self.name} keeps a {stuck[0]}, which cannot go back over rejected tokens: "
                "choose a model with attention layers only."
            )
        self._cache.layers = [GrowingLayer() if type(x) is DynamicLayer else x for x in self._cache.layers]
        self._sliding = any(isinstance(x, DynamicSlidingWindowLayer) for x in self._cache.layers)
        self._cache.activate_past_recording()
        self._floor = 0  # below this many tokens a sliding window has forgotten too much to go back

    def logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """Logits [keep, V], float32, on the host, at the last `keep` positions of `ids`. Reads only what the
        cache does not hold; takes back what it holds and `ids` does not."""
        few = self.scored_logits(ids, keep)
        return few if self.scored is None else widened(few, self.scored, self.vocab_size, -torch.inf)

    def scored_logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """The columns [keep, n] of `logits` that `scored` names: all where it is None."""
        same = min(common(self.ids, ids), len(ids) - keep)
        self._crop(same)
        same = len(self.ids)
        on_host = self._read(ids, same, keep)
        self.ids = list(ids)
        return on_host

    def watch(self, watcher: Watcher) -> None:
        """Call `watcher` after each pass, with the hidden states of the tokens that it read."""
        prefix = self.model.base_model_prefix
        self._recorder = Recorder(getattr(self.model, prefix))
        self.model = with_parts(self.model, **{prefix: self._recorder})
        self._watcher = watcher

    @property
    def cache(self) -> DynamicCache:
        """Keys and values of `ids`, for drafters that read the target's; never to be changed by them."""
        return self._cache

    def _read(self, ids: Sequence[int], same: int, keep: int) -> Tensor:
        """Logits [keep, n] of a pass over `ids` from `same` on."""
        begin = time.perf_counter()
        fed = torch.tensor([list(ids[same:])], device=self.model.device)
        on_host = self._forward(fed, keep, self._cache).float().cpu()
        self.pass_seconds += time.perf_counter() - begin
        if self._watcher is not None and self._recorder.last_hidden is not None:
            hidden = self._recorder.last_hidden[0]
            self._watcher(len(ids) - len(hidden), hidden)
            self._recorder.last_hidden = None
        return on_host

    def _forward(self, fed: Tensor, keep: int, cache: DynamicCache) -> Tensor:
        """Logits [keep, V], or of `scored` only, of a pass over the ids `fed` [1, n]."""
        if self._scored:
            return self._few_logits(fed, keep, cache)
        return self.model(input_ids=fed, cache=cache, use_cache=True, logits_to_keep=keep).logits[0, -keep:]

    def limit_to(self, ids: Iterable[int]) -> None:
        """From now on score only these tokens, and those of earlier calls; all others get minus infinity.

        The output layer of a small model is most of its weights, and its rows are read at every pass. For models
        whose logits are output layer times last hidden state, without scaling or capping.
        """
        new = [i for i in dict.fromkeys(ids) if i not in self._scored]
        if not new:
            return
        weight = self.model.get_output_embeddings().weight
        start, end = len(self._scored), len(self._scored) + len(new)
        if end > len(self._rows):
            room = end + SPARE_ROWS
            rows, few = self._rows, self._few_weights
            self._rows, self._few_weights = rows.new_zeros(room), weight.new_zeros((room, weight.shape[1]))
            self._rows[:start], self._few_weights[:start] = rows[:start], few[:start]
        self._rows[start:end] = torch.tensor(new)
        self._few_weights[start:end] = weight[self._rows[start:end]]
        self._scored.update(new)
        order = self._rows[:end].argsort(stable=True)  # nearly sorted already: half the time of the other sort
        self.scored, self._order = self._rows[:end][order], order.to(weight.device)

    def _few_logits(self, fed: Tensor, keep: int, cache: DynamicCache) -> Tensor:
        out = self.model.base_model(input_ids=fed, cache=cache, use_cache=True)
        few = torch.nn.functional.linear(out.last_hidden_state[0, -keep:], self._few_weights[: len(self._scored)])
        return few.index_select(1, self._order)

    def _crop(self, length: int) -> None:
        extra = len(self.ids) - length
        if extra <= 0:
            return
        if (self._sliding and length < self._floor) or length == 0:
            self._reset()
            return
        self._cache.crop(-extra)
        del self.ids[length:]
        self._floor = length

    def release(self) -> None:
        """Forget the prefix and free the cache."""
        self._reset()


class HiddenRows:
    """The last hidden states of a target's tokens, for a drafter that reads them: row i is that of position i."""

    def __init__(self, target: PrefixModel) -> None:
        self.known = 0  # how many rows there are
        self._buffer: Tensor | None = None  # [room, H]
        target.watch(self._see)

    def _see(self, start: int, hidden: Tensor) -> None:
        end = start + len(hidden)
        if self._buffer is None or end > len(self._buffer):
            old = hidden[:0] if self._buffer is None else self._buffer[:start]
            self._buffer = hidden.new_empty((max(256, 2 * end), hidden.shape[-1]))
            self._buffer[: len(old)] = old
        self._buffer[start:end] = hidden
        self.known = end

    def __getitem__(self, rows: slice) -> Tensor:
        """Those of the positions `rows`, [n, H]."""
        assert self._buffer is not None, "the target has read something"
        return self._buffer[rows]

    def release(self) -> None:
        """Free them."""
        self.known, self._buffer = 0, None


def context_of(model: Any) -> int | None:
    """The most tokens that a model can read; None: its configuration names no limit."""
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    return limit if isinstance(limit, int) and limit > 0 else None


def widened(few: Tensor, tokens: Tensor, width: int, fill: float) -> Tensor:
    """[n, width], on the host: the columns of `few` at the ids `tokens`, `fill` elsewhere."""
    return few.new_full((len(few), width), fill).scatter_(1, tokens.expand(len(few), -1), few)


def common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids `a` and `b` begin with alike."""
    n = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        n += 1
    return n
