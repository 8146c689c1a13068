"""Settings for all tests: no hub, few threads, a tiny pair of models."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from fakes import save_tiny, tiny_loaded
from hypothesis import settings
from served import endless_pair, served

from playground.models import Loaded

settings.register_profile("shared machine", deadline=None)  # a busy machine is no fault of the code
settings.load_profile("shared machine")
torch.set_num_threads(1)  # tiny models: a second thread only waits


@pytest.fixture(scope="session")
def tiny() -> Loaded:
    """A tiny target."""
    return tiny_loaded("tiny", seed=0)


@pytest.fixture(scope="session")
def tiny_helper() -> Loaded:
    """A tiny assistant with the same tokenizer and other weights."""
    return tiny_loaded("tiny-helper", seed=1, layers=1)


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The same two as folders: target, assistant."""
    root = tmp_path_factory.mktemp("models")
    return save_tiny(root / "tiny", seed=0), save_tiny(root / "tiny-helper", seed=1, layers=1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    from browsing import CHROMIUM, FLAGS, sync_api

    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any]]:
    """A page on tiny models: its address and its runs."""
    with served(endless_pair(tmp_path_factory.mktemp("pair"))) as address:
        yield address


@pytest.fixture
def open_page(browser: Any, address: tuple[str, Any]) -> Iterator[Any]:
    """That page in a browser; it must not complain, nor ask another host for anything."""
    from browsing import visit

    one = visit(browser, address)
    yield one
    one.page.close()
    assert one.complaints == []
    assert one.hosts == {address[0].split("/")[2]}
