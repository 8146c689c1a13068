"""The part."""

from playground.ui.parts import Page


def build(page: Page) -> None:
    """Build it."""
