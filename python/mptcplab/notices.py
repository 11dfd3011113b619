"""Notices about work that takes long, such as a download. The command line prints them."""

from __future__ import annotations

from collections.abc import Callable

_tell: Callable[[str], None] | None = None


def tell_to(tell: Callable[[str], None]) -> None:
    """Passes each notice to a function from now on."""
    global _tell
    _tell = tell


def notice(text: str) -> None:
    """Tells what this process does. Nobody has to be told."""
    if _tell is not None:
        _tell(text)
