"""The comparison below the page: what it accepts, what it measures, what it says of the results."""

import csv
import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fakes import pair_for
from hypothesis import given
from hypothesis import strategies as st

from playground import compare_prompts
from playground.bench import Task, racing
from playground.compare import (
    MOST_LANES,
    PLAIN,
    Combination,
    Measured,
    Prepare,
    Progress,
    Refused,
    Result,
    Skipped,
    Trying,
    assistants,
    combinations,
    compare,
    in_turn,
    parse_ks,
    races,
)
from playground.compare_figures import acceptance_by_position, look, of_series, speedup_over_k
from playground.compare_prompts import ALL_KINDS, FILE, KINDS, LARGEST, OPENINGS, PASTED, parse, tasks_of
from playground.compare_results import (
    Comparison,
    Estimate,
    best_k,
    bootstrap,
    by_task,
    of_each,
    positions,
    speedup_by_kind,
    table,
)
from playground.models import Loaded
from playground.run import Prepared, settle_verifier
from playground.trace import InvalidRequest, Request
from strategies import STRATEGIES

TASKS = (Task("a", "abc abc abc"), Task("b", "the park the park"), Task("a", "xyz xyz"))
WANTED = combinations(["assistant", "prompt-lookup"], (1, 3), ["exact"])


def preparing(target: Loaded, helper: Loaded, **values: Any) -> Prepare:
    """Runs on models in memory, checked as `prepare` checks them."""

    def prepare(way: Combination, prompt: str) -> Prepared:
        chosen = STRATEGIES[way.strategy]
        settle_verifier(way.verifier, {}, chosen, {})
        assistant = helper if chosen.needs_assistant else None
        chosen.check(target, assistant)
        request = Request(
            prompt_ids=target.prompt_ids(prompt, chat=False), strategy=way.strategy, k=way.k, verifier=way.verifier,
            settings=chosen.settled({}), prompt=prompt, **{"max_new_tokens": 12, **values},
        )  # fmt: skip
        prepared = Prepared(request, target, assistant)
        prepared.check_length()
        return prepared

    return prepare


@pytest.fixture(scope="module")
def results() -> tuple[Result, ...]:
    """A small comparison."""
    events = compare(TASKS, WANTED, preparing(*pair_for("assistant")))
    return tuple(r for e in events if isinstance(e, Measured) for r in e.results)


@pytest.mark.parametrize(
    ("text", "ks"),
    [
        ("1-6", (1, 2, 3, 4, 5, 6)),
        ("2,4,8", (2, 4, 8)),
        (" 8; 2 ,2", (2, 8)),
        ("1 – 3, 7", (1, 2, 3, 7)),
        ("32", (32,)),
    ],
)
def test_a_list_of_k_is_read(text: str, ks: tuple[int, ...]) -> None:
    assert parse_ks(text) == ks


@pytest.mark.parametrize(
    "text",
    ["", " , ", "0", "33", "1-33", "6-1", "a", "2,x", "1.5", "-3", "1--3", "1-2-3", "١", "9" * 7, "1," * 200, None, 3,
     ["1"], "1e1", "<b>1</b>"],
)  # fmt: skip
def test_a_bad_list_of_k_is_refused_with_an_example_or_the_range(text: object) -> None:
    with pytest.raises(Refused, match=r"such as 1-6|from 1 to 32"):
        parse_ks(text)


def test_combinations_come_in_the_order_of_the_registries_and_are_checked() -> None:
    found = combinations(["prompt-lookup", "assistant"], (1, 2), ["match", "exact"])
    assert [c.strategy for c in found[::4]] == ["assistant", "prompt-lookup"]
    assert found[:4] == tuple(Combination("assistant", k, v) for v in ("exact", "match") for k in (1, 2))
    for strategies, verifiers, part in (
        ([], ["exact"], "No strategy"), (["assistant"], [], "No verifier"), (["plain"], ["exact"], "'plain'"),
        (["assistant"], ["nice"], "'nice'"), (["assistant", {}], ["exact"], "{}"),
    ):  # fmt: skip
        with pytest.raises(Refused, match=part):
            combinations(strategies, (1,), verifiers)
    with pytest.raises(Refused, match="make 96 combinations, and at most 60"):
        combinations(["assistant", "prompt-lookup", "eagle"], range(1, 33), ["exact"])


