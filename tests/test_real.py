"""The embedded target itself, float32: at temperature 0 every strategy writes what `generate` writes alone."""

import pytest
import torch

from playground.models import CATALOGUE, DEFAULT_ASSISTANT, DEFAULT_TARGET, Library, Loaded
from playground.run import prepare
from playground.trace import Round, emitted_ids
from strategies import STRATEGIES

PROMPTS = (
    "Why do leaves change colour in autumn?",
    "Copy this text and correct the spelling: The quik brown fox jumps ovver the lazy dog near the old stone bridge.",
    "Write a Python function that returns the largest number of a list.",
)
TOKENS = 40


@pytest.fixture(scope="module")
def library() -> Library:
    """float32 models."""
    return Library(dtype="float32")


@pytest.fixture(scope="module")
def expected(library: Library) -> dict[str, tuple[int, ...]]:
    """What the target writes alone, by transformers' own loop."""
    target = library.load(DEFAULT_TARGET)
    return {prompt: generate(target, target.prompt_ids(prompt, True)) for prompt in PROMPTS}


def generate(target: Loaded, prompt_ids: tuple[int, ...]) -> tuple[int, ...]:
    ids = torch.tensor([prompt_ids])
    out = target.model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False)
    return tuple(out[0, ids.shape[1] :].tolist())


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
def test_greedy_text_is_that_of_generate(
    strategy: str, prompt: str, library: Library, expected: dict[str, tuple[int, ...]]
) -> None:
    run = prepare(library, prompt, strategy_name=strategy, max_new_tokens=TOKENS)
    rounds = [e for e in run.events() if isinstance(e, Round)]
    assert emitted_ids(rounds) == expected[prompt]


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
