"""From the directories of a command line to bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptcplab.errors import UsageError
from mptcplab.results import find

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from mptcplab.results import Bundle

MOST_NAMED = 5


def bundles_under(directories: Iterable[Path]) -> list[Bundle]:
    """All bundles at or under some directories. Raises UsageError where there is none."""
    found = []
    for directory in directories:
        here = list(find(directory))
        if not here:
            raise UsageError(f"{directory}: holds no bundle; `mptcplab run SPEC --out {directory}` makes one")
        found += here
    return found


def one_bundle(directory: Path) -> Bundle:
    """The bundle at or under a directory. Raises UsageError if there is none or if there are several."""
    found = bundles_under([directory])
    if len(found) > 1:
        named = "\n  ".join(str(bundle.path) for bundle in found[:MOST_NAMED])
        more = f"\n  and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
        raise UsageError(f"{directory}: holds {len(found)} bundles; name one of them:\n  {named}{more}")
    return found[0]