def test_what_is_refused_can_be_translated_by_its_text_and_values() -> None:
    with pytest.raises(Refused) as caught:
        parse_ks("two")
    error = caught.value
    assert "{value}" in error.text and error.text.replace("{value}", str(error.values["value"])) == str(error)


@given(st.lists(st.sampled_from("abc"), max_size=12))
def test_prompts_go_in_a_round_over_their_kinds(kinds: list[str]) -> None:
    tasks = [Task(kind, str(i)) for i, kind in enumerate(kinds)]
    turned = in_turn(tasks)
    assert sorted(t.prompt for t in turned) == sorted(t.prompt for t in tasks)
    for end in range(len(turned)):
        seen = [sum(t.kind == kind for t in turned[:end]) for kind in set(kinds)]
        left = [sum(t.kind == kind for t in turned[end:]) for kind in set(kinds)]
        # A kind is behind another only where it has no prompt left.
        assert all(mine >= max(seen) - 1 for mine, rest in zip(seen, left, strict=True) if rest)


@given(st.integers(1, 60))
def test_races_hold_every_combination_once_and_are_of_about_the_same_size(count: int) -> None:
    ways = [Combination("assistant", i + 1, "exact") for i in range(count)]
    dealt = races(ways)
    assert [way for group in dealt for way in group] == ways
    sizes = [len(group) for group in dealt]
    assert max(sizes) <= MOST_LANES and max(sizes) - min(sizes) <= 1


def test_all_combinations_of_a_prompt_are_measured_with_plain_decoding_in_the_same_race() -> None:
    events = list(compare(TASKS, WANTED, preparing(*pair_for("assistant"))))
    raced = [e for e in events if isinstance(e, Measured)]
    assert [{r.task for r in e.results} for e in raced] == [{0}, {1}, {2}] and all(e.last for e in raced)
    for one in raced:
        assert [r.combination for r in one.results] == [PLAIN, *WANTED]
        assert one.results[0].numbers["measured_speedup"] == 1
        assert all(r.emitted == 12 and r.numbers["measured_speedup"] > 0 for r in one.results)
        assert [r.rounds for r in one.results[:1]] == [12]
        assert all(r.seconds["total"] > 0 and sum(r.accepted_at) <= sum(r.drafted_at) for r in one.results)
    progress = [e for e in events if isinstance(e, Progress) and e.total]
    assert [e.done for e in progress] == sorted(e.done for e in progress)
    assert progress[-1].done == progress[-1].total == 3 * 5 * 12
    assert [e.combination for e in events if isinstance(e, Trying)] == list(WANTED)


def test_more_lanes_than_a_race_holds_are_dealt_to_several_each_with_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playground.compare.MOST_LANES", 2)
    events = list(compare(TASKS[:2], WANTED, preparing(*pair_for("assistant"))))
    raced = [e for e in events if isinstance(e, Measured)]
    assert [(e.results[0].task, e.results[0].race, e.last) for e in raced] == [
        (0, 0, False), (0, 1, True), (1, 0, False), (1, 1, True),
    ]  # fmt: skip
    assert all(e.results[0].combination == PLAIN and len(e.results) == 3 for e in raced)
    results = [r for e in raced for r in e.results]
    plain = [r for r in results if r.combination == PLAIN]
    assert len(plain) == 4 and len(by_task(plain, "tokens_per_second")) == 2  # one value a prompt
    assert table(results)[0][:2] == (PLAIN, 2)


