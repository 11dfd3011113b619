"""The form of tables on pages, in the terminal and in files."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Grid:
    """A table: heads, rows, and the columns with numbers."""

    heads: list[str]
    rows: list[list[str]]
    numeric: frozenset[int] = field(default_factory=frozenset)
