"""Faults that other tools of this kind have had, as claims over every registered strategy. The numbers are
those of the project's list of cases."""

import re
from dataclasses import replace
from random import Random

import pytest
import torch
from fakes import ScriptedDrafter, ScriptedTarget, byte_tokenizer, pair_for, table_logits, tiny_llama
from runs import ALL, DRAFTING, Run, collect, run, without_times

from playground.engine import Proposal, decode
from playground.metrics import Tally
from playground.models import Loaded, wrap
from playground.text import IncrementalText, StopStrings, decode_all
from playground.trace import InvalidRequest, Request
from strategies import STRATEGIES

# Text that repeats, so that a lookup has something to find.
COPYING = tuple(b"abc abc abc abd abc abc ")


def agree(one: Run) -> None:
    """Token list, counts and identities say the same."""
    tally = Tally.of(one.rounds, one.started)
    assert tally.emitted == len(one.ids) == one.finished.emitted
    assert tally.drafted == sum(len(r.drafted) for r in one.rounds)
    assert tally.rounds == len(one.rounds) == one.finished.rounds
    assert sum(tally.accepted_lengths.values()) == tally.rounds
    for one_round in one.rounds:
        assert sum(t.verdict == "rejected" for t in one_round.tokens) <= 1
        assert sum(t.verdict in ("corrected", "bonus", "plain") for t in one_round.tokens) <= 1
        assert one_round.width == len(one_round.drafted) + 1


def replay_drafter(output: tuple[int, ...], prompt_length: int) -> ScriptedDrafter:
    """Drafts what comes next in `output`."""
    return ScriptedDrafter(lambda ids, k: Proposal(output[len(ids) - prompt_length :][:k]))


@pytest.mark.parametrize("k", [1, 3, 8])
def test_1_a_stop_token_inside_an_accepted_draft_ends_the_run_there(tiny: Loaded, k: int) -> None:
    prompt = (72, 101, 108)
    free = run("plain", tiny, prompt=prompt, max_new_tokens=24)
    for place, stop in enumerate(free.ids):
        request = Request(prompt_ids=prompt, max_new_tokens=24, k=k, stop_ids=(stop,))
        one = collect(decode(request, tiny.follow(), replay_drafter(free.ids, len(prompt))), request)
        first = free.ids.index(stop)
        assert one.ids == free.ids[: first + 1], f"stop token {stop} at {place}"
        assert one.finished.reason == ("stop_token")
        after = [t.verdict for r in one.rounds for t in r.tokens][len(one.ids) :]
        assert set(after) <= {"discarded"}
        agree(one)


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("seed", range(6))
def test_1_stop_tokens_hold_in_every_strategy(strategy: str, seed: int) -> None:
    target, helper = pair_for(strategy)
    values = {"prompt": COPYING, "max_new_tokens": 40, "temperature": 0.0 if seed == 0 else 1.0, "seed": seed}
    stop = run("plain", target, **values).ids[5]
    one = run(strategy, target, helper, stop_ids=(stop,), **values)
    assert stop not in one.ids[:-1]
    assert (one.ids[-1] == stop) == (one.finished.reason == "stop_token")
    agree(one)


@pytest.mark.parametrize("strategy", ALL)
def test_2_a_stop_token_in_the_prompt_does_not_end_the_run(strategy: str) -> None:
    target, helper = pair_for(strategy)
    free = run("plain", target, prompt=COPYING, max_new_tokens=20)
    stop = next(i for i in range(256) if i not in free.ids)
    prompt = (stop, *COPYING, stop, *COPYING)
    expected = run("plain", target, prompt=prompt, max_new_tokens=20, stop_ids=(stop,))
    one = run(strategy, target, helper, prompt=prompt, max_new_tokens=20, stop_ids=(stop,))
    assert one.ids == expected.ids
    assert stop not in one.ids[:-1]
    agree(one)


@pytest.mark.parametrize("strategy", ALL)
def test_3_a_model_without_a_stop_token_runs_to_its_length_limit(strategy: str) -> None:
    target, helper = pair_for(strategy, stops=False)
    assert target.stop_ids == ()
    one = run(strategy, target, helper, prompt=COPYING, max_new_tokens=30, stop_ids=target.stop_ids)
    assert (len(one.ids), one.finished.reason) == (30, "length")


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("limit", range(1, 7))
def test_4_max_new_tokens_is_exact(strategy: str, limit: int) -> None:
    target, helper = accepting_pair_for(strategy)
    one = run(strategy, target, helper, prompt=COPYING, max_new_tokens=limit, k=4)
    assert len(one.ids) == limit
    agree(one)


def accepting_pair_for(strategy: str) -> tuple[Loaded, Loaded]:
    """A pair whose drafts are accepted, where there is one: a target that drafts for itself."""
    target, helper = pair_for(strategy)
    return target, target if strategy == "assistant" else helper