def test_what_cannot_run_is_named_and_the_rest_is_measured() -> None:
    wanted = combinations(["assistant", "prompt-lookup", "mtp", "eagle"], (2,), ["exact", "ensemble"])
    events = list(compare(TASKS[:1], wanted, preparing(*pair_for("assistant"))))
    skipped = {e.combination: e.reason for e in events if isinstance(e, Skipped)}
    assert {(c.strategy, c.verifier) for c in skipped if c} == {
        ("prompt-lookup", "ensemble"), ("mtp", "exact"), ("mtp", "ensemble"), ("eagle", "exact"), ("eagle", "ensemble"),
    }  # fmt: skip
    assert all(skipped.values())
    results = [r for e in events if isinstance(e, Measured) for r in e.results]
    assert [(r.combination.strategy, r.combination.verifier) for r in results] == [
        ("plain", "exact"), ("assistant", "exact"), ("assistant", "ensemble"), ("prompt-lookup", "exact"),
    ]  # fmt: skip
    assert next(r for r in results if r.combination.verifier == "ensemble").numbers["tv"] is not None


def test_a_prompt_that_the_target_cannot_read_is_skipped_and_counted_as_done() -> None:
    tasks = (TASKS[0], Task("long", "x" * 600), TASKS[1])
    events = list(compare(tasks, WANTED[:1], preparing(*pair_for("assistant"))))
    [skipped] = [e for e in events if isinstance(e, Skipped)]
    assert skipped.task == 1 and skipped.combination is None and "600 tokens long" in skipped.reason
    assert {r.task for e in events if isinstance(e, Measured) for r in e.results} == {0, 2}
    last = [e for e in events if isinstance(e, Progress)][-1]
    assert last.done == last.total


def test_where_nothing_can_run_nothing_is_measured_and_where_not_even_plain_it_is_refused() -> None:
    prepare = preparing(*pair_for("assistant"))
    events = list(compare(TASKS, combinations(["mtp"], (1,), ["exact"]), prepare))
    assert [type(e) for e in events] == [Trying, Skipped]
    with pytest.raises(InvalidRequest, match="temperature is -1"):
        list(compare(TASKS, WANTED, preparing(*pair_for("assistant"), temperature=-1.0)))


def test_closing_it_in_the_middle_of_a_race_ends_every_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playground.compare.STEP_SECONDS", 0.0)
    closed = []

    def watched(lanes: Any) -> Any:
        try:
            return (yield from racing(lanes))
        finally:
            closed.append(len(lanes))

    monkeypatch.setattr("playground.compare.racing", watched)
    jobs = []

    def call(work: Callable[[], Any]) -> Any:
        jobs.append(work)
        return work()

    events = compare(TASKS, WANTED, preparing(*pair_for("assistant"), max_new_tokens=200), call)
    done = next(e.done for e in events if isinstance(e, Progress) and e.done > 3)
    before = len(jobs)
    events.close()
    assert 3 < done < 200  # of one prompt's 1000 tokens
    assert closed[-1] == 5 and len(jobs) == before + 1  # the job that closes the race
    assert list(events) == []


def test_a_job_is_short_so_that_others_runs_go_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("playground.compare.STEP_SECONDS", 0.002)
    written = []

    def call(work: Callable[[], Any]) -> Any:
        out = work()
        written.append(out[0] if isinstance(out, tuple) and out else 0)
        return out

    list(compare(TASKS[:1], WANTED, preparing(*pair_for("assistant"), max_new_tokens=48), call))
    assert sum(written) >= 5 * 48 and max(written) < 48


