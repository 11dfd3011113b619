"""Finds the bundles in the directories of a command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mptcplab.errors import UsageError, first_few
from mptcplab.results import find

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mptcplab.results import Bundle


def bundles_in(directory: Path) -> list[Bundle]:
    """Returns all bundles at or under a directory, possibly none. Raises UsageError if it is not a
    directory.
    """
    if not directory.is_dir():
        problem = "is not a directory" if directory.exists() else "there is no such directory"
        raise UsageError(
            f"{directory}: {problem}; allowed: a directory with bundles, such as results/ of `mptcplab run`"
        )
    return list(find(directory))


def bundles_under(directories: Iterable[Path]) -> list[Bundle]:
    """Returns all bundles at or under the directories, each once. Raises UsageError if one of them has
    none.
    """
    found: dict[Path, Bundle] = {}
    for directory in directories:
        here = bundles_in(directory)
        if not here:
            raise UsageError(f"{directory}: holds no bundle; `mptcplab run SPEC --out {directory}` makes one")
        found |= {bundle.path.resolve(): bundle for bundle in here}
    return list(found.values())


def one_bundle(directory: Path) -> Bundle:
    """Returns the bundle at or under a directory. Raises UsageError if there is none or more than one."""
    found = bundles_under([directory])
    if len(found) > 1:
        named = first_few([str(bundle.path) for bundle in found], "\n  ")
        raise UsageError(f"{directory}: holds {len(found)} bundles; name one of them:\n  {named}")
    return found[0]
