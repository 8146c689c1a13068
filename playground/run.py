"""From settings to a checked run: the one place where every face (page, command line, benchmark, test)
builds a Request, its target and its drafter."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from playground.cache import PrefixModel
from playground.catalogue import usual_assistant
from playground.engine import decode
from playground.models import DEFAULT_TARGET, Library, Loaded, find
from playground.sampling import VERIFIERS, Law, verifier_settings
from playground.text import StopStrings
from playground.trace import Event, InvalidRequest, Request, Setting
from strategies import Context, Strategy, strategy
from strategies.base import drafter_rng


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request with the models that it names, checked, ready to decode."""

    request: Request
    target: Loaded
    assistant: Loaded | None

    def events(self, calibrate: bool = False, followed: list[PrefixModel] | None = None) -> Iterator[Event]:
        """Decode it. Every call is a run of its own: fresh caches, fresh random numbers. The models that it
        follows are appended to `followed`, for whoever wants to know the time of their passes."""
        chosen = strategy(self.request.strategy)
        target = chosen.follow(self.target, self.request)
        assistant = None if self.assistant is None else self.assistant.follow()
        if followed is not None:
            followed += [model for model in (target, assistant) if model is not None]
        context = Context(
            request=self.request,
            target=target,
            assistant=assistant,
            law=Law(self.request),
            rng=drafter_rng(self.request),
            target_tokenizer=self.target.tokenizer,
            assistant_tokenizer=None if self.assistant is None else self.assistant.tokenizer,
        )
        drafter = chosen.build(context)
        strings = self.request.stop_strings
        rule = StopStrings(self.target.tokenizer, strings) if strings else None
        return decode(self.request, target, drafter, stop_rule=rule, calibrate=calibrate)

    def check_length(self) -> None:
        """Refuse a prompt that the target cannot read, before any pass.

        Raises:
            InvalidRequest: it is longer than the target's context.
        """
        context, length = self.target.context, len(self.request.prompt_ids)
        if context is not None and length > context:
            raise InvalidRequest(
                f"The prompt {self.request.prompt[:40]!r} is {length} tokens long and the target reads at most "
                f"{context}: shorten it."
            )

    def plain(self) -> "Prepared":
        """The same request without guessing: its baseline."""
        return Prepared(replace(self.request, strategy="plain", settings=(), assistant=None), self.target, None)


def prepare(
    library: Library,
    prompt: str,
    *,
    target: str = DEFAULT_TARGET,
    assistant: str | None = None,
    strategy_name: str = "assistant",
    settings: Mapping[str, object] | None = None,
    verifier: str = "exact",
    verifier_settings: Mapping[str, object] | None = None,
    chat: bool = True,
    banned: tuple[str, ...] = (),
    progress: Any = None,
    **values: Any,
) -> Prepared:
    """Check all settings, then load the models, then check the pair. `values` are fields of Request.

    Raises:
        InvalidRequest: something cannot be run; nothing was loaded unless only the models could tell.
    """
    chosen = strategy(strategy_name)
    settled = chosen.settled(settings or {})
    if not prompt.strip():
        raise InvalidRequest("The prompt is empty: type something to continue.")
    rule = settle_verifier(verifier, verifier_settings or {}, chosen, settings or {})
    assistant_name = (assistant or usual_assistant(target, strategy_name)) if chosen.needs_assistant else None
    # A request with a stand-in prompt: every other value is checked before anything is loaded.
    draft = Request(
        prompt_ids=(0,),
        strategy=strategy_name,
        settings=settled,
        target=target,
        assistant=assistant_name,
        prompt=prompt,
        chat=chat,
        verifier=verifier,
        verifier_settings=rule,
        **values,
    )
    find(target, "target")
    if assistant_name is not None:
        find(assistant_name, "assistant")
    loaded = library.load(target, progress)
    helper = None if assistant_name is None else library.load(assistant_name, progress)
    loaded.check_writes()
    chosen.check(loaded, helper)
    chosen.check_settings(loaded, settled)
    request = replace(
        draft,
        prompt_ids=loaded.prompt_ids(prompt, chat),
        stop_ids=draft.stop_ids or loaded.stop_ids,
        banned_ids=banned_ids(loaded, banned) or draft.banned_ids,
    )
    prepared = Prepared(request, loaded, helper)
    prepared.check_length()
    return prepared


def settle_verifier(
    name: str, values: Mapping[str, object], chosen: Strategy, settings: Mapping[str, object]
) -> tuple[tuple[str, Setting], ...]:
    """The settings of the verifier of that name, checked, defaults filled in.

    Raises:
        InvalidRequest: no such verifier, a bad setting, or it mixes q in and the strategy's drafts have none under
            these `settings`.
    """
    settled = verifier_settings(name, values)
    if VERIFIERS[name].mixes and chosen.drafts and not chosen.gives_q(settings):
        if chosen.q_when is not None:
            raise InvalidRequest(
                f"verifier is {name!r}, which mixes the drafter's probabilities in, and {chosen.name} has none here: "
                f"set {chosen.q_when[0]} to {chosen.q_when[1]!r}, choose a strategy with a drafting model, such as "
                "assistant, or another verifier."
            )
        raise InvalidRequest(
            f"verifier is {name!r}, which mixes the drafter's probabilities in, and {chosen.name} has none here: "
            "choose a strategy with a drafting model, such as assistant, or another verifier."
        )
    return settled


def banned_ids(target: Loaded, words: tuple[str, ...]) -> tuple[int, ...]:
    """The tokens of those words, at the start of a text and after a space.

    Raises:
        InvalidRequest: a word is more than one token, so that no single id can be banned for it.
    """
    found: set[int] = set()
    for word in words:
        spellings = [target.tokenizer(s, add_special_tokens=False)["input_ids"] for s in (word, f" {word}")]
        single = {ids[0] for ids in spellings if len(ids) == 1}
        if not single:
            raise InvalidRequest(
                f"The banned word {word!r} is {len(spellings[0])} tokens of {target.name}: ban one of a single token."
            )
        found |= single
    return tuple(sorted(found))