@pytest.mark.parametrize(
    ("target", "chosen", "chosen_for", "strategy", "tried"),
    [
        ("smollm2-135m-instruct", "smollm2-drafter", "assistant", "assistant", ("smollm2-drafter",)),
        ("smollm2-135m-instruct", "smollm2-drafter", "assistant", "universal", ("story-drafter",)),
        ("smollm2-135m-instruct", "smollm2-drafter", "prompt-lookup", "eagle", ("smollm2-eagle",)),
        ("smollm2-135m-instruct", "smollm2-drafter", "universal", "universal", ("smollm2-drafter", "story-drafter")),
        ("smollm2-135m-instruct", "mine", "assistant", "lookup+assistant", ("mine", "smollm2-drafter")),
        ("story-gemma", None, "assistant", "mtp-drafter", ("story-gemma-assistant",)),
    ],
)
def test_a_strategy_gets_the_chosen_assistant_or_else_its_usual_one(
    target: str, chosen: str | None, chosen_for: str, strategy: str, tried: tuple[str, ...]
) -> None:
    assert assistants(target, chosen, chosen_for, strategy) == tried


# Prompt sets


def test_the_bundled_sets_have_eight_kinds_of_six_prompts_or_more_and_short_passages() -> None:
    tasks = tasks_of(ALL_KINDS)
    assert {t.kind for t in tasks} == set(KINDS) and len(KINDS) == 8
    assert [t.kind for t in tasks[:8]] == list(KINDS)
    for kind in KINDS:
        own = tasks_of(kind)
        assert len(own) >= 6 and {t.kind for t in own} == {kind} and len({t.prompt for t in own}) == len(own)
    for kind in ("summarising", "retrieval"):
        for task in tasks_of(kind):
            assert 60 <= len(task.prompt.split("\n\n")[1].removeprefix("Passage: ").split()) <= 120
    assert max(len(t.prompt.split()) for t in tasks) <= 150


def test_the_openings_are_offered_and_the_limit_is_kept() -> None:
    assert {t.kind for t in tasks_of(OPENINGS)} == {"opening"}
    assert len(tasks_of(ALL_KINDS, per_kind=2)) == 16
    assert len(tasks_of("code", per_kind=3.0)) == 3
    for bad in (0, -1, 1.5, "2", True, float("nan"), float("inf")):
        with pytest.raises(Refused, match="Prompts per kind is"):
            tasks_of(ALL_KINDS, per_kind=bad)
    with pytest.raises(Refused, match="'../secret'"):
        tasks_of("../secret")


def test_pasted_prompts_are_lines_or_objects() -> None:
    assert tasks_of(PASTED, "one\n\n  two  \n") == (Task("own", "one"), Task("own", "two"))
    assert parse('{"kind": "chat", "prompt": "a\\nb"}\n{"kind": "code", "prompt": "{}"}') == (
        Task("chat", "a\nb"), Task("code", "{}"),
    )  # fmt: skip
    assert parse("say\u2028this\n# <script>")[0].prompt == "say\u2028this"  # only a newline ends a line


MANY_KINDS = "\n".join(json.dumps({"kind": f"k{i}", "prompt": "x"}) for i in range(21))
DEEP = '{"kind": "a", "prompt": ' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no prompt"), ("\n \n", "no prompt"), ('{"kind": "a"}', "Line 1: prompt is None"),
        ('{"kind": "a", "prompt": "x"}\nplain words', "Line 2: .*no JSON"), ('{"kind": 3, "prompt": "x"}', "kind is 3"),
        ('{"kind": "all", "prompt": "x"}', "stands for all"), ('{"kind": "a", "prompt": NaN}', "Line 1"),
        (DEEP, "Line 1"), ('{"kind": "a", "prompt": ' + "9" * 5000 + "}", "Line 1"),
        ('{"kind": "a", "prompt": "\\ud800"}', "no text"), ('{"kind": "a", "prompt": "a\\u0000b"}', "no text"),
        ('{"kind": "' + "k" * 41 + '", "prompt": "x"}', "41 characters"), ("x" * 20_001, "20001 characters"),
        ("x\n" * 501, "501 prompts"), (MANY_KINDS, "21 kinds"),
        ("{" * 5, "Line 1"), ("y" * (LARGEST + 1), "longer than 1 MB"), ('{"__proto__": 1}', "Line 1"),
    ],
)  # fmt: skip
def test_a_bad_text_is_refused_and_the_line_is_named(text: str, part: str) -> None:
    with pytest.raises(Refused, match=part):
        tasks_of(PASTED, text)


