"""stub"""
import os
from pathlib import Path
def cache_root() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "speculation-playground"
def embedded_target(progress=None) -> Path:
    return cache_root() / "models" / "raw"
