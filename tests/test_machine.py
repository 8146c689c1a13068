"""The number format and threads are chosen by measuring; overrides are checked."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from playground import machine
from playground.trace import InvalidRequest


def test_the_fastest_of_what_was_measured_is_chosen_and_torch_is_left_as_it_was() -> None:
    before = torch.get_num_threads()
    measured = machine.measure()
    assert torch.get_num_threads() == before
    assert set(measured.processor_seconds) == set(machine.DTYPES)
    assert measured.processor_seconds[measured.dtype] == min(measured.processor_seconds.values())
    assert measured.clock_seconds[measured.threads] == min(measured.clock_seconds.values())
    assert all(s > 0 for s in (*measured.processor_seconds.values(), *measured.clock_seconds.values()))


def test_whoever_asks_while_it_is_measured_waits_for_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    once = machine.Measured("float32", 1, {}, {})
    asked: list[int] = []

    def slow() -> machine.Measured:
        asked.append(1)
        time.sleep(0.1)
        return once

    monkeypatch.setattr(machine, "measure", slow)
    machine._measured.cache_clear()
    try:
        with ThreadPoolExecutor(4) as pool:
            assert list(pool.map(lambda _: machine.chosen(), range(4))) == [once] * 4
    finally:
        machine._measured.cache_clear()
    assert asked == [1]


@pytest.mark.parametrize("value", ["0", "-1", "many", "1.5", "99999"])
def test_a_bad_thread_count_is_refused_by_name(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYGROUND_THREADS", value)
    with pytest.raises(InvalidRequest, match=f"PLAYGROUND_THREADS is '{value}'"):
        machine.use_threads()


def test_overrides_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLAYGROUND_DTYPE", "float32")
    assert machine.chosen_dtype() == "float32"
    monkeypatch.setenv("PLAYGROUND_DTYPE", "int3")
    with pytest.raises(InvalidRequest, match="PLAYGROUND_DTYPE is 'int3'; it must be one of bfloat16, float32"):
        machine.chosen_dtype()


def test_what_a_format_means_for_exactness_is_said() -> None:
    assert "exactly" in machine.exactness("float32")
    assert "may part" in machine.exactness("bfloat16")
