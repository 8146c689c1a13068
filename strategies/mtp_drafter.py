"""A separate drafter that reads the target's own keys and values, as Gemma 4 brings one.

transformers' guide: assisted decoding with a `Gemma4AssistantForCausalLM`. All tokens of a draft are guessed from one
position, that of the last token of the text: each step takes the target's embedding of the last token and the last
hidden state, first the target's and then its own, and looks at what the target has kept of the text. So the drafter
has no prompt to read and no cache.
"""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from playground.engine import Proposal
from playground.models import READERS
from playground.trace import InvalidRequest
from strategies.assistant import same_vocabulary
from strategies.base import Choice, Context, Strategy

if TYPE_CHECKING:
    from playground.models import Loaded

TARGETS = ("Gemma4",)
WAY_OUT = (
    "choose a Gemma 4 with the drafter made for it, for example story-gemma with story-gemma-assistant, or "
    "another strategy"
)


class SinglePositionDrafter:
    """Drafts from the position of the last token, greedily or sampling.

    It sees the keys and values of all tokens before that one and of none after: after a rejection the target's cache
    still holds the rejected tokens.
    """

    def __init__(self, context: Context) -> None:
        assert context.assistant is not None, "checked before"
        self._target = context.target
        self._reader, self._model = context.assistant, context.assistant.model
        self._embed = context.target.model.get_input_embeddings()
        self._sources = _sources(_text_config(context.target.model))
        self._law, self._draw = context.law, context.draw
        self._sampled = context.request.setting("draw", "argmax") == "sample"
        self._states: dict[int, Tensor] = {}  # position -> last hidden state [H] of the target
        context.target.watch(self._see)

    def _see(self, start: int, hidden: Tensor) -> None:
        # The token before the pass is the one to draft from where a pass reads the text's last token again.
        before = {i: state for i, state in self._states.items() if i == start - 1}
        self._states = before | {start + i: row for i, row in enumerate(hidden)}

    def prepare(self, ids: Sequence[int]) -> None:
        """Nothing to read: the target has read it."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """`k` tokens, V the target's, with the distribution [k, V] that each was drawn from where they were sampled;
        none before the target has read any."""
        state = self._states.get(len(ids) - 2)
        if state is None:
            return Proposal()
        shared = self._shared(len(ids) - 1)
        position = torch.tensor([[len(ids) - 1]], device=self._model.device)
        hidden = state[None, None]
        text = list(ids)
        all_scores: list[Tensor] = []
        all_q: list[Tensor] = []
        for _ in range(k):
            begin = time.perf_counter()
            last = self._embed(torch.tensor([text[-1:]], device=hidden.device))
            out = self._model(
                inputs_embeds=torch.cat([last, hidden], dim=-1),
                position_ids=position,
                shared_kv_states=shared,
                use_cache=False,
            )
            hidden, logits = out.last_hidden_state, out.logits[0].float().cpu()
            self._reader.pass_seconds += time.perf_counter() - begin
            scores = self._law.scores(self._fit(logits), text)
            if self._sampled:
                q = self._law.probabilities(scores)
                text.append(self._draw(q[0], len(text)))
                all_q.append(q)
            else:
                text.append(int(scores[0].argmax()))
            all_scores.append(scores)
        return Proposal(tuple(text[len(ids) :]), torch.cat(all_q) if self._sampled else None, torch.cat(all_scores))

    def release(self) -> None:
        """Let go of the target's hidden states."""
        self._states = {}

    def _shared(self, length: int) -> dict[str, tuple[Tensor, Tensor]]:
        """The target's keys and values of the first `length` tokens, by kind of layer; in a sliding layer, of those
        that the target itself would see from the next token."""
        surplus = len(self._target.ids) - length
        shared = {}
        for kind, (layer, window) in self._sources.items():
            cached = self._target.cache.layers[layer]
            end = cached.keys.shape[-2] - surplus
            start = 0 if window is None else max(0, end - window + 1)
            shared[kind] = (cached.keys[:, :, start:end], cached.values[:, :, start:end])
        return shared

    def _fit(self, logits: Tensor) -> Tensor:
        # Padding rows of either vocabulary: what the target cannot read is never drafted.
        missing = self._target.vocab_size - logits.shape[-1]
        return torch.nn.functional.pad(logits, (0, missing), value=-torch.inf)


