"""``mptcplab report-card``: whether congestion controls meet the goals of RFC 6356."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptcplab.cli.options import (
    As_json,
    Export,
    Format,
    Jobs,
    On,
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

EXAMPLE = "Example: mptcplab report-card lia,olia"
#: Seeds by default: in virtual and in real time.
VIRTUAL, REAL = 3, 1


def command(
    controls: Annotated[
        str, typer.Argument(help="Congestion controls, separated by commas; ./FILE.py:CLASS is one of your own.")
    ],
    goal: Annotated[str | None, typer.Option(help="Only this goal.", metavar="improve|harm|balance|capacity")] = None,
    full: Annotated[bool, typer.Option("--full", help="All combinations of conditions, not only all pairs.")] = False,
    on: On = "sim",
    seed: Seed = 1,
    repeat: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Number of seeds; default 3, in real time 1.")
    ] = None,
    out: Out = Path("results"),
    jobs: Jobs = None,
    report: Annotated[Path, typer.Option(help="File of the page.", callback=html_only)] = Path("report-card.html"),
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    as_json: As_json = False,
    _quiet: Quiet = False,
    _verbose: Verbose = False,
) -> None:
    """Judge congestion controls by the goals of RFC 6356.

    A control is to have at least what TCP has on the best path (improve), to take no more of a
    shared bottleneck than one TCP (harm), to use a busy path less than TCP on each path does
    (balance), and to use all of the capacity (capacity). Each goal is tried with numbers of
    subflows, ratios of round-trip times, losses and rivals, of which each two values meet in a
    cell. Runs that are already done are not repeated.
    """
    from mptcplab.cli.exporting import Publishing

    asked = Publishing.of(export, formats, size, style, table, as_json=as_json, has_page=True)

    from mptcplab import report_card
    from mptcplab.backends import backend
    from mptcplab.cli.judging import executed, tell
    from mptcplab.cli.output import write_text
    from mptcplab.report.report_card import report_card_drawings, report_card_grid, report_card_page

    examined = report_card.examination([name for name in listed_names(controls) if name], on, goal, full=full)
    seeds = repeat or (REAL if backend(on).in_real_time else VIRTUAL)
    bundles = executed(examined.by_backend(), seed=seed, repeat=seeds, out=out, jobs=jobs)
    document = report_card.document(examined, report_card.marks(examined, bundles), bundles)
    write_text(report, asked.dressed(report_card_page(document)))
    grid = report_card_grid(document)
    if asked.exporter is not None:
        asked.write_figures(report_card_drawings(document), bundles)
    tell(document, grid, asked, report, as_json=as_json)
