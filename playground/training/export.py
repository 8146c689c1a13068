"""Turn a checkpoint of `distill` into the folder that is bundled.

    python -m playground.training.export [--name drafter] [--to assets/models/smollm2-drafter]

Knows the shape of nothing: configuration and tokenizer are written beside the weights, so that
`AutoModelForCausalLM` and `AutoTokenizer` load the folder.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

import torch
from transformers import AutoTokenizer, GenerationConfig, LlamaConfig, LlamaForCausalLM

from playground.embedded import embedded_target
from playground.training.evaluate import BUNDLED
from playground.training.shards import training_dir

LIMIT = 25_000_000


def export(checkpoint: Path, folder: Path, *, average: bool = True) -> int:
    """Write the (averaged) weights of `checkpoint` to `folder` in bfloat16; returns their bytes.

    Raises:
        ValueError: the weights would be larger than 25 MB.
    """
    state = torch.load(checkpoint, weights_only=True)
    config = LlamaConfig(**state["config"])
    config.architectures = ["LlamaForCausalLM"]
    drafter = LlamaForCausalLM(config)
    drafter.load_state_dict(state["average" if average else "model"])
    drafter = drafter.to(torch.bfloat16)
    size = sum(p.numel() * p.element_size() for p in drafter.parameters())
    if size > LIMIT:
        raise ValueError(f"the drafter has {size:,} bytes, at most {LIMIT:,} are allowed")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".drafter-") as made:
        drafter.save_pretrained(made)
        GenerationConfig(bos_token_id=1, eos_token_id=2, pad_token_id=2).save_pretrained(made)
        tokenizer = AutoTokenizer.from_pretrained(embedded_target())
        for trace in ("is_local", "local_files_only"):
            tokenizer.init_kwargs.pop(trace, None)
        tokenizer.save_pretrained(made)
        for path in Path(made).iterdir():
            path.chmod(0o644)
            shutil.move(path, folder / path.name)
    return size


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="drafter", help="folder of the run")
    parser.add_argument("--to", type=Path, default=BUNDLED)
    parser.add_argument("--last", action="store_true", help="the last weights, not their average")
    args = parser.parse_args()
    path = training_dir() / "runs" / args.name / "checkpoint.pt"
    size = export(path, args.to, average=not args.last)
    print(f"{args.to}: {size:,} bytes")


if __name__ == "__main__":
    main()
