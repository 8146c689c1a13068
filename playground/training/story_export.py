"""Turn the checkpoints of the story-teller family into the folders that are bundled.

    python -m playground.training.story_export [--to assets/models] [story-teller ...]

bfloat16 safetensors that transformers loads as they are; the prediction layer of the story teller lies in the same
file under the names that Mellum's released checkpoints have.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Gemma4AssistantForCausalLM, GenerationConfig, LlamaForCausalLM

from playground.training import story_models
from playground.training.shards import training_dir
from playground.training.story_models import END
from playground.training.story_say import trained

MODELS = Path(__file__).resolve().parents[2] / "assets" / "models"
RUNS = {"story-teller": "teller", "story-drafter": "drafter", "story-gemma": "gemma",
        "story-gemma-assistant": "gemma-assistant"}  # fmt: skip
# What MtpModel calls its parts, and what the checkpoint does.
MTP_NAMES = {
    "layers.0.enorm.": "mtp.pre_fc_norm_embedding.",
    "layers.0.hnorm.": "mtp.pre_fc_norm_hidden.",
    "layers.0.eh_proj.": "mtp.fc.",
    "layers.0.mtp_block.": "mtp.layers.0.",
    "layers.0.post_norm.": "mtp.norm.",
}


def state(run: str) -> dict[str, Tensor]:
    """The weights of a run's checkpoint."""
    saved: dict[str, Tensor] = torch.load(training_dir() / "runs" / run / "checkpoint.pt", weights_only=True)["model"]
    return saved


def mtp_weights() -> dict[str, Tensor]:
    """The prediction layer under its released names, bfloat16.

    Raises:
        KeyError: a weight has no such name.
    """
    out = {}
    for name, value in state("mtp").items():
        old, new = next((old, new) for old, new in MTP_NAMES.items() if name.startswith(old))
        out[new + name.removeprefix(old)] = value.to(torch.bfloat16).contiguous()
    return out


def model_of(name: str) -> Any:
    """The model with its trained weights, bfloat16."""
    if name in ("story-teller", "story-gemma"):
        model = trained(RUNS[name])
    elif name == "story-drafter":
        model = LlamaForCausalLM(story_models.drafter_config())
        model.load_state_dict(state("drafter"))
    else:
        model = Gemma4AssistantForCausalLM(story_models.gemma_assistant_config())
        model.load_state_dict(state("gemma-assistant"))
    return model.to(torch.bfloat16)


def export(name: str, to: Path) -> int:
    """Write one model to its folder; returns the bytes of its weights."""
    folder = to / name
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=to, prefix=f".{name}-") as made:
        model = model_of(name)
        model.save_pretrained(made)
        GenerationConfig(bos_token_id=END, eos_token_id=END, pad_token_id=END).save_pretrained(made)
        tokenizer = story_models.stories_tokenizer(training_dir() / "story-tokenizer")
        for trace in ("is_local", "local_files_only"):
            tokenizer.init_kwargs.pop(trace, None)
        tokenizer.save_pretrained(made)
        weights = Path(made) / "model.safetensors"
        if name == "story-teller":
            save_file({**load_file(weights), **mtp_weights()}, weights, metadata={"format": "pt"})
        for path in Path(made).iterdir():
            path.chmod(0o644)
            shutil.move(path, folder / path.name)
    return (folder / "model.safetensors").stat().st_size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*RUNS, []], help="default: all")
    parser.add_argument("--to", type=Path, default=MODELS)
    args = parser.parse_args()
    for name in args.names or RUNS:
        print(f"{name}: {export(name, args.to):,} bytes")


if __name__ == "__main__":
    main()