def _text_config(model: Any) -> Any:
    return model.config.get_text_config(decoder=True)


def _sources(config: Any) -> dict[str, tuple[int, int | None]]:
    """By kind of layer: the last one that makes keys and values of its own, and its window in tokens."""
    modes = config.kv_sharing_modes
    return {
        kind: (i, config.sliding_window if kind == "sliding_attention" else None)
        for i, kind in enumerate(config.layer_types)
        if modes[i] != "reuse"
    }


def _check(target: "Loaded", assistant: "Loaded | None") -> None:
    if assistant is None:
        raise InvalidRequest(f"The strategy mtp-drafter needs an assistant model: {WAY_OUT}.")
    theirs, ours = type(assistant.model).__name__, type(target.model).__name__
    if not theirs.startswith(READERS):
        raise InvalidRequest(
            f"{assistant.name} is a {theirs}, which does not read a target's keys and values; mtp-drafter needs a "
            f"Gemma4AssistantForCausalLM: {WAY_OUT}."
        )
    if not ours.startswith(TARGETS) or ours.startswith(READERS):
        raise InvalidRequest(
            f"{target.name} is a {ours}, and {assistant.name} reads the keys and values of a Gemma 4: {WAY_OUT}."
        )
    same_vocabulary(target, assistant)
    config, reader = _text_config(target.model), _text_config(assistant.model)
    size = assistant.model.config.backbone_hidden_size
    if size != config.hidden_size:
        raise InvalidRequest(
            f"{assistant.name} was made for a target of hidden size {size}, and {target.name} has "
            f"{config.hidden_size}: {WAY_OUT}."
        )
    made = _shapes(config, [i for i, _ in _sources(config).values()])
    for kind, shape in _shapes(reader, range(len(reader.layer_types))).items():
        if made.get(kind) != shape:
            raise InvalidRequest(
                f"{assistant.name} reads keys and values of {shape[0]} heads of width {shape[1]} from layers of "
                f"{kind}, and {target.name} has {made.get(kind, 'no such layers')}: {WAY_OUT}."
            )


def _shapes(config: Any, layers: Sequence[int]) -> dict[str, tuple[int, int]]:
    """By kind of layer: heads of keys and values, and their width."""
    shapes = {}
    for i in layers:
        one = config.per_layer_config[i]
        shapes[config.layer_types[i]] = (int(one.num_key_value_heads), int(one.head_dim))
    return shapes


STRATEGY = Strategy(
    name="mtp-drafter",
    title="Drafter of Gemma 4",
    about="A tiny model made for one target looks at the keys and values that the target has computed already, and "
    "guesses all K tokens from the position of the last one.",
    wins="Wins like an assistant, without a prompt to read or a cache of its own; only with the target that it was "
    "made for. When sampling, transformers takes its argmax for a random draw: on a tiny pair the pairs of words that "
    "it wrote were 0.15 to 0.17 from the target's law (total variation), here 0.02 to 0.04, as chance alone.",
    build=SinglePositionDrafter,
    needs_assistant=True,
    has_q=False,  # its likeliest token owes nothing to chance
    q_when=("draw", "sample"),
    settings=(
        Choice(
            name="draw",
            label="How it guesses",
            help="Its likeliest token, or one drawn at random from its distribution. Lossless both ways, since the "
            "check knows which it was.",
            default="argmax",
            options=(("argmax", "its likeliest token"), ("sample", "drawn at random")),
        ),
    ),
    check=_check,
)
