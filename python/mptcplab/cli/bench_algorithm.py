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
    On_own,
    Out,
    Quiet,
    Seed,
    Size,
    Style,
    Table,
    Verbose,
    html_only,
    listed_names,
)

if TYPE_CHECKING:
    from mptcplab.benchmark import Result, Standing

EXAMPLE = "Example: mptcplab bench-algorithm ./examples/own-algorithms.py:Aimd"
COLUMNS = ("scenario", "measure", "newcomer", "of best", "place", "tied", "best")


def command(
    algorithm: Annotated[str, typer.Argument(help="./FILE.py:CLASS, crate:NAME with --on PROGRAM, or a built-in one.")],
    kind: Annotated[
        str | None, typer.Option(help="Kind, if the name does not determine it.", metavar="cc|scheduler|path_manager")
    ] = None,
    against: Annotated[
        str,
        typer.Option(help="Algorithms to compare with, separated by commas; default all of the kind.", metavar="A,B.."),
    ] = "",
    on: On_own = "sim",
    seed: Seed = 1,
    repeat: Annotated[int, typer.Option(min=2, help="Number of seeds, the same for all algorithms.")] = 20,
    out: Out = Path("results"),
    jobs: Jobs = None,
    report: Annotated[Path, typer.Option(help="File of the page.", callback=html_only)] = Path("bench-algorithm.html"),
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    as_json: As_json = False,
    _quiet: Quiet = False,
    _verbose: Verbose = False,
) -> None:
    """Compare an algorithm with all others of its kind.

    Runs the scenarios that tell algorithms of the kind apart, in the simulator. Runs that are
    already done are not repeated. Differences below 1 %, or that may be chance, are ties.
    """
    from mptcplab.cli.exporting import Publishing

    asked = Publishing.of(export, formats, size, style, table, as_json=as_json, has_page=True)

    from mptcplab import benchmark
    from mptcplab.cli.judging import executed, tell
    from mptcplab.cli.output import write_text
    from mptcplab.report.contest import contest_drawings, contest_page
    from mptcplab.report.grid import Grid

    contest = benchmark.contest(algorithm, kind, [name for name in listed_names(against) if name], on)
    bundles = executed(contest.by_backend(), seed=seed, repeat=repeat, out=out, jobs=jobs)
    found = benchmark.standings(contest, bundles)
    document = benchmark.document(contest, found, bundles)
    write_text(report, asked.dressed(contest_page(document)))
    grid = Grid(list(COLUMNS), [_row(standing) for standing in found], frozenset({2, 3, 4, 5}), has_unit_per_row=True)
    if asked.exporter is not None:
        asked.write_figures(contest_drawings(document), bundles)
    tell(document, grid, asked, report, as_json=as_json)


def _row(standing: Standing) -> list[str]:
    from mptcplab.benchmark import short_name
    from mptcplab.report.grid import Cell, Part
    from mptcplab.report.quantities import MISSING, quantity

    measure, own = standing.measure, standing.own
    known = [name for name, result in standing.results.items() if result]
    return [
        measure.scenario,
        measure.short,
        quantity(own.spread.median if own else None, measure.unit),
        _ratio(own),
        Cell(f"{own.place} {'=' if own.tied else ' '}", Part(own.place)) if own else MISSING,
        Cell(str(own.tied) if own.tied else MISSING, Part(own.tied)) if own else MISSING,
        short_name(known[0]) if known else MISSING,
    ]


def _ratio(result: Result | None) -> str:
    """Returns the ratio to the best, with half of its interval."""
    from mptcplab.report.grid import Cell, Part
    from mptcplab.report.quantities import MISSING

    ratio, (low, high) = (result and result.ratio) or (None, (None, None))
    parts = Part(ratio), Part(low, name="low"), Part(high, name="high")
    if ratio is None or low is None or high is None:
        return Cell(MISSING, *parts)
    return Cell(f"{ratio:.3g} ±{(high - low) / 2:.1g}" if high > low else f"{ratio:.3g}", *parts)
