"""How much memory a model needs and how much there is."""

import os
from pathlib import Path

BYTES_A_PARAMETER = 2  # bfloat16, the smallest format that models are loaded in
HEADROOM = 1.2  # caches, logits and the library beside the weights
GB = 1e9


def needed(parameters: int) -> int:
    """Bytes to run a model of so many parameters."""
    return round(parameters * BYTES_A_PARAMETER * HEADROOM)


def available() -> int | None:
    """Bytes that a new model could take without swapping; None: this system does not say."""
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def gigabytes(count: int) -> str:
    """For people: `3.2 GB`."""
    return f"{count / GB:.1f} GB" if count < 100 * GB else f"{count / GB:.0f} GB"
