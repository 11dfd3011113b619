"""The overview of a contest: a heat map of each algorithm by each measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mptcplab.plots.cells import COLOURS, CellPanel, Cells
from mptcplab.plots.drawing import Drawing, Line, new_figure
from mptcplab.plots.look import INK, Look

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
    return Drawing("overview", title, alt, partial(_paint, cells), "measure", "share", lines, cells)


def _paint(cells: Cells, look: Look) -> Figure:
    (panel,) = cells.panels
    rows, columns = panel.values.shape
    figure, axes = new_figure(look, height=2.3 + 0.3 * rows)
    (plot,) = axes.flat
    edges = (np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5)
    mesh = plot.pcolormesh(*edges, np.ma.masked_invalid(panel.values), cmap=COLOURS, vmin=WORST, vmax=1.0)
    for (row, column), share in np.ndenumerate(panel.values):
        colour = cells.ink_on(share) if np.isfinite(share) else INK
        weight = "bold" if (row, column) in panel.bold else "normal"
        look_of: dict[str, Any] = {"color": colour, "fontsize": 0.8 * look.font_pt, "fontweight": weight}
        plot.text(column, row, panel.texts[row][column], ha="center", va="center", **look_of)
    plot.set_xticks(np.arange(columns), cells.columns, rotation=45, ha="right", rotation_mode="anchor", color=INK)
    plot.set_yticks(np.arange(rows), cells.rows, color=INK)
    plot.set_ylim(rows - 0.5, -0.5)
    plot.grid(visible=False)
    figure.colorbar(mesh, ax=plot, label="Share of\nthe best", extend="min")
    return figure


def _share(cell: Cell | None) -> float:
    return float("nan") if cell is None or cell.share is None else cell.share


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "\N{EN DASH}"
    share = "" if cell.share is None else f"{cell.share:.2f}"
    return f"= {share}".strip() if cell.is_first else share or "worse"
