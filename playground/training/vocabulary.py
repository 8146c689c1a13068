"""The draft vocabulary: the tokens that the target writes most, which is all that the drafter's head need score.

    python -m playground.training.vocabulary --corpus FILE --size 12288

A drafter of this size spends more than half of its pass on the output layer, reading a row for each of 49,152
tokens of which most never occur. Drafting from the frequent ones alone (FR-Spec, Zhao et al. 2025,
arXiv 2502.14856) is lossless: q is a distribution over those. Written beside the drafter.
"""

import argparse
import gzip
import json
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from playground.embedded import embedded_target
from playground.models import ASSETS, DRAFT_VOCABULARY
from playground.training.shards import read_shard, training_dir


def count(corpus: Path | None) -> Counter[int]:
    """How often each token stands in the corpus's answers and in those of the shards."""
    counts: Counter[int] = Counter()
    if corpus is not None:
        from transformers import AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(embedded_target())
        with gzip.open(corpus, "rt") as lines:
            for line in tqdm(lines, unit="samples"):
                counts.update(tokenizer(json.loads(line)["response"], add_special_tokens=False)["input_ids"])
    for path in tqdm(sorted((training_dir() / "shards").glob("*.npz")), unit="shards"):
        for sample in read_shard(path):
            counts.update(sample.response.tolist())
    return counts


def main() -> None:
    """Count and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--corpus", type=Path, help="gzipped JSON lines with a response each")
    parser.add_argument("--size", type=int, default=12288, help="how many tokens")
    parser.add_argument("--out", type=Path, default=ASSETS / "models" / "smollm2-drafter" / DRAFT_VOCABULARY)
    args = parser.parse_args()
    counts = count(args.corpus)
    frequent = [token for token, _ in counts.most_common(args.size)]
    share = sum(counts[t] for t in frequent) / counts.total()
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(sorted(frequent)))
    print(f"{len(frequent)} of {len(counts)} tokens that occur, {share:.4f} of {counts.total()} places")


if __name__ == "__main__":
    main()