@pytest.mark.parametrize("k", [1, 2, 5])
def test_7_a_target_that_drafts_for_itself_has_every_draft_accepted(tiny: Loaded, k: int) -> None:
    one = run("assistant", tiny, tiny, max_new_tokens=3 * (k + 1), k=k)
    assert {t.verdict for r in one.rounds for t in r.tokens} == {"accepted", "bonus"}
    assert Tally.of(one.rounds).acceptance_rate == 1.0


@pytest.mark.parametrize("strategy", DRAFTING)
def test_8_no_special_token_enters_a_draft_by_tokenising_again(strategy: str) -> None:
    target, helper = pair_for(strategy)
    one = run(strategy, target, helper, prompt=COPYING, max_new_tokens=40, banned_ids=(256,), temperature=1.0)
    assert all(t.id != 256 for r in one.rounds for t in r.tokens)


@pytest.mark.parametrize("strategy", DRAFTING)
@pytest.mark.parametrize("k", [1, 2, 5])
def test_9_never_more_than_k_tokens_are_drafted(strategy: str, k: int) -> None:
    target, helper = accepting_pair_for(strategy)
    for settings in every_option(strategy):
        one = run(strategy, target, helper, prompt=COPYING, max_new_tokens=40, k=k, settings=settings)
        assert max(len(r.drafted) for r in one.rounds) <= k


def every_option(strategy: str) -> list[dict[str, object]]:
    """Each option of each setting, one at a time."""
    return [{}] + [{c.name: value} for c in STRATEGIES[strategy].settings for value, _ in c.options]


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_10_two_runs_with_the_same_settings_have_the_same_trace(strategy: str, temperature: float) -> None:
    target, helper = pair_for(strategy)
    for settings in every_option(strategy):
        values = {"prompt": COPYING, "max_new_tokens": 40, "temperature": temperature, "settings": settings}
        first = run(strategy, target, helper, **values)
        run(strategy, target, helper, prompt=(1, 2, 3), max_new_tokens=9, temperature=0.7, seed=5)
        assert without_times(run(strategy, target, helper, **values)) == without_times(first)


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("seed", range(3))
def test_11_a_banned_token_never_appears(strategy: str, seed: int) -> None:
    target, helper = pair_for(strategy)
    values = {"prompt": COPYING, "max_new_tokens": 40, "temperature": 1.0, "seed": seed}
    banned = tuple({*run("plain", target, **values).ids, *COPYING})
    one = run(strategy, target, helper, banned_ids=banned, **values)
    assert not {t.id for r in one.rounds for t in r.emitted} & set(banned)
    agree(one)


def test_12_vocabularies_that_differ_in_padding_rows_work_together() -> None:
    for ours, theirs in ((257, 320), (320, 257)):
        target = wrap("target", tiny_llama(vocab=ours), byte_tokenizer())
        helper = wrap("helper", tiny_llama(seed=1, vocab=theirs), byte_tokenizer())
        for temperature in (0.0, 1.0):
            one = run("assistant", target, helper, prompt=COPYING, max_new_tokens=30, temperature=temperature)
            assert all(t.id < ours for r in one.rounds for t in r.tokens)
            agree(one)


@pytest.mark.parametrize("strategy", [s for s in DRAFTING if STRATEGIES[s].needs_assistant and s != "universal"])
def test_12_an_assistant_with_other_tokens_is_refused_by_name(strategy: str) -> None:
    target, helper = pair_for(strategy)
    other = byte_tokenizer()
    other.add_tokens(["strange"])
    with pytest.raises(InvalidRequest, match=rf"stranger.*{target.name}.*'strange'.*universal"):
        run(strategy, target, replace(helper, name="stranger", tokenizer=other))


@pytest.mark.parametrize("bad", [99, -1])
def test_13_no_id_outside_the_targets_vocabulary_is_fed_to_it(bad: int) -> None:
    target = ScriptedTarget(8, table_logits(8, 0))
    request = Request(prompt_ids=(1, 2), max_new_tokens=9)
    with pytest.raises(ValueError, match="outside the target's vocabulary of 8"):
        list(decode(request, target, ScriptedDrafter(lambda ids, k: Proposal((bad,)))))
    assert max(max(ids) for ids in target.fed) < 8
    with pytest.raises(InvalidRequest, match="Token id 8 lies outside"):
        list(decode(replace(request, prompt_ids=(1, 8)), target, ScriptedDrafter(lambda ids, k: Proposal())))


@pytest.mark.parametrize("strategy", ALL)
def test_14_the_counts_agree_wherever_a_run_is_stopped(strategy: str) -> None:
    target, helper = pair_for(strategy)
    for limit in (1, 2, 7):
        agree(run(strategy, target, helper, prompt=COPYING, max_new_tokens=limit, temperature=1.0))


