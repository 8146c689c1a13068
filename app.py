"""Entry point: flags, the page, launch."""

import argparse
import gc
import os
import sys
import webbrowser

gc.disable()  # what is imported stays: to look for garbage among it takes a fifth of the start
os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")

from playground.machine import use_threads
from playground.models import Library
from playground.ui.form import Form
from playground.ui.page import build, launch_options
from playground.ui.runs import Runs
from playground.ui.warmup import WarmUp

PATIENCE_SECONDS = 5.0  # for a page to be opened before the models are loaded anyway

library = Library()
warm_up = WarmUp(library, Form(prompt=""), before=use_threads)
demo = build(library, runs=Runs(library, before=use_threads), warm_up=warm_up)
gc.freeze()
gc.enable()


def has_browser() -> bool:
    """There is a browser with a window to open."""
    if sys.platform.startswith("linux") and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return False
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def main() -> None:
    """Serve the page."""
    parser = argparse.ArgumentParser(description="Serve the speculation playground.")
    parser.add_argument("--host", default=None, help="address to listen on (default: this machine only)")
    parser.add_argument("--port", type=int, default=None, help="port (default: the first free one from 7860)")
    parser.add_argument("--no-browser", action="store_true", help="do not open a browser")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), help="number format (default: the faster one here)")
    args = parser.parse_args()
    library.dtype = args.dtype
    demo.launch(
        prevent_thread_lock=True,
        server_name=args.host,
        server_port=args.port,
        inbrowser=not args.no_browser and has_browser(),
        **launch_options(),
    )
    warm_up.start_within(PATIENCE_SECONDS)
    print(f"The playground is at {demo.local_url}", flush=True)
    demo.block_thread()


if __name__ == "__main__":
    main()
