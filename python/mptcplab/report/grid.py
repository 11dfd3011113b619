"""The form of tables on pages, in the terminal and in files."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Part(NamedTuple):
    """A value of a cell as programs read it: a number in its unit, a text, or None. `name` tells it
    apart from the other values of the cell.
    """

    value: float | str | None
    unit: str = ""
    name: str = ""


class Cell(str):
    """The text of a cell for people, which also holds the values that the text shows."""

    __slots__ = ("parts",)
    parts: tuple[Part, ...]

    def __new__(cls, text: str, *parts: Part) -> Cell:
        cell = super().__new__(cls, text)
        cell.parts = parts
        return cell


@dataclass(frozen=True)
class Grid:
    """A table: heads, rows, and the columns with numbers. A cell that is not a `Cell` is a text.

    `has_unit_per_row` says that each row has its own unit, as where each row has another metric. In
    other tables, the values of a column have the same unit.
    """

    heads: list[str]
    rows: list[list[str]]
    numeric: frozenset[int] = field(default_factory=frozenset)
    has_unit_per_row: bool = False
