"""Token ids to text: pieces that join to the decoded whole, and the rule that finds stop strings."""

from collections.abc import Sequence
from typing import Any

REPLACEMENT = "\ufffd"
MOST_WAITING = 24  # characters that may be unfinished at an end before they are taken for what they are: no text at all
UNFINISHED = 3  # bytes of a character that lacks its last one


class IncrementalText:
    """The cumulative decode of ids, handed out in pieces.

    A piece is what one more id adds to the decoded text. Bytes that are no whole character yet add
    nothing; the piece of the id that completes the character holds it. Joined, the pieces of `push` and
    that of `finish` are the decoded text.
    """

    def __init__(self, tokenizer: Any, window: int = 16) -> None:
        self._tokenizer = tokenizer
        self._window = window
        self._held: list[int] = []  # ids since the last safe place to cut
        self._shown = 0  # characters of decode(self._held) handed out

    def push(self, token: int) -> str:
        """What `token` adds."""
        self._held.append(token)
        text = self._decode(self._held)
        end = self._whole(text, token)
        if end <= self._shown:
            return ""
        piece, self._shown = text[self._shown : end], end
        self._shorten(text)
        return piece

    def peek(self, tokens: Sequence[int]) -> list[str]:
        """The pieces that `tokens` would add, one each, with nothing taken in: how a draft is shown."""
        pieces, held, shown = [], list(self._held), self._shown
        for token in tokens:
            held.append(token)
            text = self._decode(held)
            end = max(shown, self._whole(text, token))
            pieces.append(text[shown:end])
            shown = end
        return pieces

    def finish(self) -> str:
        """What is left: an unfinished character, as the tokenizer decodes it."""
        text = self._decode(self._held)
        piece, self._shown = text[self._shown :], len(text)
        return piece

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _is_replacement(self, token: int) -> bool:
        # A model may really write U+FFFD; then the token's own bytes are that character.
        return REPLACEMENT in str(self._tokenizer.convert_ids_to_tokens(token))

    def _whole(self, text: str, last: int) -> int:
        """How many characters of `text`, which ends with the token `last`, no later byte can change."""
        waiting = len(text) - len(text.rstrip(REPLACEMENT))
        if not waiting or self._is_replacement(last):
            return len(text)
        # Bytes that never become a character must not be kept for ever.
        return len(text) - UNFINISHED if waiting > MOST_WAITING else self._shown

    def _shorten(self, whole: str) -> None:
        # Decoding all ids at every token would cost more with every token. A prefix may go when what follows
        # decodes to the same characters without it.
        if len(self._held) < 2 * self._window:
            return
        rest = self._held[-self._window :]
        tail, left = self._decode(rest), len(whole) - self._shown
        broken = tail.startswith(REPLACEMENT) and len(self._held) < 4 * self._window
        if whole.endswith(tail) and left < len(tail) and not broken:
            self._held, self._shown = rest, len(tail) - left


def decode_all(tokenizer: Any, ids: Sequence[int]) -> str:
    """The decoded text of `ids`, special tokens included."""
    return str(tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


class StopStrings:
    """The engine's stop rule for stop strings: the output ends with the token that completes one."""

    def __init__(self, tokenizer: Any, strings: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        self._strings = tuple(strings)
        self._longest = max(map(len, self._strings), default=0)

    def __call__(self, emitted: Sequence[int], new: int) -> int | None:
        """How many of `emitted` (of which the last `new` are new) to keep; None: all, nothing was found."""
        # A token may add no character, so a stop string can span more tokens than it has characters;
        # four bytes a character is the most that UTF-8 needs.
        start = max(0, len(emitted) - new - 4 * self._longest)
        for end in range(len(emitted) - new + 1, len(emitted) + 1):
            text = decode_all(self._tokenizer, emitted[start:end])
            before = decode_all(self._tokenizer, emitted[start : end - 1])
            if any(s in text and s not in before for s in self._strings):
                return end
        return None
