"""The cases of a folder: descriptions, each of one experiment or a family."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path
from typing import Any

from mptcplab.errors import UsageError
from mptcplab.experiment import members

#: Largest total rate of the links of a case that runs beside others in real time. A case above it
#: runs alone.
MOST_AT_ONCE_BPS = 60_000_000


@dataclass(frozen=True)
class Case:
    """An experiment of a folder, resolved, and the checksum of the file that describes it."""

    name: str
    title: str
    experiment: dict[str, Any]
    description_sha256: str

    @property
    def is_heavy(self) -> bool:
        """Whether the case runs alone in real time."""
        rates = [link[side]["rate_bps"] or 0 for link in self.experiment["links"] for side in ("forward", "backward")]
        flows = self.experiment["flows"]
        return max(rates, default=0) > MOST_AT_ONCE_BPS and any(
            flow["ceiling_bps"] and flow["ceiling_bps"] > MOST_AT_ONCE_BPS for flow in flows
        )


def cases_of(folder: Path, only: str | None = None) -> Sequence[Case]:
    """Returns the cases of a folder in the order of their files. `only` is a pattern, or a part, of
    names.

    Raises UsageError if there is none, and SpecError for a wrong description.
    """
    files = sorted(folder.glob("*.yaml"))
    found = [
        Case(member.name, resolved["title"] or member.name, resolved, sha256(file.read_bytes()).hexdigest())
        for file in files
        for member in members(file, None)
        for resolved in [member.resolve().data]
    ]
    chosen = [case for case in found if only is None or _means(only, case.name)]
    if not chosen:
        known = ", ".join(case.name for case in found) or "none: there is no .yaml file"
        raise UsageError(f"{folder}: no case is called {only!r}; there are {known}")
    return chosen


def _means(only: str, name: str) -> bool:
    return any(fnmatchcase(name, one) or one in name for one in only.split(","))
