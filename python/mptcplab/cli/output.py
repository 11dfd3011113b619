"""Output of commands: one JSON document, or tables for people."""

from __future__ import annotations

import json
import sys
from io import StringIO
from typing import TYPE_CHECKING, Any

from mptcplab import callers
from mptcplab.cli.console import PlainConsole, console, escape, plain_table, without_markup
from mptcplab.errors import UsageError
from mptcplab.unfinished import removed_if_unfinished

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

#: The console for progress and remarks. Standard output has results only.
REMARKS = console("stderr")
RESULTS = console("stdout")
#: The console for what went wrong in a run. `--quiet` does not silence it.
PROBLEMS = console("stdout")


def is_ascii_only() -> bool:
    """Returns whether standard output cannot show other characters."""
    return not (sys.stdout.encoding or "").lower().startswith("utf")


def be_quiet() -> None:
    """Silences everything but problems, errors and JSON. Raises UsageError after `be_verbose`."""
    if _told_more:
        raise UsageError(_EXCLUSIVE)
    RESULTS.quiet = REMARKS.quiet = True


def be_verbose() -> None:
    """Prints details, too. Raises UsageError after `be_quiet`."""
    if REMARKS.quiet:
        raise UsageError(_EXCLUSIVE)
    global _told_more
    _told_more = True


def print_detail(text: str) -> None:
    """Prints a line on standard error if `be_verbose` was called."""
    if _told_more:
        print_note(text)


_told_more = False
_EXCLUSIVE = "--quiet and --verbose: found both; allowed: one of them"


def print_json(document: Any) -> None:
    """Prints one JSON document and nothing else."""
    json.dump(document, sys.stdout, indent=1, ensure_ascii=is_ascii_only())
    sys.stdout.write("\n")


def print_line(text: str) -> None:
    """Prints a line as it is, without markup."""
    RESULTS.print(text, markup=False, soft_wrap=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Iterable[int] = ()) -> None:
    """Prints rows of console markup under column titles. Columns whose index is in `right` are
    right-aligned. Where lines fold, columns that do not fit beside the others follow below, with
    the names of the rows again.
    """
    if isinstance(RESULTS, PlainConsole):
        shown = [[without_markup(cell) for cell in row] for row in rows]
        for line in plain_table(columns, shown, right):
            RESULTS.print(line, markup=False)
        return
    from mptcplab.cli.tables import tables

    for number, table in enumerate(tables(columns, rows, right, RESULTS.width)):
        if number:
            RESULTS.print()
        RESULTS.print(table)


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table of plain texts as text, for a message on standard error."""
    if not REMARKS.is_terminal:
        return "".join(f"{line}\n" for line in plain_table(columns, rows, ()))
    from rich.console import Console

    from mptcplab.cli.tables import tables

    text = Console(highlight=False, width=REMARKS.width, file=StringIO())
    for table in tables(columns, [[escape(cell) for cell in row] for row in rows], (), REMARKS.width):
        text.print(table)
    lines = text.file.getvalue().splitlines()  # type: ignore[attr-defined]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def print_outline(rows: Sequence[tuple[str, str]]) -> None:
    """Prints names at the left edge with markup beside them: folded on a terminal, otherwise one
    line each.
    """
    width = max((len(name) for name, _ in rows), default=0)
    if isinstance(RESULTS, PlainConsole):
        for name, text in rows:
            RESULTS.print(f"{escape(name):<{width}}  {text}")
        return
    from rich.table import Table

    grid = Table.grid(padding=(0, 2))
    grid.add_column(width=width, no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in rows:
        grid.add_row(escape(name), text)
    RESULTS.print(grid)


def print_remark(text: str) -> None:
    """Prints a line about what can be done next."""
    RESULTS.print(text, style="dim", markup=False, soft_wrap=True)


def print_note(text: str) -> None:
    """Prints a line about the command itself on standard error."""
    REMARKS.print(text, style="dim", markup=False, soft_wrap=True)


def write_text(path: Path, text: str) -> None:
    """Writes an output file of a command, which belongs to the caller of sudo. Raises UsageError if
    it cannot be written.
    """
    try:
        with removed_if_unfinished(path):
            path.write_text(text, encoding="utf-8")
        callers.give(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from error
