"""The tab."""

from playground.ui.parts import Page


def build(page: Page) -> None:
    """Fill the tab."""
