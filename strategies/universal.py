"""An assistant with another tokenizer drafts: by text that is tokenised again, or among the tokens that both share.

transformers' guide: universal assisted decoding. Timor et al. 2025 (arXiv 2502.05202): "text" is its SLEM,
"intersection" its TLI.
"""

import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from playground.alignment import Codec, Mirror, continuation, shared_tokens
from playground.cache import PrefixModel
from playground.engine import Drafter, Proposal
from playground.text import REPLACEMENT
from playground.trace import InvalidRequest
from strategies.base import Choice, Context, Strategy

if TYPE_CHECKING:
    from playground.models import Loaded

LOOKBEHIND = 10
FEWEST_SHARED = 16
FINER = 1.5  # assistant tokens for a token of the target, on average
WORD_START = re.compile(r"(?<=\S)\s|[^\x00-\x7f]")  # where most tokenizers begin a token
LONGEST_SPELLING = 6  # assistant tokens that may go into one drafted token of the target, on average


class _Reader:
    """The assistant, its cache, and the target's text in the assistant's tokens."""

    def __init__(self, context: Context) -> None:
        assert context.assistant is not None, "checked before"
        self._model: PrefixModel = context.assistant
        self._vocab = context.target.vocab_size
        self._lookbehind = int(context.request.setting("lookbehind", LOOKBEHIND))
        self._ours, self._theirs = Codec(context.target_tokenizer), Codec(context.assistant_tokenizer)
        self._mirror = Mirror(self._ours, self._theirs, self._lookbehind)

    def prepare(self, ids: Sequence[int]) -> None:
        """Tokenise the prompt again and read it but for its last token."""
        prefix, _ = self._prefix(ids)
        if len(prefix) > 1:
            self._model.logits(prefix[:-1], keep=1)

    def release(self) -> None:
        """Free the assistant's cache."""
        self._model.release()

    def _prefix(self, ids: Sequence[int]) -> tuple[list[int], int]:
        # A token that the assistant has no row for: any in its place leaves the run lossless.
        prefix, end = self._mirror.follow(ids)
        return [min(i, self._model.vocab_size - 1) for i in prefix], end

    def _room(self, prefix: Sequence[int]) -> int:
        """How many tokens the assistant can still write behind `prefix`; none where there is nothing to read."""
        if not prefix:
            return 0
        return sys.maxsize if self._model.context is None else self._model.context - len(prefix) + 1


