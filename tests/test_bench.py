"""The benchmark: its file of prompts, its rows, and that it measures the same work as transformers' generate."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from fakes import pair_for

from playground import bench, cli_bench
from playground.bench import ALL, Measurement, Task
from playground.cli import main
from playground.models import Loaded
from playground.run import Prepared
from playground.trace import InvalidRequest, Request, emitted_ids
from playground.trace import Round as RoundEvent
from strategies import STRATEGIES

ROW = [
    "strategy", "kind", "n", "acceptance_rate", "tested_acceptance_rate", "alpha", "predicted_acceptance", "tv",
    "tokens_per_pass", "cost_ratio",
    "tokens_per_second", "measured_speedup", "predicted_speedup", "efficiency", "generate_ratio", "outside_passes",
]  # fmt: skip
WITH_GENERATE = ("plain", "assistant", "prompt-lookup", "early-exit", "universal")


def _prepared(tiny: Loaded, helper: Loaded, strategy: str, prompt: str = "abc abc abc", **values: object) -> Prepared:
    chosen = STRATEGIES[strategy]
    request = Request(
        prompt_ids=tiny.prompt_ids(prompt, chat=False), stop_ids=tiny.stop_ids, strategy=strategy,
        settings=chosen.settled({}), **{"max_new_tokens": 24, **values},
    )  # fmt: skip
    return Prepared(request, tiny, helper if chosen.needs_assistant else None)


def _file(folder: Path, *lines: object) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines), encoding="utf-8")
    return path


def test_the_file_is_read_in_order_by_kind_and_limit(tmp_path: Path) -> None:
    lines = [{"kind": k, "prompt": p} for k, p in (("a", "1"), ("b", "2"), ("a", "3"), ("a", "4"))]
    path = _file(tmp_path, *lines[:2], "", *lines[2:])
    assert [t.prompt for t in bench.read_tasks(path)] == ["1", "2", "3", "4"]
    assert [t.prompt for t in bench.read_tasks(path, limit=2)] == ["1", "2", "3"]
    assert [t.prompt for t in bench.read_tasks(path, kinds=["a"])] == ["1", "3", "4"]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", "3", "null", '{"kind": "a"}', '{"prompt": "x"}', '{"kind": 1, "prompt": "x"}',
     '{"kind": "a", "prompt": " "}', '{"kind": "a", "prompt": null}', '{"kind": "all", "prompt": "x"}'],
)  # fmt: skip
def test_a_bad_line_is_named_by_its_number(line: str, tmp_path: Path) -> None:
    path = _file(tmp_path, {"kind": "a", "prompt": "fine"}, "", line)
    with pytest.raises(InvalidRequest, match="line 3"):
        bench.read_tasks(path)


def test_a_file_without_prompts_or_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no prompt"):
        bench.read_tasks(_file(tmp_path, ""))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidRequest, match="cannot be read"):
        bench.read_tasks(tmp_path / "binary")


def test_the_bundled_file_can_be_read() -> None:
    tasks = bench.read_tasks(cli_bench.PROMPTS)
    assert len(tasks) >= 12
    assert len({t.prompt for t in tasks}) == len(tasks)


def test_plain_is_always_among_the_strategies_and_first() -> None:
    assert cli_bench.chosen(None, 4)[0].strategy == "plain"
    assert sorted(v.strategy for v in cli_bench.chosen(None, 4)) == sorted(STRATEGIES)
    assert [v.label for v in cli_bench.chosen("prompt-lookup, plain,prompt-lookup", 4)] == ["plain", "prompt-lookup"]


def test_a_strategy_is_compared_with_itself_under_other_settings() -> None:
    _, first, second = cli_bench.chosen("prompt-lookup:take=first,prompt-lookup:k=7:ngram=2", 4)
    assert (first.strategy, first.k, first.settings) == ("prompt-lookup", 4, {"take": "first"})
    assert (second.strategy, second.k, second.settings) == ("prompt-lookup", 7, {"ngram": 2})
    with pytest.raises(InvalidRequest, match="NAME=VALUE"):
        cli_bench.chosen("plain:oops", 4)
    for nothing in ("", " , "):
        with pytest.raises(InvalidRequest, match=f"strategies is '{nothing}'.*plain"):
            cli_bench.chosen(nothing, 4)
    _, third = cli_bench.chosen("assistant:verifier=typical:schedule=heuristic:delta=0.5", 4)
    assert (third.settings, third.verifier, third.verifier_settings) == (
        {"schedule": "heuristic"}, "typical", {"delta": 0.5},
    )  # fmt: skip


@pytest.mark.parametrize("k", [1, 3, 5])
@pytest.mark.parametrize("strategy", WITH_GENERATE)
def test_generate_is_given_the_same_work(strategy: str, k: int) -> None:
    prepared = _prepared(*pair_for(strategy), strategy, k=k)
    options = bench._generate_options(prepared)
    assert options is not None
    ours = emitted_ids(e for e in prepared.events() if isinstance(e, RoundEvent))
    assert bench.generate(prepared, options) == list(ours)


@pytest.mark.parametrize("k", [1, 4])
def test_generate_drafts_k_tokens_as_we_do(k: int, tiny: Loaded, tiny_helper: Loaded) -> None:
    # The width of its passes: as many logits are kept as tokens were drafted, and one.
    prepared = _prepared(tiny, tiny_helper, "assistant", k=k)
    widths: list[int] = []
    hook = tiny.model.register_forward_pre_hook(
        lambda model, args, kwargs: widths.append(kwargs.get("logits_to_keep", 1)), with_kwargs=True
    )
    try:
        bench.generate(prepared, bench._generate_options(prepared) or {})
    finally:
        hook.remove()
    assert max(widths) == k + 1


@pytest.mark.parametrize("fails", [False, True])
def test_the_assistants_own_settings_are_restored(
    fails: bool, tiny: Loaded, tiny_helper: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tiny_helper.model.generation_config
    kept = before.to_dict()
    prepared = _prepared(tiny, tiny_helper, "assistant")
    if fails:
        prepared = replace(prepared, request=replace(prepared.request, max_new_tokens=3))
        monkeypatch.setattr(torch, "ones_like", lambda *_: (_ for _ in ()).throw(RuntimeError("no")))
        with pytest.raises(RuntimeError):
            bench.generate(prepared, {"assistant_model": tiny_helper.model})
    else:
        bench.generate(prepared, {"assistant_model": tiny_helper.model})
    assert tiny_helper.model.generation_config is before
    assert before.to_dict() == kept


def test_a_sampled_generate_uses_the_requests_law(tiny: Loaded, tiny_helper: Loaded) -> None:
    # With the top token alone left, sampling is greedy.
    greedy = _prepared(tiny, tiny_helper, "plain")
    sampled = _prepared(tiny, tiny_helper, "plain", temperature=1.0, top_k=1)
    wild = _prepared(tiny, tiny_helper, "plain", temperature=5.0)
    assert bench.generate(sampled, {}) == bench.generate(greedy, {})
    assert bench.generate(wild, {}) != bench.generate(greedy, {})


def test_a_strategy_that_transformers_lacks_has_no_ratio(tiny: Loaded, tiny_helper: Loaded) -> None:
    prepared = _prepared(tiny, tiny_helper, "plain")
    prepared = replace(prepared, request=replace(prepared.request, strategy="of one's own"))
    assert bench.generate_ratio(prepared, ours_first=True) is None


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_what_is_outside_the_passes_is_a_share(strategy: str) -> None:
    run = _prepared(*pair_for(strategy), strategy, max_new_tokens=4)
    numbers = bench.measure([run.plain(), run])
    assert all(0 < (n["outside_passes"] or 0) < 1 for n in numbers)
    assert numbers[0]["measured_speedup"] == 1


def test_rows_are_medians_of_what_is_defined() -> None:
    given = [("s", "a", 1.0), ("s", "a", 2.0), ("s", "b", 9.0), ("s", "b", None), ("t", "a", None)]
    rows = bench.rows([Measurement(strategy, kind, {"x": value}) for strategy, kind, value in given])
    got = {(r["strategy"], r["kind"]): (r["n"], r.get("x")) for r in rows}
    assert got[("s", "a")] == (2, 1.5)
    assert got[("s", "b")] == (2, 9.0)
    assert got[("s", ALL)] == (3 + 1, 2.0)
    assert got[("t", "a")] == got[("t", ALL)] == (1, None)
    assert ("t", "b") not in got


def test_a_prompt_that_does_not_fit_is_refused_before_anything_is_measured(tiny: Loaded, tiny_helper: Loaded) -> None:
    tasks = [Task("a", "short"), Task("a", "x" * 600)]
    measured = bench.bench(tasks, lambda task: [_prepared(tiny, tiny_helper, "plain", task.prompt)])
    with pytest.raises(InvalidRequest, match="600 tokens"):
        next(measured)


@pytest.mark.parametrize("against", [False, True])
def test_the_command_prints_a_row_a_strategy_and_kind(
    against: bool, tiny_folders: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, assistant = map(str, tiny_folders)
    path = _file(tmp_path, *({"kind": kind, "prompt": "abc abc"} for kind in ("copy", "copy", "chat")))
    args = ["bench", "--prompts", str(path), "--target", target, "--assistant", assistant, "--dtype", "float32",
            "--threads", "1", "--max-new-tokens", "8", "-k", "3"]  # fmt: skip
    args += ["--against", "generate"] if against else []
    assert main([*args, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    printed = json.loads(out)
    rows = printed["rows"]
    assert (printed["settings"]["target"], printed["settings"]["assistant"]) == (target, assistant)
    assert [list(row) for row in rows] == [ROW] * len(rows)
    cells = {(row["strategy"], row["kind"]): row for row in rows}
    refused = printed["settings"]["refused"]
    assert set(refused) == {"mtp", "mtp-drafter", "eagle"}, "what no tiny Llama can do"
    assert "no layers for multi-token prediction" in refused["mtp"]
    assert set(cells) == {(s, k) for s in STRATEGIES if s not in refused for k in ("copy", "chat", ALL)}
    assert [cells["plain", k]["n"] for k in ("copy", "chat", ALL)] == [2, 1, 3]
    for name in WITH_GENERATE:
        assert (cells[name, ALL]["generate_ratio"] is not None) == against
        assert cells[name, ALL]["measured_speedup"] > 0

    assert main([*args, "--strategies", "mtp", "--json"]) == 2
    assert "no layers for multi-token prediction" in capsys.readouterr().err

    assert main([*args, "--strategies", "prompt-lookup", "--kinds", "chat"]) == 0
    out = capsys.readouterr().out
    assert "prompt-lookup  chat" in out and "plain" in out and "copy" not in out
    assert ("/generate" in out) == against
