"""``mptcplab reproduce``: compares the claims of a paper with measurements."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli.options import (
    As_json,
    Export,
    Format,
    Fresh,
    On_each,
    Out,
    Quiet,
    Seed,
    Size,
    Style,
    Table,
    Verbose,
)
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Executor

    from mptcplab.cli.exporting import Publishing
    from mptcplab.report.grid import Grid
    from mptcplab.report.page import Picture
    from mptcplab.reproduction import Claim, Kept, Observation, Observations, Outcome, Paper, Study
    from mptcplab.reproduction.arms import Arm
    from mptcplab.results import Bundle
    from mptcplab.runner import Job, Observer

    #: A bundle, with its observation if the worker that made the run returned one.
    Made = tuple[Bundle, Observation | None]
    #: The bundles of each cell of a study.
    Places = dict[tuple[Arm, str, str], list[Path]]

EXAMPLE = "Example: mptcplab reproduce alenazi2019 --only fig9 --quick"
#: In place of a paper: all papers.
ALL = "all"
INDEX = "claims.html"
PAGE, COMPARISONS = "reproduction.html", "comparisons.csv"
COLOURS = {"reproduced": "green", "refuted": "red"}
#: Number of runs at a time in real time. Runs that were spoiled by the load of the machine are
#: repeated with half as many at a time, down to one.
AT_ONCE = 8
#: Their flows carry at most this together, because two cores do not emulate more on time.
MOST_AT_ONCE_BPS = 400_000_000


@dataclass(frozen=True)
class Asked:
    """What the options ask for, of each paper."""

    backends: Sequence[str]
    only: str | None
    quick: bool
    seed: int
    out: Path
    jobs: int | None
    fresh: bool
    publishing: Publishing
    as_json: bool


def command(
    paper: Annotated[
        str | None, typer.Argument(help=f"A paper with a table of claims, or {ALL}; without it, lists the papers.")
    ] = None,
    on: On_each = "sim",
    only: Annotated[
        str | None,
        typer.Option(
            help="Only this figure, experiment, claim, table or ranking, or a pattern of them.", metavar="fig9"
        ),
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Provisional: 3 repetitions, shorter runs, no variants of assumptions."),
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
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    as_json: As_json = False,
    _quiet: Quiet = False,
    _verbose: Verbose = False,
) -> None:
    """Reproduce a paper: compare each claim with measurements.

    Each claim has a verdict on the stack of its time and one on today's. Runs that are already in
    --out are not repeated. Writes a page, and for all papers an index of their claims.
    """
    from mptcplab.cli.exporting import Publishing
    from mptcplab.reproduction import load, papers, parts, study
    from mptcplab.sweep import processes

    if paper is None:
        _list([load(one) for one in papers()], as_json=as_json)
        return
    publishing = Publishing.of(export, formats, size, style, table, as_json=as_json, has_page=True)
    backends = list(dict.fromkeys(on.split(",")))
    asked = Asked(backends, only, quick, seed, out, jobs, fresh, publishing, as_json)
    tables = [load(one) for one in papers()] if paper == ALL else [load(paper)]
    if paper == ALL and only is not None:
        raise UsageError(f"--only {only}: goes with one paper; allowed: {', '.join(papers())}")
    for one in tables:
        parts(one, only)  # refuses a wrong --only before workers start
    workers = jobs or _cores()
    with processes(workers) as pool:
        for _ in range(workers):
            pool.submit(_load_figures)
        planned = [study(one, backends, only=only, quick=quick) for one in tables]
        reproduced = [_reproduced(one, asked, pool) for one in planned]
    if paper == ALL:
        _write_index(reproduced, out / INDEX, asked)
    if not all(one.all_done for one in reproduced):
        raise typer.Exit(4)


def _load_figures() -> None:
    """Loads in a worker what draws figures, while the caller plans the runs."""
    from importlib import import_module

    for module in ("matplotlib.backends.backend_svg", "mptcplab.report.reproduction"):
        import_module(module)


@dataclass(frozen=True)
class Reproduced:
    """The verdicts of a paper, its page, and whether all of its runs were done."""

    outcome: Outcome
    page: Path
    all_done: bool


def _list(tables: Sequence[Paper], *, as_json: bool) -> None:
    """Prints the papers with a table of claims."""
    from mptcplab.cli.output import print_json, print_remark, print_table

    if as_json:
        print_json({"papers": [{"id": one.id, "title": one.title, "claims": len(one.claims)} for one in tables]})
        return
    print_table(["paper", "claims", "title"], [[one.id, str(len(one.claims)), one.title] for one in tables])
    print_remark(f"mptcplab reproduce {tables[0].id} --quick, or mptcplab reproduce {ALL} --quick")


def _reproduced(planned: Study, asked: Asked, pool: Executor) -> Reproduced:
    """Performs the runs of a study, judges the claims, writes the page, and prints the outcome."""
    from mptcplab.cli.exporting import print_grid
    from mptcplab.cli.output import print_json, print_remark
    from mptcplab.cli.progress import progress
    from mptcplab.reproduction import Outcome, document
    from mptcplab.results import summary

    seed, out, backends, publishing = asked.seed, asked.out, asked.backends, asked.publishing
    work = {name: _to_do(name, planned.jobs(name, seed=seed, out=out, fresh=asked.fresh)) for name in backends}
    every = [job for of_backend in work.values() for job in of_backend]
    with progress([job for job in every if job.done is None]) as observer:
        places = planned.bundles(seed=seed, out=out)
        kept = _kept(planned, places)
        made = [one for name in backends for one in _carried_out(work[name], kept, pool, observer, asked.jobs)]
    bundles = [bundle for bundle, _ in made]
    outcome = Outcome.of(planned, _observed(planned, made, places, kept, pool))
    page = _write(outcome, bundles, pool, out / planned.paper.id / PAGE, publishing)
    if asked.as_json:
        print_json(summary(bundles) | document(outcome) | {"page": str(page)})
    elif publishing.form:
        print_grid(_grid(outcome), publishing.form)
    else:
        _show(outcome, bundles)
        reused = sum(job.done is not None for job in every)
        if reused:
            print_remark(f"done already: {reused} of {len(bundles)} (--fresh runs all again)")
        print_remark(f"report: {page}")
    # The index needs the verdicts alone. Observations and records of thousands of runs take gigabytes.
    return Reproduced(replace(outcome, observations={}), page, all(bundle.status == "done" for bundle in bundles))


def _write_index(reproduced: Sequence[Reproduced], index: Path, asked: Asked) -> None:
    """Writes the index of all claims."""
    import os
    import shlex

    from mptcplab.cli.output import print_line, print_remark, write_text
    from mptcplab.report.reproduction import agreement_sentences, index_page

    pages = [(one.outcome, os.path.relpath(one.page, index.parent)) for one in reproduced]
    write_text(index, asked.publishing.dressed(index_page(pages, shlex.join(["mptcplab", *sys.argv[1:]]))))
    if not asked.publishing.is_quiet:
        for line in agreement_sentences([one.outcome for one in reproduced]):
            print_line(f"all papers, {line}")
        print_remark(f"index: {index}")


def _cores() -> int:
    import os

    return os.cpu_count() or 1


def _carried_out(
    work: Sequence[Job], kept: Mapping[Path, Kept], pool: Executor, observer: Observer, jobs: int | None
) -> list[Made]:
    """Returns the bundles of all runs of a back-end, with the observations of those that were made
    in a worker.
    """
    from functools import partial

    from mptcplab.backends import backend
    from mptcplab.reproduction import observe_in_memory
    from mptcplab.runner import execute
    from mptcplab.sweep import carry_out_and_look

    if not work or not backend(work[0].backend).in_real_time:
        looks = [partial(observe_in_memory, kept=kept[job.place]) for job in work]
        return carry_out_and_look(list(zip(work, looks, strict=True)), pool, observer)
    at_once = jobs or AT_ONCE
    bundles = execute(work, observer, workers=at_once, most_bps=MOST_AT_ONCE_BPS)
    while at_once > 1 and any(map(_is_spoiled, bundles)):
        at_once //= 2
        again = [_unless_spoiled(job, bundle) for job, bundle in zip(work, bundles, strict=True)]
        bundles = execute(again, observer, workers=at_once, most_bps=MOST_AT_ONCE_BPS)
    return [(bundle, None) for bundle in bundles]


def _to_do(name: str, jobs: Sequence[Job]) -> list[Job]:
    """Returns the jobs of a back-end. In real time, those of an earlier call that were spoiled run
    again.
    """
    from mptcplab.backends import backend

    return [_unless_spoiled(job, job.done) for job in jobs] if backend(name).in_real_time else list(jobs)


def _unless_spoiled(job: Job, made: Bundle | None) -> Job:
    """Returns a job that reuses the bundle that was made of it, unless that was spoiled."""
    if made is not None and _is_spoiled(made):
        return replace(job, done=None, fresh=True)
    return replace(job, done=made)


def _is_spoiled(bundle: Bundle) -> bool:
    """Returns whether the machine was too busy during a run for claims to be judged by it."""
    from mptcplab.results import why_busy

    if bundle.status == "done":
        return why_busy(bundle.record, bundle.resolved) is not None
    return bundle.status == "invalid"


def _kept(planned: Study, places: Places) -> dict[Path, Kept]:
    """Returns what is kept of each run, because several cells may need the same one."""
    from mptcplab.reproduction import Kept

    kept: dict[Path, Kept] = {}
    for cell, paths in places.items():
        of_cell = planned.kept(planned.cells[cell])
        kept |= {path: kept.get(path, Kept()) | of_cell for path in paths}
    return kept


def _observed(
    planned: Study, made: Sequence[Made], places: Places, kept: Mapping[Path, Kept], pool: Executor
) -> Observations:
    """Returns the observations of the done runs of each cell, in the order of the seeds."""
    from mptcplab.reproduction import observe

    unseen = {bundle.path for bundle, seen in made if bundle.status == "done" and seen is None}
    read = {path: pool.submit(observe, path, kept[path]) for path in unseen}
    seen = {bundle.path: replace(one, bundle=str(bundle.path)) for bundle, one in made if one is not None}
    seen |= {path: future.result() for path, future in read.items()}
    return {
        key: [seen[path].of(planned.cells[key].experiment) for path in paths if path in seen]
        for key, paths in places.items()
    }


def _grid(outcome: Outcome) -> Grid:
    """Returns a row for each claim and stack, with the verdict and its reason."""
    from mptcplab.report.grid import Grid
    from mptcplab.report.reproduction import judged

    rows = [[claim.id, claim.says, *told] for claim in outcome.study.claims for told in judged(outcome, claim)]
    return Grid(["claim", "what the paper says", "stack", "verdict", "why"], rows)


def _write(
    outcome: Outcome,
    bundles: Sequence[Bundle],
    pool: Executor,
    page: Path,
    asked: Publishing,
) -> Path:
    """Writes the page, and with an exporter the figures and numbers."""
    import shlex

    from mptcplab import callers
    from mptcplab.cli.output import write_text
    from mptcplab.report.reproduction import pictures_of, reproduction_page, sheets

    drawn = [pool.submit(pictures_of, sheet, asked.exporter) for sheet in sheets(outcome)]
    pictures: list[Picture] = [picture for one in drawn for picture in one.result()]
    callers.make_directory(page.parent)
    records = [bundle.record for bundle in bundles]
    text = reproduction_page(outcome, pictures, records, shlex.join(["mptcplab", *sys.argv[1:]]))
    write_text(page, asked.dressed(text))
    if asked.exporter is not None:
        asked.write_captions(pictures, bundles)
        _export(outcome, asked.exporter.directory)
    return page


def _export(outcome: Outcome, directory: Path) -> None:
    """Writes each comparison as a row of a file (claim, arm, back-end, and its entry in the
    document), and each ranking and each table of the paper as a file.
    """
    from mptcplab.report.reproduction import rankings, tables
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
    for filled in tables(outcome):
        _write_csv(directory / f"{filled.id}.csv", [filled.grid.heads, *filled.grid.rows])


def _write_csv(file: Path, rows: Sequence[Sequence[object]]) -> None:
    import csv

    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened).writerows(rows)


def _show(outcome: Outcome, bundles: Sequence[Bundle]) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.outcome import print_not_done
    from mptcplab.cli.output import print_line, print_outline, print_table
    from mptcplab.report.reproduction import rankings, tables, tally

    print_outline([row for claim in outcome.study.claims for row in _told(outcome, claim)])
    titled = [(one.title, one.grid) for one in tables(outcome)]
    titled += [(one.title, one.grid) for one in rankings(outcome)]
    for title, grid in titled:
        print_line(f"\n{title}")
        print_table(grid.heads, [[escape(cell) for cell in row] for row in grid.rows], right=grid.numeric)
    print_not_done(bundles)
    for line in tally(outcome):
        print_line(line)


def _told(outcome: Outcome, claim: Claim) -> Iterator[tuple[str, str]]:
    """Yields the lines of an outline for a claim: the statement of the paper, and for each stack
    the verdict and its reason.
    """
    from mptcplab.cli.console import escape
    from mptcplab.report.reproduction import judged

    yield claim.id, f"[bold]{escape(claim.says)}[/] ({escape(claim.source)})"
    for stack, verdict, reason in judged(outcome, claim):
        colour = COLOURS.get(verdict.partition(",")[0], "yellow")
        yield "", f"{escape(f'{stack}: ' if stack else '')}[{colour}]{escape(verdict)}[/]. {escape(reason)}"
