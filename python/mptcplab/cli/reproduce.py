"""``mptcplab reproduce``: compares the claims of a paper with measurements."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli import completion
from mptcplab.cli.options import As_json, Fresh, Out, Quiet, Seed, Verbose

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from mptcplab.report.page import Picture
    from mptcplab.reproduction import Claim, Observations, Outcome, Study
    from mptcplab.results import Bundle
    from mptcplab.runner import Job, Observer

EXAMPLE = "Example: mptcplab reproduce alenazi2019 --only fig9 --quick"
PAGE, COMPARISONS = "reproduction.html", "comparisons.csv"
COLOURS = {"reproduced": "green", "refuted": "red"}
#: Number of runs at a time in real time. Runs that were late are repeated with half as many at a time, down to one.
AT_ONCE = 8


def command(
    paper: Annotated[str, typer.Argument(help="A paper with a table of claims: alenazi2019.")],
    on: Annotated[
        str,
        typer.Option(
            "--on", autocompletion=completion.backends, help="Back-ends, separated by commas.", metavar="sim,kernel"
        ),
    ] = "sim",
    only: Annotated[
        str | None, typer.Option(help="Only this figure, experiment, claim or ranking.", metavar="fig9")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Provisional: 6 repetitions (in real time 3), no variants of assumptions.")
    ] = False,
    seed: Seed = 1,
    out: Out = Path("results"),
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, help=f"Runs at a time; default one per core, in real time {AT_ONCE} while they are on time."
        ),
    ] = None,
    fresh: Fresh = False,
    export: Annotated[Path | None, typer.Option(help="Also write every figure and number into this directory.")] = None,
    as_json: As_json = False,
    _quiet: Quiet = False,
    _verbose: Verbose = False,
) -> None:
    """Reproduce a paper: compare each claim with measurements.

    Each claim has a verdict on the stack of its time and one on today's. Runs that are already in --out are not
    repeated. Writes a page.
    """
    from mptcplab.backends import backend
    from mptcplab.reproduction import Outcome, load, study

    backends = list(dict.fromkeys(on.split(",")))
    for name in backends:
        backend(name).ready()
    planned = study(load(paper), backends, only=only, quick=quick)

    from mptcplab.cli.output import print_json, print_remark
    from mptcplab.cli.progress import progress
    from mptcplab.reproduction import document
    from mptcplab.results import summary
    from mptcplab.sweep import processes

    work = {name: planned.jobs(name, seed=seed, out=out, fresh=fresh) for name in backends}
    every = [job for of_backend in work.values() for job in of_backend]
    with processes(jobs or _cores()) as pool:
        with progress([job for job in every if job.done is None]) as observer:
            bundles = [bundle for name in backends for bundle in _carried_out(work[name], pool, observer, jobs)]
        outcome = Outcome.of(planned, _observed(planned, bundles, pool, seed, out))
        page = _write(outcome, bundles, pool, out / paper / PAGE, export)
    if as_json:
        print_json(summary(bundles) | document(outcome) | {"page": str(page)})
    else:
        _show(outcome, bundles)
        reused = sum(job.done is not None for job in every)
        if reused:
            print_remark(f"done already: {reused} of {len(bundles)} (--fresh runs all again)")
        print_remark(f"report: {page}")
    if any(bundle.status != "done" for bundle in bundles):
        raise typer.Exit(4)


def _cores() -> int:
    import os

    return os.cpu_count() or 1


def _carried_out(work: Sequence[Job], pool: Executor, observer: Observer, jobs: int | None) -> list[Bundle]:
    """Returns the bundles of all runs of a back-end."""
    from dataclasses import replace

    from mptcplab.backends import backend
    from mptcplab.runner import execute
    from mptcplab.sweep import carry_out

    if not work or not backend(work[0].backend).in_real_time:
        return carry_out(work, pool, observer)
    at_once = jobs or AT_ONCE
    bundles = execute(work, observer, workers=at_once)
    while at_once > 1 and any(bundle.status == "invalid" for bundle in bundles):
        at_once //= 2
        again = [job if b.status == "invalid" else replace(job, done=b) for job, b in zip(work, bundles, strict=True)]
        bundles = execute(again, observer, workers=at_once)
    return bundles


def _observed(planned: Study, bundles: Sequence[Bundle], pool: Executor, seed: int, out: Path) -> Observations:
    """Returns the observations of the done runs of each cell, in the order of the seeds."""
    from mptcplab.reproduction import AS_DESCRIBED, observe

    done = {bundle.path for bundle in bundles if bundle.status == "done"}
    places = planned.bundles(seed=seed, out=out)
    told = {path for (_, variant, _), paths in places.items() if variant == AS_DESCRIBED for path in paths}
    seen = {path: pool.submit(observe, path, quantities_only=path not in told) for path in done}
    return {
        key: [seen[path].result().of(planned.cells[key].experiment) for path in paths if path in seen]
        for key, paths in places.items()
    }


def _write(outcome: Outcome, bundles: Sequence[Bundle], pool: Executor, page: Path, export: Path | None) -> Path:
    """Writes the page, and with `export` the figures and numbers."""
    import shlex

    from mptcplab import callers
    from mptcplab.cli.output import write_text
    from mptcplab.report import pictures_of, reproduction_page, sheets

    drawn = [pool.submit(pictures_of, sheet, export) for sheet in sheets(outcome)]
    pictures: list[Picture] = [picture for one in drawn for picture in one.result()]
    callers.make_directory(page.parent)
    records = [bundle.record for bundle in bundles]
    write_text(page, reproduction_page(outcome, pictures, records, shlex.join(["mptcplab", *sys.argv[1:]])))
    if export is not None:
        _export(outcome, export)
        callers.give(export)
    return page


def _export(outcome: Outcome, directory: Path) -> None:
    """Writes each comparison as a row of a file (claim, arm, back-end, and its entry in the document),
    and each ranking as a file.
    """
    from mptcplab.report import rankings
    from mptcplab.reproduction import document

    rows = [
        {"claim": claim["id"], "arm": one["arm"], "backend": one["backend"], **part}
        for claim in document(outcome)["claims"]
        for one in claim["on"]
        for part in one["compared"]
    ]
    directory.mkdir(parents=True, exist_ok=True)
    if rows:
        _write_csv(directory / COMPARISONS, [list(rows[0]), *([*row.values()] for row in rows)])
    for one in rankings(outcome):
        _write_csv(directory / f"{one.name}.csv", [one.grid.heads, *one.grid.rows])


def _write_csv(file: Path, rows: Sequence[Sequence[object]]) -> None:
    import csv

    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows(rows)


def _show(outcome: Outcome, bundles: Sequence[Bundle]) -> None:
    from rich.markup import escape

    from mptcplab.cli.outcome import print_not_done
    from mptcplab.cli.output import print_line, print_outline, print_table
    from mptcplab.report import rankings, tally

    print_outline([row for claim in outcome.study.claims for row in _told(outcome, claim)])
    for one in rankings(outcome):
        print_line(f"\n{one.title}")
        print_table(one.grid.heads, [[escape(cell) for cell in row] for row in one.grid.rows], right=one.grid.numeric)
    print_not_done(bundles)
    for line in tally(outcome):
        print_line(line)


def _told(outcome: Outcome, claim: Claim) -> Iterator[tuple[str, str]]:
    """Yields the lines of an outline for a claim: the statement of the paper, and for each stack the
    verdict and its reason.
    """
    from rich.markup import escape

    from mptcplab.report import judged

    yield claim.id, f"[bold]{escape(claim.says)}[/] ({escape(claim.source)})"
    for stack, verdict, reason in judged(outcome, claim):
        colour = COLOURS.get(verdict.partition(",")[0], "yellow")
        yield "", f"{escape(f'{stack}: ' if stack else '')}[{colour}]{escape(verdict)}[/]. {escape(reason)}"
