"""Ranges in names: `client.eth[1-8]` stands for eight names."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mptcplab.experiment.base import described

_RANGE = re.compile(r"\[([0-9]{1,6})-([0-9]{1,6})\]")
_MOST = 10_000


def expanded(names: Iterable[str]) -> list[str]:
    """Returns the names with their ranges expanded."""
    return [name for pattern in names for name in _expand(pattern)]


def _expand(pattern: str) -> list[str]:
    match = _RANGE.search(pattern)
    if match is None:
        if "[" in pattern or "]" in pattern:
            raise described(f"invalid range in '{pattern}'", "numbers in brackets, as in eth[1-8]")
        return [pattern]
    first, last = int(match[1]), int(match[2])
    if not first <= last < first + _MOST:
        raise described(f"the range {match[0]} is empty or too long", f"[LOW-HIGH], at most {_MOST}")
    heads = (f"{pattern[: match.start()]}{number}" for number in range(first, last + 1))
    return [head + tail for head in heads for tail in _expand(pattern[match.end() :])]
