"""Expectations that kernels are known not to meet: a table that `mptcplab check --known` reads."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from mptcplab.backends import ON_KERNEL
from mptcplab.errors import UsageError
from mptcplab.report.kernels import version_in
from mptcplab.report.linux_versions import ALLOWED, Versions, names, ranges
from mptcplab.results import Bundle

if TYPE_CHECKING:
    from mptcplab.results.entities import Json

TABLE = "known"
BEFORE = "before"


@dataclass(frozen=True)
class KnownFailure:
    """An expectation that kernels of some versions are known not to meet, and the reason."""

    experiment: str
    expectation: str
    before: tuple[Versions, ...]
    why: str

    def concerns(self, record: Json) -> bool:
        """Returns whether a run is of this experiment, on such a kernel."""
        stack = record["backend"].partition("@")[0]
        version = version_in(record)
        lacks = version is not None and names(version, self.before)
        return stack == ON_KERNEL and record["experiment"] == self.experiment and lacks


FIELDS = tuple(field.name for field in fields(KnownFailure))


def read(path: Path) -> list[KnownFailure]:
    """Reads a table. Raises UsageError for other content."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from None
    rows = document.get(TABLE)
    if list(document) != [TABLE] or not isinstance(rows, list):
        raise UsageError(f"{path}: found {', '.join(document) or 'nothing'}; allowed: [[{TABLE}]]")
    return [_known_failure(f"{path}: {TABLE}.{index}", row) for index, row in enumerate(rows)]


def _known_failure(where: str, row: object) -> KnownFailure:
    texts = [row.get(name) for name in FIELDS if name != BEFORE] if isinstance(row, dict) else []
    if not isinstance(row, dict) or sorted(row) != sorted(FIELDS) or not all(isinstance(v, str) for v in texts):
        found = ", ".join(row) if isinstance(row, dict) else repr(row)
        raise UsageError(
            f"{where}: found {found or 'nothing'}; allowed: {', '.join(FIELDS)}, each a string or, for {BEFORE}, a list"
        )
    before = ranges(row[BEFORE])
    if before is None:
        raise UsageError(f"{where}.{BEFORE}: found {row[BEFORE]!r}; allowed: {ALLOWED}, or a list of them")
    return KnownFailure(**row | {BEFORE: before})


def set_aside(bundles: Sequence[Bundle], known: Sequence[KnownFailure]) -> list[Bundle]:
    """Returns the bundles with known failures as expectations that were not judged.

    Raises UsageError for a row whose experiment does not have its expectation.
    """
    return [
        Bundle(bundle.path, bundle.record | {"expectations": _verdicts(bundle.record, known)}) for bundle in bundles
    ]


def _verdicts(record: Json, known: Sequence[KnownFailure]) -> list[Json]:
    stated = {verdict["text"] for verdict in record["expectations"]}
    for one in known:
        if one.experiment == record["experiment"] and stated and one.expectation not in stated:
            raise UsageError(f"--known: {one.experiment} does not expect {one.expectation!r}; allowed: what it expects")
    reasons = {
        one.expectation: f"known {' and '.join(map(str, one.before))}: {one.why}"
        for one in known
        if one.concerns(record)
    }
    return [
        verdict | {"held": None, "why": f"{reasons[verdict['text']]} ({verdict['why']})"}
        if verdict["held"] is False and verdict["text"] in reasons
        else verdict
        for verdict in record["expectations"]
    ]
