"""The error for a resolved experiment that the core refuses, with the place in the description."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from mptcplab.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

#: An origin that is a place in a file.
_FILE_AND_LINE = re.compile(r":\d+$")


def refusal(experiment: Mapping[str, Any], error: ValueError) -> SpecError:
    """Returns the error of the core with `FILE:LINE`, if its field of the resolved form comes from
    a file.
    """
    field = str(error).partition(": ")[0]
    place = _place_of(field, experiment.get("origins", {})) or f"{experiment['name']}: cannot be run"
    return SpecError(f"{place}: {error}")


def _place_of(field: str, origins: Mapping[str, str]) -> str | None:
    """Returns the origin of the value whose path shares most with the path of the field: a kind and
    an id at least, because the resolved form has more fields than the description.
    """
    given = {path: origin for path, origin in origins.items() if _FILE_AND_LINE.search(origin)}
    shared = {path: _common(_names(field), _names(path)) for path in given}
    nearest = max(given, key=shared.__getitem__, default=None)
    return given[nearest] if nearest is not None and shared[nearest] >= 2 else None


def _names(path: str) -> list[str]:
    """Returns the parts of a path that are not numbers, because the resolved form has no list of
    one item.
    """
    return [part for part in path.split(".") if not part.isdigit()]


def _common(one: list[str], other: list[str]) -> int:
    """Returns how many parts two paths share from their beginning."""
    return sum(1 for _ in takewhile(lambda parts: parts[0] == parts[1], zip(one, other, strict=False)))
