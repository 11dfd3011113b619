"""Finds the bundles in the directories of a command line, and selects among them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from mptcplab.errors import UsageError
from mptcplab.results import find
from mptcplab.results.bundle import changes_by_digest, changes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mptcplab.results import Bundle

#: Number of bundles in the table of a message. `--list` has all.
MOST_LISTED = 20
COLUMNS = ("experiment", "changes", "back-end", "seed", "status", "age", "directory")
#: A unit of age, and the seconds from which it is used.
AGES = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


@dataclass(frozen=True)
class Selection:
    """The bundles that a command line asks for. Empty fields select all."""

    seed: int | None = None
    #: ``--set KEY=VALUE``: values that a bundle must have. Commas separate several that it may
    #: have.
    settings: dict[str, str] = field(default_factory=dict)
    backends: tuple[str, ...] = ()
    #: Whether only the newest of those counts that have the same experiment, changes, back-end and
    #: seed.
    newest: bool = False

    def __str__(self) -> str:
        settings = [f"--set {key}={value}" for key, value in self.settings.items()]
        seed = [f"--seed {self.seed}"] if self.seed is not None else []
        backends = [f"--on {','.join(self.backends)}"] if self.backends else []
        return " ".join([*seed, *settings, *backends])

    def among(self, bundles: Sequence[Bundle], directory: Path) -> list[Bundle]:
        """Returns the selected bundles. Raises UsageError, with a table of
        all, if there is none.
        """
        found = [bundle for bundle in bundles if self._has(bundle)]
        if not found:
            problem = f"{directory}: none of {len(bundles)} bundles has {self}; allowed: one of"
            raise UsageError(f"{problem}\n{as_text(bundles)}")
        if not self.newest:
            return found
        last = {_sort(bundle): bundle for bundle in reversed(newest_first(found))}
        return [bundle for bundle in found if last[_sort(bundle)] is bundle]

    def _has(self, bundle: Bundle) -> bool:
        if self.seed is not None and bundle.record["seed"] != self.seed:
            return False
        if self.backends and bundle.record["backend"] not in self.backends:
            return False
        return all(_has_one_of(bundle, key, values) for key, values in self.settings.items())


def _has_one_of(bundle: Bundle, key: str, values: str) -> bool:
    """Returns whether a run has the value of ``--set KEY=VALUE``, or one of those between commas."""
    from mptcplab.results.settings import has_setting
    from mptcplab.sweep.factors import split_values

    return any(has_setting(bundle, key, value) for value in dict.fromkeys([values, *split_values(values, key)]))


def _sort(bundle: Bundle) -> tuple[object, ...]:
    record = bundle.record
    return record["experiment"], record["backend"], record["seed"], *changes_of(bundle)


def newest_first(bundles: Iterable[Bundle]) -> list[Bundle]:
    """Sorts bundles by the start of their runs."""
    return sorted(bundles, key=lambda bundle: datetime.fromisoformat(bundle.record["started"]), reverse=True)


def table_of(bundles: Sequence[Bundle]) -> tuple[list[str], list[list[str]]]:
    """Returns the heads and rows of a table of bundles, newest first. A column with the same value
    in all rows, if it is not needed to select one, is left out.
    """
    changes = changes_by_digest(bundles)
    rows = [_row(bundle, changes[bundle.record["digest"]]) for bundle in newest_first(bundles)]
    always = {"seed", "age", "directory"}
    shown = [index for index, title in enumerate(COLUMNS) if title in always or len({row[index] for row in rows}) > 1]
    return [COLUMNS[index] for index in shown], [[row[index] for index in shown] for row in rows]


def _row(bundle: Bundle, changes: Sequence[str]) -> list[str]:
    record = bundle.record
    directory = str(bundle.path)
    return [
        *(record["experiment"], ", ".join(changes) or "none", record["backend"], str(record["seed"])),
        *(bundle.status, _age(record["started"]), directory),
    ]


def _age(started: str) -> str:
    seconds = (datetime.now(UTC) - datetime.fromisoformat(started)).total_seconds()
    unit_s, unit = next(((least, unit) for least, unit in AGES if seconds >= least), AGES[-1])
    return f"{seconds // unit_s:.0f} {unit}"


def as_text(bundles: Sequence[Bundle]) -> str:
    """Returns the table of bundles for a message."""
    from mptcplab.cli.output import table_text

    heads, rows = table_of(bundles)
    more = f"and {len(rows) - MOST_LISTED} more: --list shows all\n" if len(rows) > MOST_LISTED else ""
    return (table_text(heads, rows[:MOST_LISTED]) + more).rstrip()


def print_bundles(bundles: Sequence[Bundle]) -> None:
    """Prints the table of ``--list``."""
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_table

    heads, rows = table_of(bundles)
    print_table(heads, [[escape(cell) for cell in row] for row in rows])


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
    """Returns all bundles at or under the directories, each once. Raises UsageError if one of them
    has none.
    """
    found: dict[Path, Bundle] = {}
    for directory in directories:
        here = bundles_in(directory)
        if not here:
            raise UsageError(f"{directory}: holds no bundle; `mptcplab run SPEC --out {directory}` makes one")
        found |= {bundle.path.resolve(): bundle for bundle in here}
    return list(found.values())


def one_bundle(directory: Path, selection: Selection) -> Bundle:
    """Returns the newest of the selected bundles that has a result. Says which one, if the command
    line leaves a choice. Raises UsageError if there is none.
    """
    found = selection.among(bundles_under([directory]), directory)
    usable = [bundle for bundle in found if bundle.record["result"] is not None] or found
    newest = newest_first(usable)[0]
    if len(found) > 1 and not selection.newest:
        from mptcplab.cli.output import print_note

        print_note(f"{newest.path}: the newest of {len(found)} bundles; --list shows all, --seed --set --on choose")
    return newest
