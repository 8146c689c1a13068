"""One text under two tokenizers: the ids of either, at a cost that stays flat however long the text grows, and
the tokens that both vocabularies hold.

It knows no model, no distribution and no strategy. Both uses are those of Timor et al. 2025 (arXiv 2502.05202):
re-encoding what was drafted (SLEM) and drafting among shared tokens only (TLI).
"""

import re
from collections.abc import Hashable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from tokenizers import decoders
from tokenizers.pre_tokenizers import ByteLevel

from playground.text import REPLACEMENT, decode_all

LONGEST_PART = 3  # bytes, and so tokens, that a character of UTF-8 can be short of being whole
METASPACE = "▁"
BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")


class Codec:
    """A tokenizer as text to ids and back, with nothing added and nothing tidied."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without a beginning of sequence."""
        return list(self._tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`."""
        return decode_all(self._tokenizer, ids)

    @cached_property
    def specials(self) -> dict[int, str]:
        """The tokens that are no text, by id."""
        added = {i: str(t) for i, t in self._tokenizer.added_tokens_decoder.items() if t.special}
        return added | dict(zip(self._tokenizer.all_special_ids, self._tokenizer.all_special_tokens, strict=True))

    @cached_property
    def opening(self) -> list[int]:
        """The special tokens that the tokenizer puts before a text."""
        plain, full = self.encode("a"), list(self._tokenizer("a")["input_ids"])
        starts = [i for i in range(len(full)) if full[i : i + len(plain)] == plain]
        return full[: starts[0]] if starts else []

    @cached_property
    def width(self) -> int:
        """One more than the largest id that is a token."""
        return 1 + int(max(self._tokenizer.get_vocab().values()))

    def whole(self, ids: Sequence[int]) -> int:
        """How many of `ids` end at the end of a character: all but the last few, where UTF-8 is cut short there.
        All where the text's end cannot be cut short, being broken in any case."""
        for n in range(len(ids), max(-1, len(ids) - LONGEST_PART - 1), -1):
            if not self.decode(ids[:n]).endswith(REPLACEMENT):
                return n
        return len(ids)

    def behind(self, before: str, after: str) -> list[int] | None:
        """The ids of `after` where it is written behind `before`; None: a token holds characters of both."""
        first, both = self.encode(before), self.encode(before + after)
        return both[len(first) :] if both[: len(first)] == first else None


def continuation(codec: Codec, known: Sequence[int], after: str, lookbehind: int) -> list[int]:
    """The ids by which `known` goes on where the text `after` follows its last whole character; none where no ids do.

    The last `lookbehind` ids, as text, are encoded together with `after`, and what goes beyond them is the answer:
    where a token ends is known from the text itself, so that text which repeats cannot be aligned wrongly, as a
    longest common subsequence of ids can. Where a token would hold text of both, `after` is encoded as it is written
    behind a character that it does not merge with.
    """
    window = known[-lookbehind:]
    if codec.decode(window).startswith(REPLACEMENT):  # it begins inside a character, or in a run of byte tokens
        window = known[-4 * lookbehind :]
    n = codec.whole(window)
    ids = codec.behind(codec.decode(window[:n]), after)
    if ids is None:
        ids = codec.behind("a" if after[:1].isspace() else "\n", after)
    begun = list(window[n:])  # of an unfinished character, whose rest `after` holds
    if ids is None or ids[: len(begun)] != begun:
        return []
    return ids[len(begun) :]


class Mirror:
    """The ids that another tokenizer gives to the text of ids that grow.

    Only a window at the end is encoded again. Its beginning moves on to a place from which the encoding, made
    without what is before, ends in the same ids: what follows there does not depend on what was cut off.
    """

    def __init__(self, source: Codec, other: Codec, lookbehind: int) -> None:
        self._source, self._other, self._lookbehind = source, other, lookbehind
        known = set(other.specials.values())
        self._dropped = {i for i, text in source.specials.items() if text not in known}
        self._begin()

    def _begin(self) -> None:
        self._start = 0  # of the window, in the source's ids
        self._settled = list(self._other.opening)
        self._head: list[int] = []  # what the window's encoding begins with and `_settled` holds already

    def follow(self, ids: Sequence[int]) -> tuple[list[int], int]:
        """The other's ids of the whole characters of `ids`, and how many of `ids` those are."""
        opening = self._source.opening
        if self._start == 0 and opening and list(ids[: len(opening)]) == opening:
            self._start = len(opening)
        end = self._start + self._source.whole(ids[self._start :])
        text = self._text(ids[self._start : end])
        tail = self._other.encode(text)
        if tail[: len(self._head)] != self._head:
            self._begin()
            return self.follow(ids)
        mirrored = self._settled + tail[len(self._head) :]
        if end - self._start > 4 * self._lookbehind:
            self._shorten(ids, end, text, tail)
        return mirrored, end

    def _text(self, ids: Sequence[int]) -> str:
        return self._source.decode([i for i in ids if i not in self._dropped])

    def _shorten(self, ids: Sequence[int], end: int, text: str, tail: list[int]) -> None:
        start = end - 2 * self._lookbehind
        shorter = self._text(ids[start:end])
        if not text.endswith(shorter):
            return
        again = self._other.encode(shorter)
        same = 0
        while same < min(len(again), len(tail) - len(self._head)) and again[-1 - same] == tail[-1 - same]:
            same += 1
        if 2 * same < len(again):
            return
        self._settled += tail[len(self._head) : len(tail) - same]
        self._head = again[: len(again) - same]
        self._start = start


def shared_tokens(ours: Any, theirs: Any) -> dict[int, int]:
    """The tokens that both tokenizers hold: id of `ours` to id of `theirs`, one to one.

    Tokens are the same where they stand for the same bytes of text; special tokens where they have the same name.
    Where a vocabulary has several for the same bytes, one of them is shared.
    """
    others = {name: i for i, name in _names(theirs, len(theirs)).items()}
    mine = {name: i for i, name in _names(ours, len(ours)).items()}
    return {i: others[name] for name, i in mine.items() if name in others}


@lru_cache(maxsize=8)
def _names(tokenizer: Any, size: int) -> dict[int, Hashable]:
    """What each token stands for. Byte-level tokens and those with a visible space are bytes; tokens of any other
    kind (pieces that say where in a word they stand) are equal only to those of the same kind. `size`, its number of
    tokens, tells a tokenizer to which some were added from what it was."""
    kind = _kind(tokenizer)
    special = Codec(tokenizer).specials
    added = tokenizer.added_tokens_decoder
    names: dict[int, Hashable] = {}
    # Single bytes come first, so that where two tokens mean the same the later, written out, stays.
    for token, i in sorted(tokenizer.get_vocab().items(), key=lambda x: (not BYTE_TOKEN.fullmatch(x[0]), x[1])):
        if i in special:
            names[i] = ("special", token)
        elif i in added:
            names[i] = token.encode()
        elif kind == "bytes":
            names[i] = bytes(BYTES[c] for c in token) if all(c in BYTES for c in token) else token.encode()
        elif kind == "metaspace":
            byte = BYTE_TOKEN.fullmatch(token)
            names[i] = bytes([int(byte[1], 16)]) if byte else token.replace(METASPACE, " ").encode()
        else:
            names[i] = (kind, token)
    return names


def _kind(tokenizer: Any) -> str:
    decoder = tokenizer.backend_tokenizer.decoder
    if isinstance(decoder, decoders.ByteLevel):
        return "bytes"
    return "metaspace" if METASPACE in repr(decoder) else repr(decoder)


def _byte_alphabet() -> dict[str, int]:
    """The byte that each character of a byte-level token stands for: the printable ones of Latin-1 for themselves,
    the others in order for the characters from 256 on (GPT-2)."""
    alphabet = set(ByteLevel.alphabet())
    own = {c: ord(c) for c in alphabet if ord(c) < 256}
    rest = sorted(set(range(256)) - set(own.values()))
    return own | dict(zip(sorted(alphabet - set(own)), rest, strict=True))


BYTES = _byte_alphabet()
