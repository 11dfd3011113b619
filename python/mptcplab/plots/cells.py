"""Tables of coloured cells: the medians of a sweep over two factors, and algorithms in comparison
with the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.plots.drawing import new_figure
from mptcplab.plots.look import INK, Look
from mptcplab.plots.specification import Json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = "cividis"
#: Colours of text on cells, which look the same on any page.
ON_DARK, ON_LIGHT = "#ffffff", "#000000"
#: The part of the colours that is dark.
DARK_BELOW = 0.5


@dataclass(frozen=True)
class CellPanel:
    """The values of a table, nan where there is none, and the text of each cell. Bold cells are the
    best.
    """

    title: str
    values: Floats
    texts: tuple[tuple[str, ...], ...]
    bold: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True)
class Cells:
    """Tables with the same rows, from top to bottom, and columns. Colours go from the first to the
    second limit.
    """

    panels: tuple[CellPanel, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str
    column_title: str
    value_title: str
    limits: tuple[float, float]

    @property
    def notes(self) -> tuple[str, ...]:
        """What the colours mean."""
        low, high = self.limits
        return (f"Colours: {self.value_title}, from {low:.3g} (dark) to {high:.3g} (bright).",)

    def document(self) -> Json:
        """Returns the tables as JSON."""
        panels = [{"title": panel.title, "cells": self._cells(panel), **self._titles()} for panel in self.panels]
        return {"layout": "grid", "notes": list(self.notes), "panels": panels}

    def _titles(self) -> Json:
        return {
            "row_names": self.rows,
            "column_names": self.columns,
            "row_title": self.row_title,
            "column_title": self.column_title,
            "value_title": self.value_title,
        }

    def _cells(self, panel: CellPanel) -> list[list[Json]]:
        from matplotlib import colormaps
        from matplotlib.colors import to_hex

        colours = colormaps[COLOURS]
        return [
            [
                {
                    "text": text,
                    "fill": to_hex(colours(self.part(value))) if np.isfinite(value) else None,
                    "ink": self.ink_on(value) if np.isfinite(value) else None,
                    "bold": (row, column) in panel.bold,
                }
                for column, (value, text) in enumerate(zip(values, texts, strict=True))
            ]
            for row, (values, texts) in enumerate(zip(panel.values, panel.texts, strict=True))
        ]

    def part(self, value: Any) -> float:
        """Returns where a value is between the limits, from 0 to 1."""
        low, high = self.limits
        return float(np.clip((value - low) / (high - low), 0.0, 1.0)) if high > low else 1.0

    def ink_on(self, value: Any) -> str:
        """Returns the colour of text on the cell of a value."""
        return ON_DARK if self.part(value) < DARK_BELOW else ON_LIGHT


def paint(cells: Cells, look: Look) -> Figure:
    """Draws the only table of some cells, with its colours beside it."""
    (panel,) = cells.panels
    rows, columns = panel.values.shape
    low, high = cells.limits
    figure, axes = new_figure(look, height=2.3 + 0.3 * rows)
    (plot,) = axes.flat
    edges = (np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5)
    mesh = plot.pcolormesh(*edges, np.ma.masked_invalid(panel.values), cmap=COLOURS, vmin=low, vmax=high)
    for (row, column), share in np.ndenumerate(panel.values):
        colour = cells.ink_on(share) if np.isfinite(share) else INK
        weight = "bold" if (row, column) in panel.bold else "normal"
        look_of: dict[str, Any] = {"color": colour, "fontsize": 0.8 * look.font_pt, "fontweight": weight}
        plot.text(column, row, panel.texts[row][column], ha="center", va="center", **look_of)
    plot.set_xticks(np.arange(columns), cells.columns, rotation=45, ha="right", rotation_mode="anchor", color=INK)
    plot.set_yticks(np.arange(rows), cells.rows, color=INK)
    plot.set_ylim(rows - 0.5, -0.5)
    plot.grid(visible=False)
    figure.colorbar(mesh, ax=plot, label=fill(cells.value_title, 16), extend="min")
    return figure
