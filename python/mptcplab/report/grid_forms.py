"""Tables for papers and other programs: LaTeX, Markdown and CSV."""

from __future__ import annotations

import csv
import io

from mptcplab.report.grid import Grid

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
    columns = "".join("r" if number in grid.numeric else "l" for number in range(len(grid.heads)))
    rows = [" & ".join(map(latex_text, row)) + r" \\" for row in (grid.heads, *grid.rows)]
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\hline", rows[0], r"\hline", *rows[1:], r"\hline", r"\end{tabular}"]
    return "\n".join(lines) + "\n"


def _markdown(grid: Grid) -> str:
    marks = ["---:" if number in grid.numeric else "---" for number in range(len(grid.heads))]
    rows = [[cell.replace("|", r"\|") for cell in row] for row in (grid.heads, *grid.rows)]
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], marks, *rows[1:]))


def _csv(grid: Grid) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([grid.heads, *grid.rows])
    return text.getvalue()
