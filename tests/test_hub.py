"""Where the default target comes from, with stand-ins for its wheel and for the Hub."""

from pathlib import Path

import pytest

from playground import embedded, hub, models
from playground.trace import InvalidRequest


def _files(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


WHOLE = ("config.json", "model.safetensors", "tokenizer.json")


class FakeHub:
    """A Hub with a cache: each either gives a folder or raises."""

    def __init__(self, cached: Path | None, online: Path | None) -> None:
        self.cached, self.online = cached, online
        self.asked: list[str] = []

    def __call__(self, repo: str, allow_patterns: list[str], local_files_only: bool = False) -> str:
        assert not any(p.endswith((".bin", ".pt", ".py")) or p == "*" for p in allow_patterns)
        self.asked.append("cache" if local_files_only else "hub")
        folder = self.cached if local_files_only else self.online
        if folder is None:
            raise FileNotFoundError("nothing there")
        return str(folder)


def _no_wheel(progress: object) -> Path:
    raise embedded.EmbeddedModelError("the wheel is not installed: run `make venv`")


def test_the_wheel_comes_before_the_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = FakeHub(None, None)
    monkeypatch.setattr(hub, "snapshot_download", fake)
    monkeypatch.setattr(embedded, "embedded_target", lambda progress: tmp_path)
    assert models.find(models.DEFAULT_TARGET)(None) == tmp_path
    assert fake.asked == []


def test_without_the_wheel_the_hubs_cache_is_asked_before_the_hub(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeHub(_files(tmp_path / "cached", *WHOLE), None)
    monkeypatch.setattr(hub, "snapshot_download", fake)
    monkeypatch.setattr(embedded, "embedded_target", _no_wheel)
    assert models.find(models.DEFAULT_TARGET)(None) == tmp_path / "cached"
    assert fake.asked == ["cache"]


@pytest.mark.parametrize("cached", [(), ("config.json",), ("config.json", "tokenizer.json")])
def test_a_cache_that_lacks_files_is_completed_from_the_hub(
    cached: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeHub(_files(tmp_path / "part", *cached) if cached else None, _files(tmp_path / "whole", *WHOLE))
    monkeypatch.setattr(hub, "snapshot_download", fake)
    said: list[str] = []
    assert hub.hub_folder("owner/model", said.append) == tmp_path / "whole"
    assert fake.asked == ["cache", "hub"]
    assert "owner/model" in said[0]


def test_with_neither_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "snapshot_download", FakeHub(None, None))
    monkeypatch.setattr(embedded, "embedded_target", _no_wheel)
    with pytest.raises(InvalidRequest, match="make venv"):
        models.find(models.DEFAULT_TARGET)(None)


def test_a_hub_model_without_safetensors_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = _files(tmp_path, "config.json", "tokenizer.json", "pytorch_model.bin")
    monkeypatch.setattr(hub, "snapshot_download", FakeHub(None, folder))
    with pytest.raises(InvalidRequest, match="safetensors"):
        hub.hub_folder("owner/model")
