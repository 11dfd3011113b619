"""Where commands print: with rich to a terminal, and as plain lines to files and pipes.

A short command spends a tenth of its time on loading rich and laying out its tables, so a pipe does
without.
"""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING, Any, Literal, Protocol
from unicodedata import combining, east_asian_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TextIO

#: The name of a stream in `sys`.
StreamName = Literal["stdout", "stderr"]

#: Output into a file or to another program is not folded, so a name in a table stays one word.
UNFOLDED_COLUMNS = 1000
#: Blanks between two columns of a table.
GAP = 2
#: Variables by which a user asks for the output of a terminal elsewhere.
_AS_ON_TERMINALS = ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE")
#: A tag of console markup, with the backslashes in front of it.
_TAG = re.compile(r"(\\*)(\[[a-z#/@][^\[]*?\])")


class Console(Protocol):
    """What a console of rich and a plain one have in common."""

    quiet: bool

    @property
    def width(self) -> int:
        """Its columns."""

    @property
    def is_terminal(self) -> bool:
        """Whether a person reads it."""

    def print(self, text: Any = "", **look: Any) -> None:
        """Prints a line of markup. `look` has what rich takes, of which a plain console heeds only
        `markup`.
        """


class PlainConsole:
    """A file or a pipe. Nothing is coloured or folded."""

    width = UNFOLDED_COLUMNS
    is_terminal = False

    def __init__(self, name: StreamName) -> None:
        self.quiet = False
        self._name = name

    def print(self, text: str = "", *, markup: bool = True, **_look: object) -> None:
        """Prints a line without its markup."""
        if not self.quiet:
            # Looked up now, because callers may replace the streams of a process.
            _stream(self._name).write(f"{without_markup(text) if markup else text}\n")


def console(name: StreamName) -> Console:
    """Returns the console of standard output or of standard error."""
    stream = _stream(name)
    if not (stream.isatty() or any(name in os.environ for name in _AS_ON_TERMINALS)):
        return PlainConsole(name)
    from rich.console import Console as RichConsole

    folded = stream.isatty() or "COLUMNS" in os.environ
    width = None if folded else UNFOLDED_COLUMNS
    return RichConsole(stderr=name == "stderr", highlight=False, width=width)  # type: ignore[return-value]


def _stream(name: StreamName) -> TextIO:
    stream: TextIO = getattr(sys, name)
    return stream


def escape(text: str) -> str:
    """Returns the markup that shows a text as it is."""
    escaped = _TAG.sub(lambda found: f"{2 * found[1]}\\{found[2]}", text)
    # A single backslash at the end would escape a tag that follows.
    return f"{escaped}\\" if escaped.endswith("\\") and not escaped.endswith("\\\\") else escaped


def without_markup(markup: str) -> str:
    """Returns the text that markup shows."""
    return _TAG.sub(lambda found: len(found[1]) // 2 * "\\" + (found[2] if len(found[1]) % 2 else ""), markup)


def plain_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int]) -> Iterator[str]:
    """Yields the lines of a table of plain texts. Columns whose index is in `right` are
    right-aligned.
    """
    lines, numbers = [columns, *rows], set(right)
    widths = [max(map(_columns_of, cells)) for cells in zip(*lines, strict=True)]
    for cells in lines:
        padded = [
            f"{_blanks(cell, width)}{cell}" if index in numbers else f"{cell}{_blanks(cell, width)}"
            for index, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        yield (GAP * " ").join(padded).rstrip()


def _blanks(cell: str, width: int) -> str:
    return (width - _columns_of(cell)) * " "


def _columns_of(text: str) -> int:
    """Returns the columns that a text takes: ideographs take two, combining characters none."""
    if text.isascii():
        return len(text)
    return sum((1 + (east_asian_width(character) in "WF")) * (not combining(character)) for character in text)
