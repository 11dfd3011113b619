"""The directions of links as figures name them: an arrow for each."""

from __future__ import annotations

from collections.abc import Sequence

from mptcplab.results import RunData

FORWARD, BACKWARD = "→", "←"
DIRECTIONS = ("forward", "backward")


def link_of(path: str) -> str:
    """``wifi`` of ``links.wifi.forward``."""
    return path.removeprefix("links.").rsplit(".", 1)[0]


def other_way(path: str) -> str:
    """Returns the path of the other direction of a link."""
    link, _, direction = path.rpartition(".")
    return f"{link}.{'backward' if direction == 'forward' else 'forward'}"


def short(path: str) -> str:
    """Shortens ``links.wifi.forward`` to ``wifi`` with an arrow for the direction."""
    return f"{link_of(path)} {FORWARD if path.endswith('forward') else BACKWARD}"


def arrows_told(run: RunData, paths: Sequence[str]) -> tuple[str, ...]:
    """Explains the arrows by the first link shown."""
    link = run.links.get(link_of(paths[0])) if paths else None
    if link is None:
        return ()
    return (f"→ is the direction in which the description names the ends, here {link['a']} to {link['b']}; ← is back.",)
