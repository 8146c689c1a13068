"""Settings for all tests: no hub, few threads, a tiny pair of models."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from pathlib import Path

import pytest
import torch
from fakes import save_tiny, tiny_loaded
from hypothesis import settings

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