class TextDrafter(_Reader):
    """Drafts text with the assistant's likeliest tokens, and tokenises it again for the target.

    The draft is deterministic, its q one-hot: no distribution over the assistant's tokens is one over the target's.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._never = {*self._ours.specials, *context.request.banned_ids}

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """At most `k` tokens of the target: those that the drafted text is, up to a special token."""
        prefix, _ = self._prefix(ids)
        known = prefix[-self._lookbehind :]
        before = self._theirs.decode(known)
        written: list[int] = []
        pieces: list[str] = []
        draft: list[int] = []
        after = ""
        # What is drafted last may be the beginning of a longer token, the more so the finer the assistant's tokens:
        # then words are drafted to their ends.
        finer = len(prefix) > FINER * len(ids)
        for _ in range(min(LONGEST_SPELLING * k, self._room(prefix))):
            logits = self._model.logits([*prefix, *written], keep=1)[0, : self._theirs.width]
            token = int(logits.argmax())
            if token in self._theirs.specials:
                break
            written.append(token)
            text = self._theirs.decode([*known, *written])
            # A character cut short waits for its other bytes, and with some tokenizers takes those before it along;
            # one that is broken for good ends the draft.
            whole, *broken = text[len(before) :].split(REPLACEMENT) if text.startswith(before) else [""]
            pieces.append(whole[len(after) :])
            after = max(after, whole, key=len)
            draft = continuation(self._ours, ids, after, self._lookbehind)
            sure = continuation(self._ours, ids, _words(after), self._lookbehind) if finer else draft
            if len(sure) >= k or any(broken) or (after and not draft):
                break
        kept = self._cut(draft)[:k]
        return Proposal(tuple(kept), drafted_as=tuple(filter(None, pieces)) if kept else ())

    def _cut(self, draft: list[int]) -> list[int]:
        end = next((n for n, i in enumerate(draft) if i in self._never or i >= self._vocab), len(draft))
        return draft[:end]


class IntersectionDrafter(_Reader):
    """Drafts by the assistant's distribution over the tokens that both vocabularies hold, in the target's ids.

    Raises:
        InvalidRequest: they share too few tokens.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        assert context.assistant is not None, "checked before"
        rows = self._model.vocab_size
        shared = shared_tokens(context.target_tokenizer, context.assistant_tokenizer)
        self._shared = {i: j for i, j in shared.items() if i < self._vocab and j < rows}
        if len(self._shared) < FEWEST_SHARED:
            raise InvalidRequest(
                f"method is 'intersection', and {context.assistant.name} shares {len(self._shared)} tokens with "
                f"{context.target.name}, where at least {FEWEST_SHARED} are needed: use method 'text', or an assistant "
                "whose vocabulary is more like the target's."
            )
        self._our_ids, self._their_ids = torch.tensor(list(self._shared)), torch.tensor(list(self._shared.values()))
        self._all_banned = set(self._shared) <= set(context.request.banned_ids)
        self._draft_one_by_one = context.draft_one_by_one

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """At most `k` tokens, with the distribution [n, V] that each was drawn from, V the target's."""
        prefix, end = self._prefix(ids)
        begun = ids[end:]  # bytes of a character that is not whole yet
        if self._all_banned or not all(i in self._shared for i in begun):
            return Proposal()
        prefix += [self._shared[i] for i in begun]

        def logits_of(draft: list[int]) -> Tensor:
            read = self._model.logits([*prefix, *(self._shared[i] for i in draft)], keep=1)
            logits = torch.full((1, self._vocab), -torch.inf)
            logits[:, self._our_ids] = read[:, self._their_ids]
            return logits

        return self._draft_one_by_one(ids, min(k, self._room(prefix)), logits_of)


def _words(text: str) -> str:
    """`text` without its last word, which may go on."""
    starts = [found.start() for found in WORD_START.finditer(text)]
    return text[: starts[-1]] if starts else ""


def _build(context: Context) -> Drafter:
    chosen = context.request.setting("method", "text")
    return IntersectionDrafter(context) if chosen == "intersection" else TextDrafter(context)


def _check(target: "Loaded", assistant: "Loaded | None") -> None:
    if assistant is None:
        raise InvalidRequest(
            "The strategy universal needs an assistant model: choose one, of any tokenizer, for example "
            "smollm2-drafter."
        )
    assistant.check_writes()


STRATEGY = Strategy(
    name="universal",
    title="Universal assistant",
    about="A smaller model with a tokenizer of its own guesses. Its text is tokenised again for the target, or it "
    "guesses among the tokens that both have. Sampled text keeps the target's distribution: in tests within noise of "
    "it, where transformers' sampled path is 0.09 to 0.14 off in total variation.",
    wins="Wins when no good assistant has the target's tokenizer; where one has, the strategy assistant is better, "
    "since nothing is tokenised again.",
    build=_build,
    needs_assistant=True,
    has_q=False,  # drafted text has none
    q_when=("method", "intersection"),
    settings=(
        Choice(
            name="method",
            label="What is drafted",
            help="Text, tokenised again for the target (SLEM): any two tokenizers, guesses are the assistant's "
            "likeliest. Or shared tokens only (TLI): guesses are drawn, and weighed by p against q.",
            default="text",
            options=(("text", "text, tokenised again"), ("intersection", "shared tokens only")),
        ),
        Choice(
            name="lookbehind",
            label="Look-behind",
            help="How many tokens before the end of the text are tokenised again in a round, so that the new ones "
            "join it as they would have been written.",
            default=LOOKBEHIND,
            minimum=4,
            maximum=64,
            step=1,
        ),
    ),
    check=_check,
)
