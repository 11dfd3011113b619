"""Loads the experiments of a SPEC, as the command line does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, overload

from mptcplab import card
from mptcplab.catalogue import find
from mptcplab.errors import UsageError
from mptcplab.experiment import Member
from mptcplab.recorded import Recorded

#: What `set` can hold: text as on the command line, or a number, list or mapping.
Value: TypeAlias = "str | float | bool | Sequence[Value] | Mapping[str, Value] | None"


class Experiments(Sequence[Member | Recorded]):
    """The experiments of a SPEC, in its order."""

    def __init__(self, members: Iterable[Member | Recorded]) -> None:
        self._members = list(members)

    @overload
    def __getitem__(self, place: int) -> Member | Recorded: ...
    @overload
    def __getitem__(self, place: slice) -> Experiments: ...
    def __getitem__(self, place: int | slice) -> Member | Recorded | Experiments:
        return Experiments(self._members[place]) if isinstance(place, slice) else self._members[place]

    def __len__(self) -> int:
        return len(self._members)

    def __repr__(self) -> str:
        return f"Experiments({', '.join(member.name for member in self)})"

    def _repr_html_(self) -> str:
        """Returns what a notebook shows: of one experiment all, of several
        their names and titles.
        """
        if len(self) == 1:
            return card.as_html(self[0].resolve().data)
        return card.table(("", "experiment", "title"), [(str(n), m.name, m.title) for n, m in enumerate(self)])


def load(spec: str | Path, *, set: Mapping[str, Value] | None = None) -> Experiments:  # noqa: A002 (as --set)
    """Returns the experiments of a file, or of a name or prefix in the catalogue, each validated.

    ``set`` makes changes as ``--set`` does: ``{"links.*.rate": "5mbit"}``. Raises SpecError.
    """
    changes = {key: as_text(value) for key, value in changes_in(set).items()}
    experiments = Experiments(find(str(spec), changes))
    for member in experiments:
        member.resolve()
    return experiments


def changes_in(given: Mapping[str, Value] | None) -> Mapping[str, Value]:
    """Returns the changes of ``set``. Raises UsageError if they are no mapping."""
    if not isinstance(given, Mapping | None):
        raise UsageError(f'set={given!r}: allowed: a mapping, as in set={{"links.wifi.rate": "5mbit"}}')
    return given or {}


def check_count(name: str, found: object, *, least: int) -> None:
    """Raises UsageError for a number that is none or too small."""
    if not isinstance(found, int) or found < least:
        raise UsageError(f"{name}={found!r}; allowed: a whole number from {least}")


def as_text(value: Value) -> str:
    """Returns a value as ``--set`` reads it. JSON is YAML."""
    return value if isinstance(value, str) else json.dumps(value)
