"""A model's folder from the Hugging Face Hub or from its cache on this machine. Weights are safetensors only."""

from collections.abc import Callable
from pathlib import Path

from huggingface_hub import snapshot_download

from playground.trace import InvalidRequest

WANTED = ("*.safetensors", "*.json", "tokenizer.model", "*.jinja")
NEEDED = ("config.json", "*.safetensors", "tokenizer*")


def hub_folder(repo: str, progress: Callable[[str], None] | None = None) -> Path:
    """The folder of `repo`: from the cache where it is there and whole, else downloaded.

    Raises:
        InvalidRequest: neither can give it.
    """
    try:
        folder = Path(snapshot_download(repo, allow_patterns=list(WANTED), local_files_only=True))
        if _whole(folder):
            return folder
    except OSError:
        pass  # not in the cache
    if progress is not None:
        progress(f"Downloading {repo} from the Hub")
    try:
        folder = Path(snapshot_download(repo, allow_patterns=list(WANTED)))
    except Exception as error:  # the client passes on whatever its transport raises
        raise InvalidRequest(
            f"{repo} is not in the Hub's cache on this machine, and the Hub gave none: {error}"
        ) from error
    if not _whole(folder):
        raise InvalidRequest(f"{repo} has no {', '.join(NEEDED)}: choose a model with safetensors weights.")
    return folder


def _whole(folder: Path) -> bool:
    # A snapshot that another program began may hold a part of the files. Only the top folder counts.
    return all(any(folder.glob(pattern)) for pattern in NEEDED)
