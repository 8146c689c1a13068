"""The page's scripts and the vendored plotly, as texts. Knows no widget."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

ASSETS = Path(__file__).parent.parent / "assets"
SCRIPTS = ASSETS / "scripts"
VENDOR = ASSETS / "vendor"
PLOTLY = VENDOR / "plotly" / "plotly-basic.min.js"
MODULES = (
    "words.js",
    "plotly.js",
    "text.js",
    "lane.js",
    "card.js",
    "charts.js",
    "player.js",
    "stage.js",
    "live.js",
)  # of the live view, each after what it imports


def bundle(modules: Sequence[str] = MODULES) -> str:
    """These scripts as one text, their imports resolved: it comes with the page itself, so that a browser which
    keeps old files cannot mix two versions."""
    texts = [(SCRIPTS / name).read_text(encoding="utf-8") for name in modules]
    without_imports = [re.sub(r"^import [^;]*;\n", "", text, flags=re.MULTILINE) for text in texts]
    return "\n".join(re.sub(r"^export ", "", text, flags=re.MULTILINE) for text in without_imports)


def plotly_url() -> str:
    """A line of script that defines `plotlyUrl`, where the page finds the vendored plotly."""
    source = json.dumps(f"{PLOTLY.as_posix()}?v={PLOTLY.stat().st_size}")
    return (
        'const plotlyUrl = new URL(`${(window.gradio_config?.root ?? "").replace(/[/]$/, "")}/gradio_api/file=`'
        f" + {source}, document.baseURI).href;"
    )
