"""The page of report cards: a table of marks, and a heat map for each goal."""

from __future__ import annotations

from mptcplab.plots import Drawing, GoalCell, goal_map
from mptcplab.report.grid import Cell, Grid, Part
from mptcplab.report.page import Picture, render
from mptcplab.report.quantities import MISSING
from mptcplab.results.entities import Json

HEADS = ("control", "goal", "met", "worst", "where it is worst")


def report_card_page(document: Json) -> str:
    """Returns the page of `report_card.document` as HTML."""
    controls = [card["control"] for card in document["cards"]]
    return render(
        "report_card.html.j2",
        title=f"Report card of {', '.join(controls)}",
        document=document,
        goals=_goals(document),
        marks=report_card_grid(document),
        pictures=[Picture.of(drawing) for drawing in report_card_drawings(document)],
    )


def report_card_grid(document: Json) -> Grid:
    """Returns a row for each control and goal: in how many cells it is met, and the worst cell."""
    rows = [_row(card["control"], mark) for card in document["cards"] for mark in card["marks"]]
    return Grid(list(HEADS), rows, frozenset({2, 3}))


def _row(control: str, mark: Json) -> list[str]:
    worst = mark["worst"]
    told = (Cell(f"{worst['value']:.3g}", Part(worst["value"])), worst["words"]) if worst else (MISSING, MISSING)
    met = Cell(f"{mark['met']} of {mark['of']}", Part(mark["met"]), Part(mark["of"], name="out of"))
    return [control, mark["goal"], met, *told]


def _goals(document: Json) -> Grid:
    """Returns a row for each goal: its meaning and its bound."""
    rows = [[one["name"], one["words"], one["measure"], one["limit"], one["source"]] for one in document["goals"]]
    return Grid(["goal", "is", "number", "bound", "source"], rows)


def report_card_drawings(document: Json) -> list[Drawing]:
    """Returns the heat map of each goal that has a number."""
    return [one for goal in document["goals"] if (one := _drawing(goal, document)) is not None]


def _drawing(goal: Json, document: Json) -> Drawing | None:
    marks = {
        card["control"]: next(mark for mark in card["marks"] if mark["goal"] == goal["name"])
        for card in document["cards"]
    }
    if not any(mark["of"] for mark in marks.values()):
        return None
    conditions = [cell["short"] for cell in next(iter(marks.values()))["cells"]]
    rows = {control: [_cell(cell) for cell in mark["cells"]] for control, mark in marks.items()}
    return goal_map(goal["name"], f"{goal['words']}: {goal['measure']} {goal['limit']}", conditions, rows)


def _cell(cell: Json) -> GoalCell | None:
    return None if cell["value"] is None else GoalCell(cell["value"], cell["margin"], cell["is_met"])
