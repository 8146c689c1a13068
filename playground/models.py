"""Loading the models of the catalogue and of folders.

Loaded models are shared between users and never changed; caches belong to a run (playground.cache).
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from playground import memory
from playground.cache import PrefixModel, context_of
from playground.catalogue import ASSETS, CATALOGUE, DEFAULT_ASSISTANT, DEFAULT_TARGET, Entry, Progress
from playground.eagle_head import EagleHead, HeadModel, is_head, load_head
from playground.fused import fused
from playground.trace import InvalidRequest

__all__ = [
    "ASSETS",
    "CATALOGUE",
    "DEFAULT_ASSISTANT",
    "DEFAULT_TARGET",
    "Library",
    "Loaded",
    "Progress",
    "find",
    "layer_count",
    "load",
    "wrap",
]

READERS = ("Gemma4Assistant", "Gemma4UnifiedAssistant")  # classes of drafters that read a target's keys and values
DRAFT_VOCABULARY = "draft_vocabulary.json"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A model in memory with its tokenizer. `stop_ids` end its text; `chat` says that it has a template.
    `draft_vocabulary` holds the ids that its drafts may be limited to; None: it came with no such list."""

    name: str
    model: Any
    tokenizer: Any
    dtype: str
    stop_ids: tuple[int, ...]
    chat: bool
    parameters: int
    draft_vocabulary: tuple[int, ...] | None = None

    @property
    def context(self) -> int | None:
        """The most tokens that it can read; None: no limit is known."""
        return context_of(self.model)

    @property
    def writes_alone(self) -> bool:
        """Whether it goes on with a text by itself; a head, or a drafter that reads a target's keys and values, does
        not."""
        return not (isinstance(self.model, EagleHead) or type(self.model).__name__.startswith(READERS))

    def check_writes(self) -> None:
        """Refuse a model that cannot write by itself.

        Raises:
            InvalidRequest: it is such a model.
        """
        if not self.writes_alone:
            needs = "eagle" if isinstance(self.model, EagleHead) else "mtp-drafter"
            raise InvalidRequest(
                f"{self.name} ({type(self.model).__name__}) reads what a target has computed and cannot write by "
                f"itself: choose the strategy {needs} for it, or another model."
            )

    def follow(self) -> PrefixModel:
        """A fresh cache over the shared weights, for one run."""
        if isinstance(self.model, EagleHead):
            return HeadModel(self.model, self.name, self.draft_vocabulary)
        return PrefixModel(fused(self.model), self.name, self.draft_vocabulary)

    def prompt_ids(self, prompt: str, chat: bool) -> tuple[int, ...]:
        """The prompt as the model reads it: in its chat template where it has one and `chat` is on,
        otherwise as plain text with the special tokens that the tokenizer adds."""
        if chat and self.chat:
            out = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
            return tuple(self.tokenizer(out, add_special_tokens=False)["input_ids"])
        return tuple(self.tokenizer(prompt)["input_ids"])


@dataclass(slots=True)
class Library:
    """Models in memory, each loaded once and shared. Safe to call from several threads."""

    dtype: str | None = None
    _loaded: dict[str, Loaded] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def load(self, name: str, progress: Progress | None = None) -> Loaded:
        """The model of that catalogue name, or in that local folder.

        Raises:
            InvalidRequest: no such name or folder, or no model in it.
        """
        folder = find(name)
        with self._lock:
            if name not in self._loaded:
                if progress is not None:
                    progress(f"Loading {name}")
                self._loaded[name] = load(name, folder(progress), self.dtype or _own_dtype(name))
            return self._loaded[name]

    def dtype_of(self, name: str) -> str | None:
        """The number format that a model is loaded in; None: it is still to be measured."""
        from playground.machine import known_dtype

        return self.dtype or _own_dtype(name) or known_dtype()


