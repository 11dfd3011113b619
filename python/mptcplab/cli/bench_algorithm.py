"""``mptcplab bench-algorithm``: compares an algorithm with all others of its kind."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli.options import (
    As_json,
    Export,
    Format,
    Jobs,
    Out,
    Repeat,
    Seed,
    Size,
    Style,
    Table,
    html_only,
    rights,
)

if TYPE_CHECKING:
    from mptcplab.benchmark import Standing

EXAMPLE = "Example: mptcplab bench-algorithm ./examples/own-algorithms.py:Aimd"
COLUMNS = ("scenario", "metric", "newcomer", "best", "", "median", "place")


def command(
    algorithm: Annotated[str, typer.Argument(help="./FILE.py:CLASS, or the name of a built-in one.")],
    kind: Annotated[
        str | None, typer.Option(help="Kind, if the name does not determine it.", metavar="cc|scheduler|path_manager")
    ] = None,
    against: Annotated[
        str,
        typer.Option(help="Algorithms to compare with, separated by commas; default all of the kind.", metavar="A,B.."),
    ] = "",
    seed: Seed = 1,
    repeat: Repeat = 1,
    out: Out = Path("results"),
    jobs: Jobs = None,
    report: Annotated[Path, typer.Option(help="File of the page.", callback=html_only)] = Path("bench-algorithm.html"),
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    as_json: As_json = False,
) -> None:
    """Compare an algorithm with all others of its kind.

    Runs nine scenarios in the simulator. Runs of built-in algorithms that are already done are not repeated.
    """
    from mptcplab.cli.exporting import exporter_of, print_grid, table_form, write_figures

    exporter, form = exporter_of(export, formats, size, style), table_form(table, as_json=as_json)

    from rich.markup import escape

    from mptcplab import benchmark
    from mptcplab.cli.output import print_json, print_line, print_remark, print_table, write_text
    from mptcplab.cli.progress import progress
    from mptcplab.report import contest_drawings, contest_page
    from mptcplab.report.page import Grid
    from mptcplab.runner import execute, plan

    contest = benchmark.contest(algorithm, kind, [name for name in against.split(",") if name])
    with rights(allow=True):
        work = plan(list(contest.experiments.values()), "sim", seed=seed, repeat=repeat, out=out)
    with progress(work) as observer:
        bundles = execute(work, observer, workers=jobs)
    found = benchmark.standings(contest, bundles)
    document = benchmark.document(contest, found, bundles)
    write_text(report, contest_page(document))
    grid = Grid(list(COLUMNS), [_row(standing) for standing in found], frozenset({2, 4, 5, 6}))
    if exporter is not None:
        write_figures(exporter, contest_drawings(document), bundles, quiet=as_json or form is not None)
    if as_json:
        print_json(document)
    elif form is not None:
        print_grid(grid, form)
    else:
        print_table(grid.heads, [[escape(cell) for cell in row] for row in grid.rows], right=grid.numeric)
        for entry in document["not_done"]:
            print_line(f"{entry['status']}: {entry['experiment']}, seed {entry['seed']}: {entry['why']}")
        print_remark(f"wrote {report}")
    if document["not_done"]:
        raise typer.Exit(4)


def _row(standing: Standing) -> list[str]:
    from mptcplab.report.quantities import MISSING, quantity

    unit = standing.measure.unit
    medians = {name: quantity(found.median, unit) if found else MISSING for name, found in standing.spreads.items()}
    others = standing.others
    best, middle = (others[0][0], others[len(others) // 2][0]) if others else (MISSING, MISSING)
    return [
        standing.measure.scenario,
        standing.measure.metric,
        medians[standing.newcomer],
        best,
        medians.get(best, MISSING),
        medians.get(middle, MISSING),
        f"{standing.place or MISSING} of {len(standing.spreads)}",
    ]
