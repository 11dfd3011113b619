"""Expectations that kernels are known not to meet: a table that `mptcplab check --known` reads."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from mptcplab.backends import ON_KERNEL
from mptcplab.errors import UsageError
from mptcplab.report.kernels import release_of, version_of
from mptcplab.results import Bundle

if TYPE_CHECKING:
    from mptcplab.results.entities import Json

TABLE = "known"


@dataclass(frozen=True)
class KnownFailure:
    """An expectation that kernels before a version are known not to meet, and the reason."""

    experiment: str
    expectation: str
    before: str
    why: str

    def concerns(self, record: Json) -> bool:
        """Returns whether a run is of this experiment, on such a kernel."""
        stack = record["backend"].partition("@")[0]
        version, limit = version_of(release_of(record) or ""), version_of(self.before)
        is_older = version is not None and limit is not None and version < limit
        return stack == ON_KERNEL and record["experiment"] == self.experiment and is_older


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
    if not isinstance(row, dict) or sorted(row) != sorted(FIELDS) or not all(isinstance(v, str) for v in row.values()):
        found = ", ".join(row) if isinstance(row, dict) else repr(row)
        raise UsageError(f"{where}: found {found or 'nothing'}; allowed: {', '.join(FIELDS)}, each a string")
    if version_of(row["before"]) is None:
        raise UsageError(f"{where}.before: {row['before']!r} is not a version; allowed: a version as in '6.18'")
    return KnownFailure(**row)


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
    reasons = {one.expectation: f"known before Linux {one.before}: {one.why}" for one in known if one.concerns(record)}
    return [
        verdict | {"held": None, "why": f"{reasons[verdict['text']]} ({verdict['why']})"}
        if verdict["held"] is False and verdict["text"] in reasons
        else verdict
        for verdict in record["expectations"]
    ]