def find(name: str, role: str | None = None) -> Callable[[Progress | None], Path]:
    """Where the files of a catalogue name or local folder come from, without loading anything. `role` is what the
    model is wanted for, target or assistant: where there is no such model, those for it are offered.

    Raises:
        InvalidRequest: there is no such model, or this machine cannot hold it.
    """
    if name in CATALOGUE:
        _check_fits(CATALOGUE[name])
        return CATALOGUE[name].folder
    path = Path(name).expanduser()
    if (path / "config.json").is_file():
        return lambda progress: path
    offered = ", ".join(entry.name for entry in CATALOGUE.values() if role in (None, entry.used_as))
    raise InvalidRequest(f"There is no model {name!r}: choose one of {offered}, or a folder with a config.json.")


def _own_dtype(name: str) -> str | None:
    return CATALOGUE[name].dtype if name in CATALOGUE else None


def layer_count(name: str) -> int | None:
    """How many layers a catalogue name or local folder has, without loading anything; None: it does not say."""
    if name in CATALOGUE:
        return CATALOGUE[name].layers
    try:
        config = json.loads((Path(name).expanduser() / "config.json").read_text(encoding="utf-8"))
        count = config.get("text_config", config).get("num_hidden_layers")
    except (OSError, ValueError, AttributeError):
        return None
    return count if isinstance(count, int) and count > 0 else None


def _check_fits(entry: Entry) -> None:
    have = memory.available()
    if entry.parameters is None or have is None or memory.needed(entry.parameters) <= have:
        return
    bundled = ", ".join(e.name for e in CATALOGUE.values() if e.used_as == entry.used_as and e.parameters is None)
    raise InvalidRequest(
        f"{entry.name} needs {memory.gigabytes(memory.needed(entry.parameters))} of memory and "
        f"{memory.gigabytes(have)} are free here, so it is not fetched: choose a smaller model ({bundled}), or run the "
        "playground on a larger machine."
    )


def load(name: str, folder: Path, dtype: str | None = None) -> Loaded:
    """Load a folder of safetensors. `dtype` is a torch dtype's name; None: as measured best here.

    Raises:
        InvalidRequest: the folder holds no causal language model that transformers can load.
    """
    from playground.machine import chosen_dtype

    chosen = dtype or chosen_dtype()
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        if is_head(folder):
            head = load_head(name, folder, getattr(torch, chosen))
            return wrap(name, head, tokenizer, _draft_vocabulary(name, folder))
        model = AutoModelForCausalLM.from_pretrained(
            folder, dtype=getattr(torch, chosen), local_files_only=True, use_safetensors=True
        ).eval()
    except (OSError, ValueError, KeyError) as error:
        raise InvalidRequest(f"{name} could not be loaded as a causal language model: {error}") from error
    return wrap(name, model, tokenizer, _draft_vocabulary(name, folder))


def _draft_vocabulary(name: str, folder: Path) -> tuple[int, ...] | None:
    path = folder / DRAFT_VOCABULARY
    if not path.is_file():
        return None
    ids = json.loads(path.read_text())
    if not (isinstance(ids, list) and ids and all(isinstance(i, int) and i >= 0 for i in ids)):
        raise InvalidRequest(f"{name} has a {DRAFT_VOCABULARY} that is no list of token ids: remove it.")
    return tuple(ids)


def wrap(name: str, model: Any, tokenizer: Any, draft_vocabulary: tuple[int, ...] | None = None) -> Loaded:
    """A model that is in memory already, for the playground."""
    eos = model.generation_config.eos_token_id if model.generation_config is not None else None
    stop_ids = () if eos is None else (eos,) if isinstance(eos, int) else tuple(eos)
    return Loaded(
        name=name,
        model=model,
        tokenizer=tokenizer,
        dtype=str(model.dtype).removeprefix("torch."),
        stop_ids=stop_ids,
        chat=bool(getattr(tokenizer, "chat_template", None)),
        parameters=sum(p.numel() for p in model.parameters()),
        draft_vocabulary=draft_vocabulary,
    )
