"""Prompt lookup: what followed the same words the last time is the draft. No model, no cost to speak of.

transformers' guide: `prompt_lookup_num_tokens`. Saxena 2023, prompt lookup decoding.
"""

from collections.abc import Sequence

from playground.engine import Proposal
from strategies.base import Choice, Context, Strategy


def find_match(ids: Sequence[int], ngram: int, k: int, take: str, shortest: int = 1) -> tuple[int, ...]:
    """At most `k` tokens that followed an earlier occurrence of the last n tokens of `ids`.

    The largest n from `ngram` down to `shortest` that occurs earlier decides. `take` says which occurrence:
    "first" (as transformers), "latest", or "longest": the one whose text agrees furthest back.
    The first match's continuation ends with `ids`, as in transformers; the others copy on into the draft
    itself, so that text which repeats is drafted whole.
    """
    n_ids = len(ids)
    for n in range(min(ngram, n_ids - 1), shortest - 1, -1):
        tail = tuple(ids[n_ids - n :])
        starts = [i for i in range(n_ids - n) if ids[i] == tail[0] and tuple(ids[i : i + n]) == tail]
        if not starts:
            continue
        if take == "first":
            return tuple(ids[starts[0] + n : starts[0] + n + k])
        start = starts[-1] if take == "latest" else max(starts, key=lambda i: (_agreement(ids, i + n), i))
        return _copy(ids, start + n, k)
    return ()


def _copy(ids: Sequence[int], start: int, k: int) -> tuple[int, ...]:
    draft: list[int] = []
    for i in range(start, start + k):
        draft.append(ids[i] if i < len(ids) else draft[i - len(ids)])
    return tuple(draft)


def _agreement(ids: Sequence[int], end: int) -> int:
    """How many tokens before `end` are the last tokens of `ids`."""
    n = 0
    while n < end and ids[end - 1 - n] == ids[len(ids) - 1 - n]:
        n += 1
    return n


class PromptLookupDrafter:
    """Looks the last words up in the prompt and in what was written so far."""

    def __init__(self, context: Context) -> None:
        request = context.request
        self._shortest = int(request.setting("min_ngram", 1))
        self._ngram = max(int(request.setting("ngram", 3)), self._shortest)
        self._take = str(request.setting("take", "longest"))
        self._vocab = context.target.vocab_size

    def prepare(self, ids: Sequence[int]) -> None:
        """Nothing to read ahead."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """The continuation of the chosen match; nothing where there is none."""
        return Proposal(find_match(ids, self._ngram, k, self._take, self._shortest))

    def release(self) -> None:
        """Nothing to free."""


STRATEGY = Strategy(
    name="prompt-lookup",
    title="Prompt lookup",
    about="The last few tokens are looked up earlier in the text, and what followed them there is the guess. "
    "No second model at all.",
    wins="Wins when the answer copies from the prompt: rewriting, code, quoting. Elsewhere it rarely finds anything.",
    build=PromptLookupDrafter,
    has_q=False,
    settings=(
        Choice(
            name="ngram",
            label="Longest n-gram",
            help="How many of the last tokens must reappear; shorter ones are tried when there is no match.",
            default=3,
            minimum=1,
            maximum=10,
            step=1,
        ),
        Choice(
            name="take",
            label="Which match",
            help="Where the n-gram occurs more than once: the first (as transformers), the latest, or the one whose "
            "earlier text agrees longest.",
            default="longest",
            options=(("longest", "longest agreement"), ("latest", "latest"), ("first", "first (transformers)")),
        ),
    ),
)
