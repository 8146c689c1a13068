"""Prompt lookup where the text repeats itself, an assistant model where it does not.

Composed of the two: a looked-up draft is deterministic, an assistant's is drawn from its q. The assistant reads what
was written meanwhile when it is its turn again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from playground.engine import Proposal
from playground.trace import InvalidRequest
from strategies import assistant
from strategies.assistant import AssistantDrafter, same_vocabulary
from strategies.base import Choice, Context, Strategy
from strategies.prompt_lookup import PromptLookupDrafter

if TYPE_CHECKING:
    from playground.models import Loaded

SHORTEST = 3
ASSISTANT_K = 3


class LookupAssistantDrafter:
    """Drafts what followed the same words before; where nothing did, lets the assistant draft `assistant_k` tokens
    at most."""

    def __init__(self, context: Context) -> None:
        self._lookup, self._assistant = PromptLookupDrafter(context), AssistantDrafter(context)
        self._assistant_k = int(context.request.setting("assistant_k", ASSISTANT_K))

    def prepare(self, ids: Sequence[int]) -> None:
        """Let the assistant read the prompt."""
        self._assistant.prepare(ids)

    def propose(self, ids: Sequence[int], k: int) -> Proposal:
        """At most `k` tokens, looked up or drawn: q is None or [n, V]."""
        found = self._lookup.propose(ids, k)
        return found if found.ids else self._assistant.propose(ids, min(k, self._assistant_k))

    def release(self) -> None:
        """Free the assistant's cache."""
        self._assistant.release()


def _check(target: "Loaded", helper: "Loaded | None") -> None:
    if helper is None:
        raise InvalidRequest(
            "The strategy lookup+assistant needs an assistant model: choose one, for example smollm2-drafter; "
            "prompt-lookup needs none."
        )
    helper.check_writes()
    same_vocabulary(target, helper)


STRATEGY = Strategy(
    name="lookup+assistant",
    title="Prompt lookup, else assistant",
    about="Where the last few tokens occurred before, what followed them is the guess. Elsewhere a smaller model "
    "guesses.",
    wins="Wins where an answer copies some of the prompt and writes the rest itself.",
    build=LookupAssistantDrafter,
    needs_assistant=True,
    has_q=False,  # a looked-up draft has none
    settings=(
        Choice(
            name="min_ngram",
            label="Shortest match",
            help="How many of the last tokens must reappear; short matches lose to a good assistant.",
            default=SHORTEST,
            minimum=1,
            maximum=10,
            step=1,
        ),
        Choice(
            name="assistant_k",
            label="Assistant's draft length",
            help="The most tokens that the assistant guesses in a round; a looked-up guess costs nothing and has up "
            "to K.",
            default=ASSISTANT_K,
            minimum=1,
            maximum=32,
            step=1,
        ),
        *assistant.STRATEGY.settings,
    ),
    check=_check,
)
