"""Versions of Linux, and the ranges of versions that tables name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

Version = tuple[int, int, int]

ALLOWED = "a version as in '6.18' or '6.18.36', for all before it, or a range as in '6.16..6.18.36'"
_VERSION = r"(\d+)\.(\d+)(?:\.(\d+))?"
_RANGE = re.compile(rf"(?:(?P<first>{_VERSION})?\.\.)?(?P<before>{_VERSION})")


def version_of(kernel: str) -> Version | None:
    """Returns (6, 12, 117) of 6.12.117+deb13-cloud-amd64, and (6, 18, 0) of 6.18. None for other
    texts.

    The release of some of Debian's kernels, as in 6.1.0-50, is not their version, which the text of
    uname(2) has after it: "6.1.0-50-amd64 #1 SMP Debian 6.1.170-1".
    """
    found = re.search(rf"Debian {_VERSION}", kernel) or re.match(_VERSION, kernel)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


@dataclass(frozen=True)
class Versions:
    """The versions from one on, before another. Both are compared in all their numbers."""

    text: str
    first: Version
    before: Version

    def __contains__(self, version: Version) -> bool:
        return self.first <= version < self.before

    def __str__(self) -> str:
        first, _, before = self.text.rpartition("..")
        return f"from Linux {first}, before {before}" if first else f"before Linux {before}"


def ranges(texts: object) -> tuple[Versions, ...] | None:
    """Returns the ranges that a table names: a text as ALLOWED says, or a list of them. None for
    all else.
    """
    listed = texts if isinstance(texts, list) else [texts]
    found = [one for text in listed if isinstance(text, str) and (one := _range(text)) is not None]
    return tuple(found) if found and len(found) == len(listed) else None


def _range(text: str) -> Versions | None:
    found = _RANGE.fullmatch(text)
    if found is None:
        return None
    first, before = version_of(found["first"] or "0.0"), version_of(found["before"])
    return Versions(text, first, before) if first is not None and before is not None and first < before else None


def names(version: Version, versions: Iterable[Versions]) -> bool:
    """Returns whether one of the ranges has a version."""
    return any(version in one for one in versions)
