"""The bundled models themselves, float32: at temperature 0 every strategy writes what `generate` writes alone."""

from functools import cache

import pytest
import torch

from playground.models import CATALOGUE, DEFAULT_ASSISTANT, DEFAULT_TARGET, Library, Loaded
from playground.presets import PRESETS, Preset, prepare_preset
from playground.trace import Round, emitted_ids
from strategies import STRATEGIES

PROMPTS = (
    "Why do leaves change colour in autumn?",
    "Copy this text and correct the spelling: The quik brown fox jumps ovver the lazy dog near the old stone bridge.",
    "Write a Python function that returns the largest number of a list.",
)
OPENINGS = (
    "Once upon a time, in a small village, there lived a",
    "One sunny day, a little dog named Max couldn't resist",
    "The old shepherd stood on the hill and looked",
)
TOKENS = 40
RUNS = {(p.strategy, p.target, p.assistant): p for p in PRESETS.values() if p.bundled}


@pytest.fixture(scope="module")
def library() -> Library:
    """float32 models."""
    return Library(dtype="float32")


@cache
def generate(target: Loaded, prompt: str) -> tuple[int, ...]:
    """What the target writes alone, by transformers' own loop."""
    ids = torch.tensor([target.prompt_ids(prompt, True)])
    out = target.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False)
    return tuple(out[0, ids.shape[1] :].tolist())


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("run", RUNS.values(), ids=["-".join(filter(None, key)) for key in RUNS])
def test_greedy_text_is_that_of_generate(run: Preset, number: int, library: Library) -> None:
    prompt = (PROMPTS if run.target == DEFAULT_TARGET else OPENINGS)[number]
    greedy = prepare_preset(library, run, prompt, max_new_tokens=TOKENS, temperature=0.0, verifier="exact",
                            verifier_settings={})  # fmt: skip
    rounds = [e for e in greedy.events() if isinstance(e, Round)]
    assert emitted_ids(rounds) == generate(library.load(run.target), prompt)


def test_every_strategy_has_a_bundled_preset() -> None:
    assert {p.strategy for p in PRESETS.values() if p.bundled} == {name for name, s in STRATEGIES.items() if s.drafts}


def test_the_default_pair_is_as_the_catalogue_says(library: Library) -> None:
    target, drafter = library.load(DEFAULT_TARGET), library.load(DEFAULT_ASSISTANT)
    assert DEFAULT_ASSISTANT in CATALOGUE[DEFAULT_TARGET].assistants.values()
    assert target.tokenizer.get_vocab() == drafter.tokenizer.get_vocab()
    assert target.chat and target.stop_ids == (2,)
    assert 130e6 < target.parameters < 140e6
    assert drafter.parameters * 2 <= 25e6, "at most 25 MB in bfloat16"
    assert drafter.draft_vocabulary


def test_the_chat_template_can_be_switched_off(library: Library) -> None:
    target = library.load(DEFAULT_TARGET)
    text = "Once upon a time"
    assert target.tokenizer.decode(target.prompt_ids(text, False)) == text
    assert "<|im_start|>assistant" in target.tokenizer.decode(target.prompt_ids(text, True))


@pytest.mark.parametrize(
    "text", ["Hello, world!", "emoji 🎉 and 世界", "  two  spaces\n\tand a tab\n", "1234567 + 89 = ?"]
)
def test_the_tokenizer_gives_every_text_back(text: str, library: Library) -> None:
    tokenizer = library.load(DEFAULT_TARGET).tokenizer
    ids = tokenizer(text)["input_ids"]
    assert tokenizer.decode(ids) == text
    alone = [tokenizer.decode([i]).strip() for i in ids]
    assert all(len(piece) == 1 for piece in alone if piece.isdigit()), "a digit is a token"
