"""Plain decoding: the empty draft, so that it is timed by the very loop that speculates."""

from collections.abc import Sequence

from playground.engine import Proposal
from strategies.base import Context, Strategy


class PlainDrafter:
    """Proposes nothing."""

    def prepare(self, ids: Sequence[int]) -> None:
        """Nothing to read."""

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """The empty draft."""
        return Proposal()

    def release(self) -> None:
        """Nothing to free."""


def _build(context: Context) -> PlainDrafter:
    return PlainDrafter()


STRATEGY = Strategy(
    name="plain",
    title="Plain decoding",
    about="No guessing: one target pass for every token. The baseline that all others are measured against.",
    wins="Never faster than itself; the others are slower than this when their guesses are bad or dear.",
    build=_build,
    drafts=False,
)
