"""Tables for papers and other programs: LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from mptcplab.report.grid import Cell, Grid, Part
from mptcplab.report.quantities import MISSING

FORMS = ("latex", "markdown", "csv")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\N{EN DASH}": "--",
    "\N{MICRO SIGN}": r"\textmu{}",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "∞": r"$\infty$",
    "▲": r"$\triangle$",
    "▶": r"$\triangleright$",
    "◆": r"$\diamond$",
    "\u202f": r"\,",
}


def in_form(grid: Grid, form: str) -> str:
    """Returns a table in one of `FORMS`, with a line break at the end."""
    return {"latex": _latex, "markdown": _markdown, "csv": _csv}[form](grid)


def latex_text(text: str) -> str:
    """Returns text with the characters escaped that LaTeX treats specially."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _latex(grid: Grid) -> str:
    columns = "".join("r" if is_number else "l" for is_number in _are_numbers(grid))
    rows = [" & ".join(map(latex_text, row)) + r" \\" for row in (grid.heads, *grid.rows)]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", rows[0], r"\hline", *rows[1:], r"\hline", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _markdown(grid: Grid) -> str:
    marks = ["---:" if is_number else "---" for is_number in _are_numbers(grid)]
    rows = [[cell.replace("|", r"\|") for cell in row] for row in (grid.heads, *grid.rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], marks, *rows[1:]))


def _are_numbers(grid: Grid) -> list[bool]:
    """Returns for each column whether it has numbers."""
    return [
        number in grid.numeric or (bool(cells) and all(_is_number(cell) for cell in cells))
        for number, (_, *cells) in enumerate(zip(grid.heads, *grid.rows, strict=True))
    ]


def _is_number(cell: str) -> bool:
    return all(isinstance(part.value, int | float) for part in _parts(cell))


def _csv(grid: Grid) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(zip(*_columns(grid), strict=True))
    return text.getvalue()


def _columns(grid: Grid) -> Iterator[list[float | str | None]]:
    """Yields columns with one value in each cell. The unit is in the head, or in a column before
    the first number.
    """
    for number, (head, *cells) in enumerate(zip(grid.heads, *grid.rows, strict=True)):
        if grid.has_unit_per_row and number == min(grid.numeric):
            yield ["unit", *(_unit_of(part for cell in row for part in _parts(cell)) for row in grid.rows)]
        for name, parts in _by_name(cells).items():
            title = f"{head} {name}".strip()
            unit = "" if grid.has_unit_per_row else _unit_of(parts)
            yield [f"{title} ({unit})" if unit else title, *(part.value for part in parts)]


def _unit_of(parts: Iterable[Part]) -> str:
    """Returns the only unit that values have, or an empty text."""
    (unit,) = {part.unit for part in parts if part.unit} or {""}
    return unit


def _by_name(cells: Sequence[str]) -> dict[str, list[Part]]:
    """Returns the values of the cells of a column by their names, in the order of the rows."""
    rows = [{part.name: part for part in _parts(cell)} for cell in cells]
    names = dict.fromkeys(name for row in rows for name in row) or {"": None}
    return {name: [row.get(name, Part(None)) for row in rows] for name in names}


def _parts(cell: str) -> tuple[Part, ...]:
    if isinstance(cell, Cell):
        return cell.parts
    return (Part(None if cell == MISSING else cell),)
