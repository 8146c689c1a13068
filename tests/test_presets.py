"""Presets: each sets a run that can be checked, measured and, where its models are too large here, refused in time."""

import json
from pathlib import Path

import pytest

from playground import cli_bench, hub, memory, presets
from playground.bench import read_tasks
from playground.catalogue import CATALOGUE, usual_assistant
from playground.cli import main
from playground.models import ASSETS, Library
from playground.presets import OPENINGS, PRESETS, Preset, prepare_preset, preset
from playground.sampling import verifier_settings
from playground.trace import InvalidRequest
from playground.ui.presets import form_of
from strategies import strategy

BUNDLED = [p for p in PRESETS.values() if p.bundled]
PUBLIC = [p for p in PRESETS.values() if not p.bundled]


@pytest.mark.parametrize("one", PRESETS.values(), ids=PRESETS)
def test_its_values_are_ones_that_the_page_can_show(one: Preset) -> None:
    chosen = strategy(one.strategy)
    assert dict(chosen.settled(one.settings)).items() >= dict(one.settings).items()
    assert dict(verifier_settings(one.verifier, one.verifier_settings)).items() >= dict(one.verifier_settings).items()
    assert one.target in CATALOGUE and CATALOGUE[one.target].used_as == "target"
    assert (one.assistant is not None) == chosen.needs_assistant
    if one.assistant is not None:
        assert CATALOGUE[one.assistant].used_as == "assistant"
        assert one.assistant == usual_assistant(one.target, one.strategy), (
            "the page puts it in when the strategy changes"
        )
    form = form_of(one)
    assert (form.prompt, form.k, form.temperature) == (one.prompt, one.k, one.temperature)
    assert one.when.endswith(".")


@pytest.mark.parametrize("one", BUNDLED, ids=lambda p: p.name)
def test_a_bundled_one_has_prompts_that_were_held_out(one: Preset) -> None:
    tasks = read_tasks(ASSETS / "prompts" / one.prompts, one.kinds)
    assert len(tasks) >= 5


def test_the_guide_s_pairs_are_all_there() -> None:
    strategies = {p.strategy for p in PUBLIC}
    assert strategies == {"assistant", "early-exit", "mtp", "mtp-drafter", "universal"}


@pytest.mark.parametrize("one", PUBLIC, ids=lambda p: p.name)
def test_one_that_is_too_large_is_refused_before_anything_is_fetched(
    one: Preset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 10**8)
    monkeypatch.setattr(hub, "hub_folder", lambda *_: pytest.fail("asked the Hub"))
    with pytest.raises(InvalidRequest, match=r"needs .* GB of memory and 0.1 GB are free"):
        prepare_preset(Library(), one)
    assert one.memory is not None and one.memory.endswith("GB")


def test_memory_is_said_as_people_say_it() -> None:
    assert memory.gigabytes(memory.needed(1_710_000_000)) == "4.1 GB"
    assert memory.gigabytes(memory.needed(110_000_000_000)) == "264 GB"
    have = memory.available()
    assert have is None or have > 10**7


def test_an_unknown_one_is_named() -> None:
    with pytest.raises(InvalidRequest, match="preset is 'x'; it must be one of assistant, "):
        preset("x")


def test_the_benchmark_runs_presets_each_on_its_own_pair(
    tiny_folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target, assistant = map(str, tiny_folders)
    one = Preset("one", "One", "Wins.", "abc abc", "prompt-lookup", target=target, max_new_tokens=8, prompts=OPENINGS)
    two = Preset(
        "two",
        "Two",
        "Wins.",
        "abc",
        "assistant",
        target=target,
        assistant=assistant,
        k=2,
        max_new_tokens=6,
        prompts=OPENINGS,
    )
    for module in (presets, cli_bench):
        monkeypatch.setattr(module, "PRESETS", {"one": one, "two": two})
    args = ["bench", "--presets", "--limit", "1", "--dtype", "float32", "--threads", "1"]
    assert main([*args, "--json", "--against", "generate"]) == 0
    printed = json.loads(capsys.readouterr().out)
    names = list(dict.fromkeys(row["strategy"] for row in printed["rows"]))
    assert names == ["plain (one)", "one", "plain (two)", "two"]
    assert all(row["measured_speedup"] > 0 and row["generate_ratio"] > 0 for row in printed["rows"])
    assert printed["settings"]["presets"]["two"]["k"] == 2
    assert main([*args[:2], "two", *args[2:]]) == 0
    assert "one" not in capsys.readouterr().out.split("\n")[2]


@pytest.mark.parametrize("flag", [["--strategies", "plain"], ["--target", "x"], ["--kinds", "story"]])
def test_what_a_preset_says_cannot_be_said_again(flag: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--presets", *flag]) == 2
    assert "each brings its own" in capsys.readouterr().err
    assert main(["bench", "--presets", "nothing"]) == 2
    assert "preset is 'nothing'" in capsys.readouterr().err
