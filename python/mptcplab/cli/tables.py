"""Tables in the width of a terminal: titles break at spaces, texts between words, and further
columns follow below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from mptcplab.cli.console import GAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

#: A longer word may break, so that a path cannot take the whole line.
LONGEST_WORD = 36


@dataclass(frozen=True)
class Column:
    """A column with its title. Cells are console markup."""

    title: str
    cells: Sequence[str]
    is_number: bool

    @property
    def full_width(self) -> int:
        """The width at which nothing breaks."""
        return max(Text(self.title).cell_len, max((Text.from_markup(cell).cell_len for cell in self.cells), default=0))

    @property
    def least_width(self) -> int:
        """The width at which titles and texts break only between words, and
        numbers do not break.
        """
        title = _longest_word(self.title)
        if self.is_number:
            return max(title, max((Text.from_markup(cell).cell_len for cell in self.cells), default=0))
        words = max((_longest_word(Text.from_markup(cell).plain) for cell in self.cells), default=0)
        return max(title, min(words, LONGEST_WORD))


def tables(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int], width: int) -> Iterator[Table]:
    """Yields one table if it fits into `width`. Otherwise yields several, each with the columns
    left of the first number, which name the row, and with some of the other columns.
    """
    cells, numbers = [list(row) for row in rows], set(right)
    made = [Column(title, [row[i] for row in cells], i in numbers) for i, title in enumerate(columns)]
    names = max(1, min(numbers, default=len(made)))
    for part in _parts(made[:names], made[names:], width):
        yield _table(part, _widths(part, width))


def _parts(names: list[Column], others: list[Column], width: int) -> Iterator[list[Column]]:
    part = list(names)
    for column in others:
        if len(part) > len(names) and _total([one.least_width for one in [*part, column]]) > width:
            yield part
            part = list(names)
        part.append(column)
    yield part


def _widths(columns: Sequence[Column], width: int) -> list[int]:
    """Returns the full widths if they fit, otherwise the least widths and what
    is left of `width`.
    """
    full = [column.full_width for column in columns]
    if _total(full) <= width:
        return full
    widths = [column.least_width for column in columns]
    while _total(widths) < width:
        neediest = max(range(len(columns)), key=lambda i: full[i] - widths[i])
        widths[neediest] += 1
    while _total(widths) > width and max(widths) > 1:
        widths[widths.index(max(widths))] -= 1
    return widths


def _table(columns: Sequence[Column], widths: Sequence[int]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, GAP // 2), header_style="bold")
    for column, width in zip(columns, widths, strict=True):
        table.add_column(column.title, justify="right" if column.is_number else "left", width=width, overflow="fold")
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def _longest_word(text: str) -> int:
    """Returns the width of the longest word. The first includes the indentation of the text."""
    indentation = len(text) - len(text.lstrip())
    widths = [Text(word).cell_len for word in text.split()] or [0]
    return max(indentation + widths[0], *widths)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)
