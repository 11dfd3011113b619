"""The overview of a contest: a heat map of each algorithm by each measure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.plots.drawing import Drawing, Line, new_figure
from mptcplab.plots.look import INK, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = "cividis"
ON_DARK, ON_LIGHT = "#ffffff", "#000000"
#: What is less than half as good as the best has one colour.
WORST = 0.5
DARK_BELOW = 0.75


@dataclass(frozen=True)
class Cell:
    """The share of the best that an algorithm reaches, and whether it is the best or ties with it.

    The share is None if a value is 0.
    """

    share: float | None
    is_first: bool


def overview(columns: Sequence[str], rows: Mapping[str, Sequence[Cell | None]]) -> Drawing:
    """Draws a row for each algorithm and a column for each measure. The best and all that tie with it have `=`."""
    shares = np.array([[_share(cell) for cell in row] for row in rows.values()])
    lines = [Line(name, list(range(len(columns))), share) for name, share in zip(rows, shares, strict=True)]
    alt = "; ".join(f"{name}: {', '.join(_text(cell) for cell in row)}" for name, row in rows.items())
    paint = partial(_paint, list(columns), dict(rows), shares)
    return Drawing("overview", "Each algorithm in comparison with the best", alt, paint, "measure", "share", lines)


def _paint(columns: list[str], rows: dict[str, Sequence[Cell | None]], shares: Floats, look: Look) -> Figure:
    figure, axes = new_figure(look, height=2.3 + 0.3 * len(rows))
    (plot,) = axes.flat
    edges = (np.arange(len(columns) + 1) - 0.5, np.arange(len(rows) + 1) - 0.5)
    mesh = plot.pcolormesh(*edges, np.ma.masked_invalid(shares), cmap=COLOURS, vmin=WORST, vmax=1.0)
    for place, row in enumerate(rows.values()):
        for column, cell in enumerate(row):
            _write(plot, column, place, cell, look)
    plot.set_xticks(np.arange(len(columns)), columns, rotation=45, ha="right", rotation_mode="anchor", color=INK)
    plot.set_yticks(np.arange(len(rows)), list(rows), color=INK)
    plot.set_ylim(len(rows) - 0.5, -0.5)
    plot.grid(visible=False)
    figure.colorbar(mesh, ax=plot, label="Share of\nthe best", extend="min")
    return figure


def _share(cell: Cell | None) -> float:
    return float("nan") if cell is None or cell.share is None else cell.share


def _write(plot: Axes, column: int, row: int, cell: Cell | None, look: Look) -> None:
    share = _share(cell)
    colour = INK if np.isnan(share) else ON_DARK if share < DARK_BELOW else ON_LIGHT
    weight = "bold" if cell and cell.is_first else "normal"
    plot.text(
        column, row, _text(cell), ha="center", va="center", color=colour, fontsize=0.8 * look.font_pt, fontweight=weight
    )


def _text(cell: Cell | None) -> str:
    if cell is None:
        return "\N{EN DASH}"
    share = "" if cell.share is None else f"{cell.share:.2f}"
    return f"= {share}".strip() if cell.is_first else share or "worse"
