"""How far drafting across tokenizers is from the target's distribution when sampling: transformers' way and ours.

    python tests/record_universal.py [RUNS]

Four tokens over a vocabulary of 16 at temperature 0.8, top-k 8, top-p 0.9, from tiny models with different
tokenizers. For each of the three pairs of neighbouring tokens: the total variation between what was seen and the
exact law, by enumeration; plain sampling, which has no fault to show, gives the noise floor.

Recorded: expected of noise alone .010 .018 .026 at 4,000 runs and .015 .026 .037 at 2,000; plain .008 .016 .021, text
.008 .017 .028, intersection .016 .017 .028 (4,000 runs each); transformers 5.24 .135 .110 .088 (2,000).
"""

import argparse
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from fakes import tiny_llama
from runs import request_for
from tokenizers import Tokenizer, decoders, models
from torch import Tensor
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from playground.models import Loaded, wrap
from playground.run import Prepared
from playground.sampling import Law
from playground.trace import Request, Round, emitted_ids

LETTERS, MERGES = "abcdefghijklmnop", ("ab", "cd", "ef", "gh")
TOKENS, K = 4, 2
PROMPT = (1, 2, 3, 4, 1, 2, 3)
LAW: dict[str, Any] = {"temperature": 0.8, "top_k": 8, "top_p": 0.9}

Texts = list[tuple[int, ...]]


def letters(vocabulary: list[str], merges: tuple[str, ...] = ()) -> PreTrainedTokenizerFast:
    """A token a letter, and the merged ones."""
    raw = Tokenizer(models.BPE({t: i for i, t in enumerate(vocabulary)}, [(m[0], m[1]) for m in merges]))
    raw.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=raw)


def pair() -> tuple[Loaded, Loaded]:
    """A target, and an assistant that has its letters under other ids and some pairs of letters."""
    mine, other = letters(list(LETTERS)), letters([*reversed(LETTERS), *MERGES], MERGES)
    shape: dict[str, Any] = {"layers": 1, "eos": None, "spread": 0.5}
    return (
        wrap("target", tiny_llama(vocab=len(mine), **shape), mine),
        wrap("helper", tiny_llama(seed=1, vocab=len(other), **shape), other),
    )


def exact_pairs(target: Loaded) -> list[Counter[tuple[int, int]]]:
    """The law of each pair of neighbouring tokens, all texts of a length in one pass."""
    request = Request(prompt_ids=PROMPT, **LAW)
    law = Law(request)
    texts, chances = [PROMPT], torch.ones(1, dtype=torch.float64)
    laws: list[Counter[tuple[int, int]]] = []
    for n in range(TOKENS):
        with torch.inference_mode():
            logits = torch.cat([target.model(part).logits[:, -1].float() for part in torch.tensor(texts).split(512)])
        p = law.probabilities(logits).double()
        grown = [(row, token) for row, token in p.nonzero().tolist()]
        chances = torch.stack([chances[row] * p[row, token] for row, token in grown])
        texts = [(*texts[row], token) for row, token in grown]
        if n:
            last: Counter[tuple[int, int]] = Counter()
            for text, chance in zip(texts, chances.tolist(), strict=True):
                last[text[-2], text[-1]] += chance
            laws.append(last)
    return laws


def distances(texts: Texts, exact: list[Counter[tuple[int, int]]]) -> list[float]:
    """Total variation of each pair."""
    out = []
    for i, law in enumerate(exact):
        seen = Counter(text[i : i + 2] for text in texts)
        every = set(seen) | set(law)
        out.append(round(sum(abs(seen[x] / len(texts) - law[x]) for x in every) / 2, 3))
    return out


def ours(strategy: str, target: Loaded, helper: Loaded, method: str | None = None) -> Callable[[int], tuple[int, ...]]:
    """A run of the playground by its seed."""
    settings = {} if method is None else {"method": method}
    assistant = None if strategy == "plain" else helper

    def text(seed: int) -> tuple[int, ...]:
        request = request_for(
            strategy, prompt=PROMPT, max_new_tokens=TOKENS, k=K, seed=seed, settings=dict(settings), **LAW
        )
        rounds = [e for e in Prepared(request, target, assistant).events() if isinstance(e, Round)]
        return emitted_ids(rounds)

    return text


def theirs(target: Loaded, helper: Loaded) -> Callable[[int], tuple[int, ...]]:
    """transformers' sampled universal path. It changes the assistant's model, so that it comes last."""
    helper.model.generation_config.update(num_assistant_tokens=K, num_assistant_tokens_schedule="constant")
    helper.model.generation_config.assistant_confidence_threshold = 0.0
    prompt: Tensor = torch.tensor([PROMPT])

    def text(seed: int) -> tuple[int, ...]:
        torch.manual_seed(seed)
        out = target.model.generate(
            prompt, attention_mask=torch.ones_like(prompt), assistant_model=helper.model, tokenizer=target.tokenizer,
            assistant_tokenizer=helper.tokenizer, do_sample=True, max_new_tokens=TOKENS,
            pad_token_id=0, **LAW,
        )  # fmt: skip
        return tuple(out[0, len(PROMPT) :].tolist())

    return text


def main() -> None:
    """Print one JSON line a path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=4000)
    parser.add_argument("--only", help="one path")
    args = parser.parse_args()
    target, helper = pair()
    exact = exact_pairs(target)
    paths = {
        "plain": ours("plain", target, helper),
        "text": ours("universal", target, helper, "text"),
        "intersection": ours("universal", target, helper, "intersection"),
        "transformers": theirs(target, helper),
    }
    for name, text in paths.items():
        if args.only in (None, name):
            texts = [text(seed) for seed in tqdm(range(args.runs), desc=name)]
            print(json.dumps({"path": name, "runs": args.runs, "tv": distances(texts, exact)}), flush=True)


if __name__ == "__main__":
    main()
