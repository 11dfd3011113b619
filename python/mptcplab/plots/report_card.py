"""The heat map of a goal: each control by each condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from mptcplab.plots.cells import CellPanel, Cells, paint
from mptcplab.plots.drawing import Drawing, Line

#: What reaches less than half of the bound has one colour.
WORST = 0.5
MISSING = "\N{EN DASH}"


@dataclass(frozen=True)
class GoalCell:
    """The number of a control in a condition, how it compares with the bound (1 or more meets the
    goal), and whether it meets the goal.
    """

    value: float
    margin: float
    is_met: bool


def goal_map(
    name: str, title: str, conditions: Sequence[str], rows: Mapping[str, Sequence[GoalCell | None]]
) -> Drawing:
    """Draws a row for each control and a column for each condition. Bold cells meet the goal."""
    margins = np.array([[cell.margin if cell else np.nan for cell in row] for row in rows.values()])
    texts = tuple(tuple(f"{cell.value:.3g}" if cell else MISSING for cell in row) for row in rows.values())
    met = frozenset(
        (n, column) for n, row in enumerate(rows.values()) for column, c in enumerate(row) if c and c.is_met
    )
    cells = Cells(
        (CellPanel("", margins, texts, met),),
        tuple(rows),
        tuple(conditions),
        "Control",
        "Condition",
        "Part of the bound",
        (WORST, 1.0),
    )
    lines = [Line(control, list(range(len(conditions))), row) for control, row in zip(rows, margins, strict=True)]
    alt = "; ".join(f"{control}: {', '.join(row)}" for control, row in zip(rows, texts, strict=True))
    return Drawing(name, title, alt, partial(paint, cells), "condition", "part of the bound", lines, cells)
