"""Is what Gemma 4's drafter helps to write distributed as what the target writes alone? Not a test: a record.

    python tests/record_gemma4.py --runs 4000

Four tokens over a vocabulary of 16, on a tiny pair of random weights: total variation of the three pairs of
neighbouring tokens from the exact law, for transformers' `generate` and for the playground, beside that of as many
draws from the law itself.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from runs import request_for
from tiny_models import gemma4_pair

from playground.models import Loaded
from playground.run import Prepared
from playground.sampling import Law
from playground.trace import Round, emitted_ids

VOCAB, TOKENS, K = 16, 4, 3
PROMPT = (3, 1, 4, 1, 5, 9, 2, 6)
VALUES = {"temperature": 0.8, "top_k": 8, "top_p": 0.9}
Texts = Iterable[tuple[int, ...]]


def law_of(target: Loaded) -> dict[tuple[int, ...], float]:
    """The chance of every text of four tokens, by enumeration."""
    law = Law(request_for("plain", prompt=PROMPT, **VALUES))
    chances: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(TOKENS):
        logits = target.model(torch.tensor([[*PROMPT, *text] for text in chances])).logits[:, -1].float()
        rows = law.probabilities(law.scores(logits, PROMPT))
        chances = {
            (*text, token): chance * share
            for (text, chance), row in zip(chances.items(), rows.tolist(), strict=True)
            for token, share in enumerate(row)
            if share > 0
        }
    return chances


def pairs_of(weighed: Iterable[tuple[tuple[int, ...], float]], at: int) -> dict[tuple[int, ...], float]:
    """The distribution of the tokens at `at` and after it."""
    shares: Counter[tuple[int, ...]] = Counter()
    for text, weight in weighed:
        shares[text[at : at + 2]] += weight
    return dict(shares)


def distances(texts: Texts, law: dict[tuple[int, ...], float]) -> list[float]:
    """Total variation of the three pairs of neighbouring tokens between `texts` and `law`."""
    counted = Counter(texts)
    n = sum(counted.values())
    out = []
    for at in range(TOKENS - 1):
        seen = pairs_of(((text, count / n) for text, count in counted.items()), at)
        true = pairs_of(law.items(), at)
        out.append(sum(abs(seen.get(k, 0.0) - true.get(k, 0.0)) for k in seen.keys() | true.keys()) / 2)
    return out


def transformers_texts(target: Loaded, helper: Loaded, runs: int) -> Texts:
    """What `generate` writes with the drafter as its assistant."""
    helper.model.generation_config.num_assistant_tokens = K
    torch.manual_seed(0)
    for _ in range(runs):
        out = target.model.generate(
            torch.tensor([PROMPT]), assistant_model=helper.model, do_sample=True, max_new_tokens=TOKENS, **VALUES
        )
        yield tuple(out[0, len(PROMPT) :].tolist())


def our_texts(target: Loaded, helper: Loaded, runs: int, draw: str) -> Texts:
    """What the playground writes with it."""
    for seed in range(runs):
        request = request_for(
            "mtp-drafter", prompt=PROMPT, k=K, max_new_tokens=TOKENS, seed=seed, settings={"draw": draw}, **VALUES
        )
        yield emitted_ids([e for e in Prepared(request, target, helper).events() if isinstance(e, Round)])


def main() -> None:
    """Print a row a path."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=4000)
    runs = parser.parse_args().runs
    torch.set_num_threads(1)
    target, helper = gemma4_pair(VOCAB, None)
    with torch.inference_mode():
        law = law_of(target)
        drawn = Random(0).choices(list(law), weights=list(law.values()), k=runs)
        rows = {
            "the law itself": drawn,
            "transformers": transformers_texts(target, helper, runs),
            "playground, argmax": our_texts(target, helper, runs, "argmax"),
            "playground, sample": our_texts(target, helper, runs, "sample"),
        }
        print(f"{runs} runs, {len(law)} possible texts")
        for name, texts in rows.items():
            print(f"{name:20}", *(f"{d:.3f}" for d in distances(texts, law)), flush=True)


if __name__ == "__main__":
    main()