def test_a_hostile_file_is_refused_and_a_fine_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "prompts"
    for data, part in (
        (b"x" * (LARGEST + 1), "larger than 1 MB"), (b"\xff\xfe\x00", "UTF-8"), (b"\x89PNG\r\n", "UTF-8"),
        (b"", "no prompt"), (b"PK\x03\x04\x00\x00", "no text"),
    ):  # fmt: skip
        path.write_bytes(data)
        with pytest.raises(Refused, match=part):
            tasks_of(FILE, file=str(path))
    for missing in (None, "", str(tmp_path / "none"), str(tmp_path)):
        with pytest.raises(Refused, match="No file|cannot be read"):
            tasks_of(FILE, file=missing)
    path.write_bytes("\ufeffeins\r\nzwei\r\n".encode())
    assert [t.prompt for t in tasks_of(FILE, file=str(path))] == ["eins", "zwei"]


def test_a_huge_file_is_never_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with path.open("wb") as file:
        file.truncate(2**33)  # sparse
    with pytest.raises(Refused, match="larger than 1 MB"):
        compare_prompts.read_file(str(path))


# Results


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=40))
def test_the_interval_contains_the_median_and_lies_within_the_values(values: list[float]) -> None:
    estimate = bootstrap(values)
    assert estimate is not None and estimate.n == len(values)
    assert min(values) <= estimate.low <= estimate.median <= estimate.high <= max(values)
    assert bootstrap(values) == estimate  # the same resamples each time


@given(st.floats(0.01, 100), st.integers(1, 30))
def test_the_interval_of_identical_values_is_a_point(value: float, count: int) -> None:
    assert bootstrap([value] * count) == Estimate(value, value, value, count)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says() -> None:
    rng = random.Random(0)
    found = [bootstrap([rng.gauss(0, 1) for _ in range(25)]) for _ in range(200)]
    covered = sum(e is not None and e.low <= 0 <= e.high for e in found) / 200
    assert 0.9 <= covered <= 0.99
    assert bootstrap([]) is None


def test_table_and_heat_map_are_the_medians_of_what_was_measured(results: tuple[Result, ...]) -> None:
    rows = table(results)
    assert [(way, n) for way, n, _ in rows] == [(way, 3) for way in (PLAIN, *WANTED)]
    for way, _, cells in rows:
        own = sorted(r.numbers["measured_speedup"] or 0 for r in results if r.combination == way)
        speedup = cells["measured_speedup"]
        assert speedup is not None and speedup.median == own[1] and speedup.high <= own[2]
    kinds, heat = speedup_by_kind(results, TASKS)
    assert kinds == ["a", "b"] and [way for way, _ in heat] == list(WANTED)
    assert all([cell.n for cell in cells if cell] == [2, 1, 3] for _, cells in heat)


def test_the_best_k_is_the_fastest_and_is_only_named_where_there_is_a_choice() -> None:
    estimates = {k: Estimate(s, s, s, 1) for k, s in ((1, 1.2), (4, 1.5), (2, 1.5), (8, 0.9))}
    assert best_k(estimates) == 2
    assert best_k({3: Estimate(1.0, 1.0, 1.0, 1)}) is None


def test_acceptance_by_position_is_pooled_over_prompts(results: tuple[Result, ...]) -> None:
    own = of_each(results)[WANTED[1]]
    unconditional, conditional = positions(own)
    assert len(unconditional) == 3
    drafted, accepted = (sum(getattr(r, name)[0] for r in own) for name in ("drafted_at", "accepted_at"))
    assert unconditional[0] == conditional[0] == accepted / drafted
    for u, c in zip(unconditional, conditional, strict=True):
        assert u is not None and 0 <= u <= 1 and (c is None or u <= c <= 1)


