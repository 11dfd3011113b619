"""``mptcplab sweep``: runs all combinations of values."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptcplab.cli.options import (
    Allow_programs,
    As_json,
    Export,
    Format,
    Fresh,
    Jobs,
    On,
    Out,
    Quiet,
    Repeat,
    Root_programs,
    Seed,
    SeveralValues,
    Size,
    Spec,
    Style,
    Table,
    Verbose,
    rights,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor

    from mptcplab.cli.exporting import Publishing
    from mptcplab.results import Bundle
    from mptcplab.runner import Job
    from mptcplab.sweep import Outcome

EXAMPLE = (
    "Example: mptcplab sweep examples/second-path.yaml --set links.lte.delay=10ms,40ms,160ms "
    "--set flows.file.transport=tcp,mptcp --find crossover:flows.file.fct_s --repeat 6"
)
TABLE, PAGE = "runs.parquet", "sweep.html"
#: The metric that is drawn and listed by default.
USUAL_METRIC = "run.goodput_bps"
#: Number of rows printed. The page has all.
MOST_ROWS = 40


def command(
    spec: Spec,
    on: On = "sim",
    settings: SeveralValues = None,
    seed: Seed = 1,
    repeat: Repeat = 1,
    out: Out = Path("results"),
    jobs: Jobs = None,
    cluster: Annotated[
        str | None, typer.Option(help="Run on the workers of a Dask scheduler.", metavar="tcp://HOST:PORT")
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help=f"Metric to draw and list; default that of --find, else {USUAL_METRIC}.")
    ] = None,
    find: Annotated[
        list[str] | None,
        typer.Option(
            help="Find the best combination, or where two arms cross; may be given again.",
            metavar="max|min|crossover:METRIC",
        ),
    ] = None,
    fresh: Fresh = False,
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    allow_programs: Allow_programs = False,
    root_programs: Root_programs = False,
    as_json: As_json = False,
    _quiet: Quiet = False,
    _verbose: Verbose = False,
) -> None:
    """Run all combinations of values: --set KEY=V1,V2.

    Runs that are already in --out are not repeated. Writes a table, figures and a page.
    """
    from mptcplab.cli.exporting import Publishing, print_grid
    from mptcplab.cli.specs import overrides
    from mptcplab.errors import UsageError
    from mptcplab.sweep import Find, Outcome, combinations_of, crossing_axis

    asked = Publishing.of(export, formats, size, style, table, as_json=as_json, has_page=True)
    finds = [Find.parse(text) for text in find or []]
    shown = metric or (finds[0].metric if finds else USUAL_METRIC)
    if cluster is not None and jobs is not None:
        raise UsageError(
            "--jobs: has no effect with --cluster, which has as many runs at a time as its workers have threads"
        )
    metrics = dict.fromkeys([shown, *(one.metric for one in finds)])
    with rights(allow=allow_programs, root=root_programs):
        swept = combinations_of(spec, overrides(settings), on, list(metrics))
    if any(one.kind == "crossover" for one in finds):
        crossing_axis(swept.factors)

    from mptcplab.runner import plan

    experiments = [combination.experiment for combination in swept.combinations]
    work = plan(experiments, on, seed=seed, repeat=repeat, out=out, fresh=fresh)
    directory = out.joinpath(swept.name, f"sweep-{on}-{swept.digest[:8]}")
    bundles = _carried_out(work, directory, jobs, cluster)

    from mptcplab.cli.output import print_json

    outcome = Outcome.of(swept, bundles, shown, finds, seed)
    files = _write(outcome, directory, out, asked)
    if asked.exporter is not None:
        from mptcplab.plots import sweep_drawings

        asked.write_figures(sweep_drawings(outcome), bundles)
    if as_json:
        print_json(outcome.document() | files)
    elif asked.form:
        from mptcplab.report.sweep import medians_of

        print_grid(medians_of(outcome), asked.form)
    else:
        _show(outcome, bundles, files, reused=sum(job.done is not None for job in work))
    if any(bundle.status != "done" for bundle in bundles):
        raise typer.Exit(4)


def _carried_out(work: Sequence[Job], directory: Path, jobs: int | None, cluster: str | None) -> list[Bundle]:
    """Returns the bundles of all runs, in the order of the work."""
    from mptcplab.backends import backend
    from mptcplab.cli.progress import progress
    from mptcplab.errors import UsageError
    from mptcplab.results import held
    from mptcplab.runner import usual_workers
    from mptcplab.sweep import carry_out, processes
    from mptcplab.sweep import cluster as cluster_of

    open_jobs = [job for job in work if job.done is None]
    if cluster is not None and any(backend(job.backend).in_real_time for job in work):
        raise UsageError(
            "--cluster: runs in real time go one at a time, because they would disturb each other; omit it"
        )
    pool: AbstractContextManager[Executor]
    pool = processes(min(jobs or usual_workers(work), len(open_jobs) or 1)) if cluster is None else cluster_of(cluster)
    with pool as executor, held(directory), progress(open_jobs) as observer:
        return carry_out(work, executor, observer)


def _write(outcome: Outcome, directory: Path, out: Path, asked: Publishing) -> dict[str, Any]:
    """Writes the table, the figures and the page, and returns their paths."""
    from mptcplab import callers
    from mptcplab.cli.output import write_text
    from mptcplab.plots import export, sweep_drawings
    from mptcplab.report.sweep import sweep_page
    from mptcplab.sweep import write_table

    drawings = sweep_drawings(outcome)
    write_table(directory / TABLE, outcome, out)
    figures = export(drawings, directory)
    write_text(directory / PAGE, asked.dressed(sweep_page(outcome, drawings, TABLE)))
    callers.give(directory)
    return {"table": str(directory / TABLE), "page": str(directory / PAGE), "figures": [str(path) for path in figures]}


def _show(outcome: Outcome, bundles: Sequence[Bundle], files: dict[str, Any], *, reused: int) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.outcome import print_not_done, print_substitutions
    from mptcplab.cli.output import print_line, print_remark, print_table
    from mptcplab.report.sweep import findings, medians_of

    medians = medians_of(outcome)
    rows = [[escape(cell) for cell in row] for row in medians.rows]
    print_table(medians.heads, rows[:MOST_ROWS], right=medians.numeric)
    if len(rows) > MOST_ROWS:
        print_remark(f"and {len(rows) - MOST_ROWS} more, on the page")
    print_substitutions(bundles)
    print_not_done(bundles)
    for line in findings(outcome):
        print_line(line)
    if reused:
        print_remark(f"done already: {reused} of {len(bundles)} (--fresh runs all again)")
    print_remark(f"wrote {files['table']}, {files['page']} and {len(files['figures'])} figures")
