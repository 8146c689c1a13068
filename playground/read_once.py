"""Many runs of one prompt that read it once: each begins with a copy of the keys and values of the prompt, and shares
nothing else with the others.

What the first run asks its models before it has drafted anything is written down, keys and values included, and the
others are told the same. Models that do more than that (their hidden states are watched, their layers run apart, their
window slides) read the prompt again in each run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import torch
from torch import Tensor

from playground.cache import GrowingLayer, PrefixModel
from playground.models import Loaded

# The ids that were read, how many positions were asked for, and the tokens that were scored (None: all).
Question = tuple[tuple[int, ...], int, bytes | None]


class Book:
    """What the first run's model was asked about the prompt, and its keys and values after that."""

    def __init__(self) -> None:
        self.writing = True
        self.refused = False
        self.answers: dict[Question, Tensor] = {}
        self.ids: tuple[int, ...] = ()
        self.layers: list[tuple[Tensor, Tensor]] = []
        self.model: Resumed | None = None

    def refuse(self) -> None:
        """Every run is to read the prompt itself."""
        self.refused, self.writing = True, False
        self.answers, self.ids, self.layers, self.model = {}, (), [], None

    def close(self) -> None:
        """The prompt has been read: keep what the model holds now."""
        if not self.writing:
            return
        model, self.model, self.writing = self.model, None, False
        if model is None or not model.ids:
            return
        if not all(type(layer) is GrowingLayer and layer.is_initialized for layer in model.cache.layers):
            self.refuse()
            return
        self.ids = tuple(model.ids)
        # clones: the run goes on to write into its own
        self.layers = [(layer.keys.clone(), layer.values.clone()) for layer in model.cache.layers]


class Resumed(PrefixModel):
    """A model of one run that has read the prompt as far as the book says."""

    def __init__(self, model: PrefixModel, book: Book) -> None:
        super().__init__(model.model, model.name, model.draft_vocabulary)
        self._book = book
        if book.writing:
            book.model = self
        elif book.ids:
            with torch.inference_mode():
                for layer, (keys, values) in zip(self._cache.layers, book.layers, strict=True):
                    layer.update(keys, values)
            self.ids = list(book.ids)

    def scored_logits(self, ids: Sequence[int], keep: int) -> Tensor:
        """As PrefixModel; a question that the book answers needs no pass."""
        book = self._book
        if book.refused or not (book.writing or len(ids) <= len(book.ids)):
            return super().scored_logits(ids, keep)
        scored = None if self.scored is None else self.scored.numpy().tobytes()
        question = (tuple(ids), keep, scored)
        if question in book.answers:
            return book.answers[question].clone()
        answer = super().scored_logits(ids, keep)
        if book.writing:
            book.answers[question] = answer.clone()
        return answer

    def watch(self, watcher: object) -> None:
        """As PrefixModel; whoever watches is to see the prompt too."""
        self._book.refuse()
        self._reset()
        super().watch(watcher)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ReadOnce(Loaded):
    """A loaded model whose runs read the prompt once. One at a time, all of the same prompt and settings."""

    book: Book = field(default_factory=Book)

    def follow(self) -> PrefixModel:
        """A fresh cache for one run, the prompt in it where that can be."""
        model = Loaded.follow(self)
        return model if self.book.refused or type(model) is not PrefixModel else Resumed(model, self.book)


def read_once(loaded: Loaded) -> ReadOnce:
    """`loaded` with an empty book."""
    return ReadOnce(**{f.name: getattr(loaded, f.name) for f in fields(Loaded)})
