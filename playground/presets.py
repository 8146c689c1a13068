"""Presets: a target, an assistant, a strategy and a prompt that suit each other, a click or a flag away."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from playground.catalogue import CATALOGUE, DEFAULT_ASSISTANT, DEFAULT_TARGET
from playground.memory import gigabytes, needed
from playground.models import Library
from playground.run import Prepared, prepare
from playground.trace import InvalidRequest, Setting

BENCH, OPENINGS = "bench.jsonl", "openings.jsonl"


@dataclass(frozen=True, slots=True)
class Preset:
    """What a click sets. `when` says in a sentence when it wins and when it loses. `prompts` and `kinds` name the
    bundled prompts that it is measured on."""

    name: str
    title: str
    when: str
    prompt: str
    strategy: str
    target: str = DEFAULT_TARGET
    assistant: str | None = None
    k: int = 4
    settings: Mapping[str, Setting] = field(default_factory=dict)
    verifier: str = "exact"
    verifier_settings: Mapping[str, Setting] = field(default_factory=dict)
    temperature: float = 0.0
    max_new_tokens: int = 128
    prompts: str = BENCH
    kinds: tuple[str, ...] = ()

    @property
    def bundled(self) -> bool:
        """Whether its models are here without asking the Hub."""
        return not any(self._sizes)

    @property
    def memory(self) -> str | None:
        """What its models need; None: bundled, next to nothing."""
        return None if self.bundled else gigabytes(needed(sum(self._sizes)))

    @property
    def _sizes(self) -> list[int]:
        names = [self.target, *([self.assistant] if self.assistant else [])]
        return [CATALOGUE[name].parameters or 0 for name in names if name in CATALOGUE]


_STORY = "Write a short story about a robot who learns to paint."
_OPENING = "Once upon a time, in a small village, there lived a young girl named Lily who loved"
_COPY = (
    "Copy the following text word for word:\n\nAnna opened the small bakery on Mill Street in the spring of 1998. "
    "Every morning at five o'clock Anna lit the old brick oven, kneaded the dough by hand, and set the first loaves on "
    "the wooden shelves. The children of the village knew that Anna kept the broken cookies in a blue tin behind the "
    "counter, and that they were free for anyone who asked politely."
)


_BUNDLED = (
    Preset(
        name="assistant",
        title="Assistant model",
        when="Wins while the small model often guesses right; loses where the text surprises it, or where it is not "
        "much cheaper than the target.",
        prompt=_STORY,
        strategy="assistant",
        assistant=DEFAULT_ASSISTANT,
        k=3,
    ),
    Preset(
        name="sampling",
        title="Assistant, sampling",
        when="Drawing at random, a guess is kept with chance min(1, p/q): fewer than at temperature 0, and the output "
        "still has the target's distribution.",
        prompt=_STORY,
        strategy="assistant",
        assistant=DEFAULT_ASSISTANT,
        k=3,
        temperature=0.8,
    ),
    Preset(
        name="prompt-lookup",
        title="Prompt lookup",
        when="Wins where the answer copies the prompt; elsewhere it finds nothing and costs nothing.",
        prompt=_COPY,
        strategy="prompt-lookup",
        k=8,
        kinds=("rewrite",),
    ),
    Preset(
        name="lookup-and-assistant",
        title="Lookup, else assistant",
        when="Wins on mixed text: copied parts come from the prompt, the rest from the assistant.",
        prompt=_COPY,
        strategy="lookup+assistant",
        assistant=DEFAULT_ASSISTANT,
        k=8,
    ),
    Preset(
        name="early-exit",
        title="Early exit",
        when="Wins where the first layers alone often know the next word, as after LayerSkip training; a model that "
        "was not trained for it drafts badly.",
        prompt=_OPENING,
        target="story-teller",
        strategy="early-exit",
        k=3,
        settings={"exit_layer": 2},
        prompts=OPENINGS,
    ),
    Preset(
        name="mtp",
        title="Multi-token prediction",
        when="Wins with one cheap layer that was trained to look one token further; its later guesses, made on its own "
        "output, are worse.",
        prompt=_OPENING,
        target="story-teller",
        strategy="mtp",
        k=5,
        prompts=OPENINGS,
    ),
    Preset(
        name="mtp-drafter",
        title="MTP drafter (Gemma 4)",
        when="Wins since it reads the target's own keys and values instead of the text; it cannot look further than "
        "the one position that it drafts from.",
        prompt=_OPENING,
        target="story-gemma",
        assistant="story-gemma-assistant",
        strategy="mtp-drafter",
        k=3,
        prompts=OPENINGS,
    ),
    Preset(
        name="universal",
        title="Two tokenizers",
        when="Lets any small model draft for any target; loses what the two tokenizers cut differently, and guesses "
        "well only where both know the matter, as here a story.",
        prompt=_STORY,
        assistant="story-drafter",
        strategy="universal",
        k=3,
        kinds=("story",),
    ),
    Preset(
        name="universal-at-a-loss",
        title="Two tokenizers, at a loss",
        when="More guesses are kept than in the other direction, and still it is slower: here the drafter costs more "
        "than half a pass of the tiny target.",
        prompt=_OPENING,
        target="story-teller",
        assistant="smollm2-drafter",
        strategy="universal",
        k=3,
        prompts=OPENINGS,
    ),
    Preset(
        name="eagle",
        title="EAGLE head",
        when="Wins since it sees what the target was thinking and costs a twentieth of a pass; its second and third "
        "guesses, made from its own first, are much worse.",
        prompt=_STORY,
        assistant="smollm2-eagle",
        strategy="eagle",
        k=2,
    ),
    Preset(
        name="ensemble",
        title="Static ensemble (lossy)",
        when="Keeps more guesses by asking target and assistant together; what is written is no longer the target's "
        "own text.",
        prompt=_STORY,
        strategy="assistant",
        assistant=DEFAULT_ASSISTANT,
        k=3,
        verifier="ensemble",
        temperature=0.8,
    ),
    Preset(
        name="coupled",
        title="Coupled sampling",
        when="Shows losslessness: both lanes draw with the same random numbers and write the same text, whatever "
        "drafts.",
        prompt=_STORY,
        strategy="assistant",
        assistant=DEFAULT_ASSISTANT,
        k=3,
        verifier="coupled",
        temperature=0.8,
    ),
)
_GUIDE = (
    Preset(
        name="guide-assistant",
        title="SmolLM 1.7B with 135M",
        when="The guide's pair: a target thirteen times its assistant.",
        prompt="Everything you need to know about black holes is",
        target="smollm-1.7b",
        assistant="smollm-135m",
        strategy="assistant",
    ),
    Preset(
        name="guide-early-exit",
        title="LayerSkip Llama 3.2 1B",
        when="The guide's self-speculation, on a model trained for it.",
        prompt="Alice and Bob",
        target="layerskip-llama3.2-1b",
        strategy="early-exit",
        settings={"exit_layer": 4},
    ),
    Preset(
        name="guide-mtp",
        title="GLM-4.5-Air",
        when="The guide's prediction layers, in a mixture of experts.",
        prompt="What is the capital of France?",
        target="glm-4.5-air",
        strategy="mtp",
        k=2,
    ),
    Preset(
        name="guide-mtp-drafter",
        title="Gemma 4 E4B with its drafter",
        when="The guide's MTP drafter.",
        prompt="What is your favourite condiment?",
        target="gemma-4-e4b-it",
        assistant="gemma-4-e4b-it-assistant",
        strategy="mtp-drafter",
    ),
    Preset(
        name="guide-universal",
        title="Gemma 2 9B with Vicuna 68M",
        when="The guide's pair of two tokenizers.",
        prompt="Alice and Bob",
        target="gemma-2-9b",
        assistant="vicuna-68m",
        strategy="universal",
    ),
)

PRESETS: dict[str, Preset] = {p.name: p for p in (*_BUNDLED, *_GUIDE)}


def preset(name: str) -> Preset:
    """The preset of that name.

    Raises:
        InvalidRequest: there is none.
    """
    if name not in PRESETS:
        raise InvalidRequest(f"preset is {name!r}; it must be one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def prepare_preset(library: Library, chosen: Preset, prompt: str | None = None, **values: Any) -> Prepared:
    """A preset's run on `prompt` (default: its own); `values` are further arguments of `run.prepare`.

    Raises:
        InvalidRequest: it cannot be run here.
    """
    fixed: dict[str, Any] = {
        "target": chosen.target,
        "assistant": chosen.assistant,
        "strategy_name": chosen.strategy,
        "settings": chosen.settings,
        "verifier": chosen.verifier,
        "verifier_settings": chosen.verifier_settings,
        "k": chosen.k,
        "temperature": chosen.temperature,
        "max_new_tokens": chosen.max_new_tokens,
    }
    return prepare(library, prompt or chosen.prompt, **fixed | values)
