"""The catalogue of models: what is offered, where it comes from, what it needs, what goes with what."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from playground.trace import InvalidRequest

ASSETS = Path(__file__).resolve().parent.parent / "assets"
Progress = Callable[[str], None]
TINY = "float32"  # weights that fit the processor's cache gain nothing from a smaller format, and lose its conversions


@dataclass(frozen=True, slots=True)
class Entry:
    """A model of the catalogue. `role` is target, assistant or head; `folder` gives its files, making or fetching them
    if need be; `hub` is its Hub id; `assistants` names the one that suits it, by strategy; `parameters` says how large
    it is (None: bundled, a few megabytes); `layers` are a target's; `dtype` is the format
    that is faster for it, where that is not the machine's choice."""

    name: str
    title: str
    about: str
    role: str
    license: str
    folder: Callable[[Progress | None], Path]
    hub: str | None = None
    assistants: Mapping[str, str] = field(default_factory=dict)
    parameters: int | None = None
    layers: int | None = None
    dtype: str | None = None

    @property
    def used_as(self) -> str:
        """target or assistant: where the page offers it."""
        return "target" if self.role == "target" else "assistant"


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


def _from_hub(repo: str) -> Callable[[Progress | None], Path]:
    def folder(progress: Progress | None) -> Path:
        from playground.hub import hub_folder

        return hub_folder(repo, progress)

    return folder


def _public(
    repo: str,
    role: str,
    about: str,
    license_: str,
    billions: float,
    layers: int,
    assistants: Mapping[str, str] | None = None,
) -> Entry:
    return Entry(
        name=repo.rsplit("/", 1)[1].lower(),
        title=repo.rsplit("/", 1)[1],
        about=about,
        role=role,
        license=license_,
        folder=_from_hub(repo),
        hub=repo,
        assistants=assistants or {},
        parameters=round(billions * 1e9),
        layers=layers,
    )


_BUNDLED = (
    Entry(
        name="smollm2-135m-instruct",
        title="SmolLM2-135M-Instruct",
        about="A small chat model of 135 million parameters, 30 layers. Runs on any laptop.",
        role="target",
        license="Apache-2.0",
        folder=_smollm2,
        hub="HuggingFaceTB/SmolLM2-135M-Instruct",
        assistants={
            "assistant": "smollm2-drafter",
            "lookup+assistant": "smollm2-drafter",
            "eagle": "smollm2-eagle",
            "universal": "story-drafter",
        },
        layers=30,
    ),
    Entry(
        name="story-teller",
        title="Story teller",
        about="A tiny model of 16 thin layers that goes on with simple English stories. Its first layers can draft "
        "(early exit), and so can the prediction layer in its checkpoint (MTP).",
        role="target",
        license="Apache-2.0",
        folder=_bundled("story-teller"),
        assistants={
            "assistant": "story-drafter",
            "lookup+assistant": "story-drafter",
            "universal": "smollm2-drafter",
        },
        layers=16,
        dtype=TINY,
    ),
    Entry(
        name="story-gemma",
        title="Story teller (Gemma 4)",
        about="A tiny Gemma 4 of 12 thin layers that goes on with simple English stories.",
        role="target",
        license="Apache-2.0",
        folder=_bundled("story-gemma"),
        assistants={
            "mtp-drafter": "story-gemma-assistant",
            "assistant": "story-drafter",
            "lookup+assistant": "story-drafter",
            "universal": "smollm2-drafter",
        },
        layers=12,
        dtype=TINY,
    ),
    Entry(
        name="smollm2-drafter",
        title="SmolLM2 drafter",
        about="A tiny Llama with SmolLM2's tokenizer, distilled from SmolLM2-135M-Instruct to guess its words.",
        role="assistant",
        license="Apache-2.0",
        folder=_bundled("smollm2-drafter"),
    ),
    Entry(
        name="smollm2-eagle",
        title="SmolLM2 EAGLE head",
        about="One layer on SmolLM2-135M-Instruct's hidden states, trained to guess the next of them (EAGLE).",
        role="head",
        license="Apache-2.0",
        folder=_bundled("smollm2-eagle"),
    ),
    Entry(
        name="story-drafter",
        title="Story drafter",
        about="Two thin layers with the story teller's tokenizer, distilled from it. For SmolLM2 it is an assistant "
        "with another tokenizer (universal).",
        role="assistant",
        license="Apache-2.0",
        folder=_bundled("story-drafter"),
        dtype=TINY,
    ),
    Entry(
        name="story-gemma-assistant",
        title="Story teller's MTP drafter (Gemma 4)",
        about="Two layers that read the Gemma 4 story teller's hidden state, keys and values (MTP drafter).",
        role="assistant",
        license="Apache-2.0",
        folder=_bundled("story-gemma-assistant"),
        dtype=TINY,
    ),
)

# The pairs of the transformers guide on assisted decoding, and what else its strategies are shown with.
_GUIDE = (
    _public("HuggingFaceTB/SmolLM-1.7B", "target", "The guide's assisted decoding.", "Apache-2.0", 1.71, 24,
            {"assistant": "smollm-135m"}),
    _public("HuggingFaceTB/SmolLM-135M", "assistant", "The small sibling of SmolLM-1.7B.", "Apache-2.0", 0.135, 30),
    _public("facebook/layerskip-llama3.2-1B", "target", "Trained so that its first layers can draft (early exit).",
            "FAIR noncommercial", 1.24, 16),
    _public("zai-org/GLM-4.5-Air", "target", "A mixture of experts with a prediction layer in its checkpoint (MTP).",
            "MIT", 110.0, 46),
    _public("google/gemma-4-E4B-it", "target", "Gemma 4, for which an MTP drafter was made.", "Apache-2.0", 8.0, 42,
            {"mtp-drafter": "gemma-4-e4b-it-assistant"}),
    _public("google/gemma-4-E4B-it-assistant", "assistant", "The MTP drafter of gemma-4-E4B-it.", "Apache-2.0", 0.1, 4),
    _public("google/gemma-2-9b", "target", "The guide's universal assisted decoding.", "Gemma", 9.24, 42,
            {"universal": "vicuna-68m"}),
    _public("double7/vicuna-68m", "assistant", "A tiny model with another tokenizer than its target.", "Apache-2.0",
            0.068, 2),
)  # fmt: skip

CATALOGUE: dict[str, Entry] = {e.name: e for e in (*_BUNDLED, *_GUIDE)}
DEFAULT_TARGET = "smollm2-135m-instruct"
DEFAULT_ASSISTANT = "smollm2-drafter"


def usual_assistant(target: str, strategy: str) -> str:
    """The assistant of the catalogue that suits this target under this strategy; the default one where none is made
    for it."""
    entry = CATALOGUE.get(target)
    return DEFAULT_ASSISTANT if entry is None else entry.assistants.get(strategy, DEFAULT_ASSISTANT)
