"""Tables of coloured cells: the medians of a sweep over two factors, and algorithms in comparison
with the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.plots.specification import Json

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
