"""How a run looks in a terminal: tokens painted by verdict, the legend, the numbers; progress on stderr.

It knows escape codes and no model. Colour is never the only sign: strike, underline and weight differ too.
"""

import os
import sys
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from tqdm import tqdm

from playground.metrics import DEFINITIONS
from playground.text import IncrementalText
from playground.trace import EMITTED, Round, Verdict

RESET = "\x1b[0m"
STYLES: dict[Verdict, tuple[str, str]] = {
    "accepted": ("32", "green: drafted, tested, kept"),
    "rejected": ("31;9", "red, struck: drafted, tested, refused"),
    "discarded": ("90;9", "grey, struck: drafted after a refusal or a stop, never tested"),
    "corrected": ("33;4", "yellow, underlined: the target's token in place of the rejected one"),
    "bonus": ("36;1", "cyan, bold: the target's own token after a draft that was kept whole"),
    "plain": ("", "as it is: the target's token in a round without a draft"),
}
METRICS = (
    "acceptance_rate",
    "tested_acceptance_rate",
    "alpha",
    "predicted_acceptance",
    "tv",
    "tokens_per_pass",
    "cost_ratio",
    "tokens_per_second",
    "measured_speedup",
    "predicted_speedup",
    "efficiency",
)


def wants_colour(stream: TextIO) -> bool:
    """A terminal that takes escape codes, and nobody who asked for none (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def harmless(text: str) -> str:
    """Control characters but newline and tab as escapes: a model's text must not steer the terminal."""
    return "".join(
        c if c in "\n\t" or unicodedata.category(c) != "Cc" else c.encode("unicode_escape").decode() for c in text
    )


def painted(text: str, verdict: Verdict) -> str:
    """`text` in the style of its verdict."""
    code = STYLES[verdict][0]
    return f"\x1b[{code}m{text}{RESET}" if code and text else text


def legend() -> str:
    """A line a verdict, each in its own style."""
    return "\n".join(f"  {painted(verdict, verdict)}  {about}" for verdict, (_, about) in STYLES.items())


class Painter:
    """Paints rounds, one after another, in one style a verdict."""

    def __init__(self, tokenizer: Any) -> None:
        self._text = IncrementalText(tokenizer)

    def round(self, one: Round) -> str:
        """The round's tokens in the order of the screen; refused ones too."""
        out: list[str] = []
        refused = [t for t in one.tokens if t.verdict not in EMITTED]
        for token in one.tokens:
            if token.verdict in EMITTED:
                out.append(painted(harmless(self._text.push(token.id)), token.verdict))
            elif token is refused[0]:
                pieces = self._text.peek([t.id for t in refused])
                out += [painted(_flat(p), t.verdict) for p, t in zip(pieces, refused, strict=True)]
        return "".join(out)

    def finish(self) -> str:
        """What is left of an unfinished character."""
        return harmless(self._text.finish())


def _flat(text: str) -> str:
    # A refused line break would tear the text apart for nothing.
    return harmless(text).replace("\n", "\u21b5")


def number(name: str, value: float | None) -> str:
    """A number as a person reads it; a dash where it is not defined."""
    if value is None:
        return "-"
    if name in ("acceptance_rate", "tested_acceptance_rate", "predicted_acceptance", "outside_passes"):
        return f"{value:.0%}"
    return f"{value:.1f}" if name == "tokens_per_second" else f"{value:.3f}" if name == "tv" else f"{value:.2f}"


def numbers_table(numbers: dict[str, float | None]) -> str:
    """A line a number."""
    return "\n".join(f"  {DEFINITIONS[name][0]:24}{number(name, numbers[name]):>8}" for name in METRICS)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns: the first two to the left, the rest to the right."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(w) if i < 2 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in (header, *rows)
    ]
    return "\n".join(line.rstrip() for line in lines)


def bar(total: int, unit: str, shown: bool = True) -> Any:
    """A progress bar on stderr, where that is a terminal."""
    off = None if shown else True
    return tqdm(total=total, unit=unit, file=sys.stderr, disable=off, leave=False, dynamic_ncols=True)


def loading() -> Callable[[str], None] | None:
    """Says what is being loaded or made, on a line of its own in a terminal; None elsewhere."""
    if not sys.stderr.isatty():
        return None
    return lambda message: print(f"{harmless(message)} ...", file=sys.stderr)
