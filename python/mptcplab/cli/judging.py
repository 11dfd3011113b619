"""What the commands that judge algorithms share: their runs, and how they tell the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mptcplab.cli.options import rights

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from mptcplab.cli.exporting import Publishing
    from mptcplab.report.grid import Grid
    from mptcplab.results import Bundle
    from mptcplab.results.entities import Json


def executed(
    by_backend: Mapping[str, Sequence[Json]], *, seed: int, repeat: int, out: Path, jobs: int | None
) -> list[Bundle]:
    """Runs the experiments of each back-end with `repeat` seeds, and returns all bundles."""
    from mptcplab.cli.progress import progress
    from mptcplab.runner import execute, plan

    with rights(allow=True):
        work = [
            job
            for name, experiments in by_backend.items()
            for job in plan(experiments, name, seed=seed, repeat=repeat, out=out)
        ]
    with progress(work) as observer:
        return execute(work, observer, workers=jobs)


def tell(document: Json, grid: Grid, asked: Publishing, page: Path, *, as_json: bool) -> None:
    """Prints the document or the table, and the runs that are not done. `page` is the page that was
    written. Ends the command with exit status 4 if a run is not done.
    """
    from mptcplab.cli.console import escape
    from mptcplab.cli.exporting import print_grid
    from mptcplab.cli.output import PROBLEMS, print_json, print_remark, print_table
    from mptcplab.report.not_done import not_done_lines

    if as_json:
        print_json(document)
    elif asked.form:
        print_grid(grid, asked.form)
    else:
        print_table(grid.heads, [[escape(cell) for cell in row] for row in grid.rows], right=grid.numeric)
        for line in not_done_lines(document["not_done"]):
            PROBLEMS.print(line, markup=False, soft_wrap=True)
        print_remark(f"wrote {page}")
    if document["not_done"]:
        raise typer.Exit(4)