def test_figures_name_colours_and_mark_the_best_k(results: tuple[Result, ...]) -> None:
    figure = speedup_over_k(results)
    assert [t["meta"]["strategy"] for t in figure["data"]] == ["assistant", "prompt-lookup"]
    for trace in figure["data"]:
        assert trace["x"] == [1, 3]
        best = trace["meta"]["best"]
        assert trace["y"][trace["x"].index(best)] == max(trace["y"])
        assert trace["marker"]["symbol"].count("star") == 1
    figures = acceptance_by_position(results)
    assert set(figures) == {"unconditional", "conditional"}
    assert [t["meta"]["k"] for t in figures["conditional"]["data"]] == [3, 3]
    json.dumps([figure, figures], allow_nan=False)
    empty = speedup_over_k([])
    assert empty["data"] == [] and empty["layout"]["xaxis"]["title"]["text"]


def test_every_strategy_has_a_look_of_its_own_and_keeps_it_under_every_verifier() -> None:
    series = [(s, v) for s in STRATEGIES if s != "plain" for v in ("exact", "match")]
    looks = [look(one, dict.fromkeys(series)) for one in series]
    assert len(set(looks)) == len(series)
    assert all(a[:2] == b[:2] and a[2] != b[2] for a, b in zip(looks[::2], looks[1::2], strict=True))
    assert of_series([]) == {}


def _comparison(results: tuple[Result, ...], tasks: tuple[Task, ...] = TASKS) -> Comparison:
    skipped = [Skipped("has no layers", Combination("mtp", 1, "exact")), Skipped("too long", task=2)]
    ways = {way: {"assistant": None, "lossless": True, "settings": {"ngram": 3}} for way in (PLAIN, *WANTED)}
    return Comparison({"target": "tiny", "seed": 0}, tasks, results, skipped, ways)


def test_the_json_file_holds_every_measurement_with_its_settings(results: tuple[Result, ...]) -> None:
    out = json.loads(_comparison(results).to_json())
    assert out["schema"].endswith("comparison") and out["version"] == 1 and out["settings"]["target"] == "tiny"
    assert len(out["measurements"]) == 3 * 5 and out["prompts"][1] == {"kind": "b", "prompt": TASKS[1].prompt}
    for one, result in zip(out["measurements"], results, strict=True):
        way = out["combinations"][one["combination"]]
        assert (way["strategy"], way["k"], way["settings"]) == (
            result.combination.strategy, result.combination.k, {"ngram": 3},
        )  # fmt: skip
        assert one["numbers"] == result.numbers and one["prompt"] == result.task
    assert [s["reason"] for s in out["skipped"]] == ["has no layers", "too long"]
    assert out["summary"][0]["n"] == 3


def test_the_csv_file_has_a_row_a_measurement_and_no_formula(results: tuple[Result, ...]) -> None:
    evil = (Task("=1+1", '=HYPERLINK("x")\n"quoted", with comma'), Task("@b", "-2"), Task("+a", "\tx"))
    rows = list(csv.DictReader(io.StringIO(_comparison(results, evil).to_csv())))
    assert len(rows) == 15
    assert rows[0]["prompt"] == "'" + evil[0].prompt and rows[0]["kind"] == "'=1+1" and rows[5]["prompt"] == "'-2"
    assert not [v for row in rows for v in row.values() if v[:1] in "=@\t" and v]
    assert float(rows[1]["measured_speedup"]) == results[1].numbers["measured_speedup"]
    assert {row["target"] for row in rows} == {"tiny"} and json.loads(rows[1]["settings"]) == {"ngram": 3}
    assert _comparison(()).to_csv().count("\n") == 1  # before anything was measured