@pytest.mark.parametrize("strategy", ALL)
def test_15_characters_split_over_a_drafts_end_are_never_shown_broken(strategy: str) -> None:
    # The output is bytes of emoji and Chinese; every byte is a token, so that every draft's end splits some.
    text = "héllo 👩‍🚀 世界 🎉 世界 🎉 世界 🎉! "
    script = tuple(byte_tokenizer()(text)["input_ids"])
    target = ScriptedTarget(257, lambda ids: 9.0 * torch.nn.functional.one_hot(torch.tensor(script[len(ids) - 1]), 257))
    rng = Random(0)

    def draft(ids: tuple[int, ...], k: int) -> Proposal:
        good = script[len(ids) - 1 :][: rng.randint(0, k)]
        return Proposal(good if rng.random() < 0.5 else (*good[:-1], 65) if good else ())

    request = Request(prompt_ids=(0,), max_new_tokens=len(script), k=6)
    one = collect(decode(request, target, ScriptedDrafter(draft)), request)
    incremental = IncrementalText(byte_tokenizer(), window=4)
    pieces = [incremental.push(t) for t in one.ids] + [incremental.finish()]
    assert "\ufffd" not in "".join(pieces)
    assert "".join(pieces) == decode_all(byte_tokenizer(), one.ids) == text


def test_16_a_strategy_that_cannot_run_says_why(tiny: Loaded) -> None:
    for name, chosen in STRATEGIES.items():
        if chosen.needs_assistant:
            with pytest.raises(InvalidRequest, match=f"{re.escape(name)} needs an assistant.*choose"):
                chosen.check(tiny, None)


def test_17_a_slow_reader_is_in_no_clock(tiny: Loaded) -> None:
    now = [0.0]

    def clock() -> float:
        return now[0]

    target = ScriptedTarget(8, table_logits(8, 0))

    def draft(ids: tuple[int, ...], k: int) -> Proposal:
        now[0] += 1.0
        return Proposal((1,))

    request = Request(prompt_ids=(1,), max_new_tokens=12)
    rounds = []
    for event in decode(request, target, ScriptedDrafter(draft), clock=clock):
        now[0] += 1000.0  # the page draws, the browser waits
        rounds.append(event)
    tally = Tally.of(rounds[1:-1], rounds[0])
    assert tally.seconds()["total"] == sum(1.0 for r in rounds[1:-1] if r.drafted)


@pytest.mark.parametrize("strategy", ALL)
@pytest.mark.parametrize("string", ["c a", "b", "d"])
def test_nothing_is_emitted_past_a_stop_string(strategy: str, string: str) -> None:
    tokenizer = byte_tokenizer()
    script = tuple(tokenizer("abc abc abd abc abc abd xyz")["input_ids"]) * 3
    logits_of = lambda ids: 9.0 * torch.nn.functional.one_hot(torch.tensor(script[len(ids) - 1]), 257)  # noqa: E731
    for k in (1, 4, 9):
        request = Request(prompt_ids=(0,), max_new_tokens=60, k=k, stop_strings=(string,))
        drafter = replay_drafter(script, 1)
        one = collect(
            decode(request, ScriptedTarget(257, logits_of), drafter, stop_rule=StopStrings(tokenizer, (string,))),
            request,
        )
        text = decode_all(tokenizer, one.ids)
        assert text.endswith(string) and text.count(string) == 1
        assert one.finished.reason == "stop_string"
        agree(one)


def test_stop_strings_without_a_rule_are_refused_not_ignored(tiny: Loaded) -> None:
    request = Request(prompt_ids=(1,), stop_strings=("x",))
    with pytest.raises(InvalidRequest, match="stop_strings"):
        list(decode(request, tiny.follow(), ScriptedDrafter(lambda ids, k: Proposal())))


@pytest.mark.parametrize("strategy", ALL)
def test_a_reader_that_leaves_early_frees_the_caches(strategy: str) -> None:
    target, drafter = ScriptedTarget(8, table_logits(8, 0)), ScriptedDrafter(lambda ids, k: Proposal((1,)))
    events = decode(Request(prompt_ids=(1,), max_new_tokens=50), target, drafter)
    for _ in range(3):
        next(events)
    events.close()
    assert (target.released, drafter.released) == (1, 1)


@pytest.mark.parametrize("strategy", ALL)
def test_the_targets_context_ends_the_run(strategy: str) -> None:
    target, helper = pair_for(strategy, stops=False)
    prompt = tuple(b"ab" * 253)
    one = run(strategy, target, helper, prompt=prompt, max_new_tokens=100)
    assert one.finished.reason == "context"
    assert len(prompt) + len(one.ids) == 513  # the last token is written, never read
    with pytest.raises(InvalidRequest, match="513 tokens long.*at most 512"):
        run(strategy, target, helper, prompt=(1,) * 513)
