"""Turn a checkpoint of `eagle_train` into the folder that is bundled.

    python -m playground.training.eagle_export [--to assets/models/smollm2-eagle]

Weights in bfloat16, the draft vocabulary, and the target's tokenizer, by which a target is known to be the right one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoTokenizer

from playground.eagle_head import WEIGHTS, EagleHead, head_config, save_head
from playground.embedded import embedded_target
from playground.models import ASSETS, DRAFT_VOCABULARY
from playground.training.eagle_train import NAME, draft_vocabulary
from playground.training.shards import training_dir


def export(checkpoint: Path, target_config: Any, tokenizer: Any, vocabulary: list[int], folder: Path) -> int:
    """Write the head in `checkpoint` to `folder`; the bytes of its weights."""
    head = EagleHead(head_config(target_config))
    head.load_state_dict(torch.load(checkpoint, weights_only=True)["model"])
    head = head.to(torch.bfloat16)
    save_head(head, folder)
    (folder / WEIGHTS).chmod(0o644)
    for trace in ("is_local", "local_files_only"):
        tokenizer.init_kwargs.pop(trace, None)
    (folder / DRAFT_VOCABULARY).write_text(json.dumps(sorted(vocabulary)), encoding="utf-8")
    with tempfile.TemporaryDirectory() as made:
        tokenizer.save_pretrained(made)
        for path in Path(made).iterdir():
            shutil.copy(path, folder)
    return sum(p.numel() * p.element_size() for p in head.parameters())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=ASSETS / "models" / "smollm2-eagle")
    args = parser.parse_args()
    target = embedded_target()
    tokenizer = AutoTokenizer.from_pretrained(target)
    checkpoint = training_dir() / "runs" / NAME / "checkpoint.pt"
    config = AutoConfig.from_pretrained(target)
    size = export(checkpoint, config, tokenizer, draft_vocabulary(None, tokenizer), args.to)
    print(f"{size:,} bytes of weights in {args.to}")


if __name__ == "__main__":
    main()
