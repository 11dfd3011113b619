"""The overview of a contest: a heat map of each algorithm by each measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mptcplab.plots.cells import CellPanel, Cells, paint
from mptcplab.plots.drawing import Drawing, Line

#: What is less than half as good as the best has one colour.
WORST = 0.5


@dataclass(frozen=True)
class Cell:
    """The share of the best that an algorithm reaches, and whether it is the best or ties with it.

    The share is None if a value is 0.
    """

    share: float | None
    is_first: bool


def overview(columns: Sequence[str], rows: Mapping[str, Sequence[Cell | None]]) -> Drawing:
    """Draws a row for each algorithm and a column for each measure. The best and all that tie with
    it have `=`.
    """
    shares = np.array([[_share(cell) for cell in row] for row in rows.values()])
    lines = [Line(name, list(range(len(columns))), share) for name, share in zip(rows, shares, strict=True)]
    texts = tuple(tuple(_text(cell) for cell in row) for row in rows.values())
    alt = "; ".join(f"{name}: {', '.join(row)}" for name, row in zip(rows, texts, strict=True))
    first = frozenset(
        (place, column) for place, row in enumerate(rows.values()) for column, c in enumerate(row) if c and c.is_first
    )
    panel = CellPanel("", shares, texts, first)
    cells = Cells((panel,), tuple(rows), tuple(columns), "Algorithm", "Measure", "Share of the best", (WORST, 1.0))
    title = "Each algorithm in comparison with the best"
    return Drawing("overview", title, alt, partial(paint, cells), "measure", "share", lines, cells)


def _share(cell: Cell | None) -> float:
    return float("nan") if cell is None or cell.share is None else cell.share


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "\N{EN DASH}"
    share = "" if cell.share is None else f"{cell.share:.2f}"
    return f"= {share}".strip() if cell.is_first else share or "worse"
