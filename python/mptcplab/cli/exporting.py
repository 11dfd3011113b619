"""Writes figures and prints tables for publications, for all commands with `--export` and `--table`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from mptcplab.plots import Drawing, Exporter
    from mptcplab.report.captions import Captioned
    from mptcplab.report.grid import Grid
    from mptcplab.results import Bundle


def exporter_of(export: Path | None, formats: str | None, size: str | None, style: str | None) -> Exporter | None:
    """Returns what writes figures, or None without `--export`. Raises UsageError before anything runs."""
    if export is None:
        for option, value in (("--format", formats), ("--size", size), ("--style", style)):
            if value is not None:
                raise UsageError(f"{option} {value}: has no effect without --export DIR")
        return None
    from mptcplab.plots import DEFAULT_FORMATS, FORMATS, PAGE, SIZES, STYLES, Exporter, Look

    wanted = list(dict.fromkeys(formats.split(","))) if formats else list(DEFAULT_FORMATS)
    for one in wanted:
        _allowed("--format", one, FORMATS)
    if size is not None:
        _allowed("--size", size, SIZES)
    if style is not None:
        _allowed("--style", style, STYLES)
    look = PAGE if size is None and style is None else Look.of(size or "text", style or "plain")
    return Exporter(export, tuple(wanted), look)


def table_form(table: str | None, *, as_json: bool = False) -> str | None:
    """Returns the form of a table, or None. Raises UsageError before anything runs."""
    if table is None:
        return None
    from mptcplab.report.grid_forms import FORMS

    _allowed("--table", table, FORMS)
    if as_json:
        raise UsageError(f"--table {table}: has no effect with --json, which prints one document; omit one of them")
    return table


def write_figures(exporter: Exporter, drawings: Sequence[Drawing], bundles: Sequence[Bundle], *, quiet: bool) -> None:
    """Writes the drawings and their captions, and says so unless `quiet`."""
    exporter.write(drawings)
    write_captions(exporter, drawings, bundles, quiet=quiet)


def write_runs(exporter: Exporter, bundles: Sequence[Bundle], *, quiet: bool) -> None:
    """Writes the figures of runs that are done: of several runs each into a directory of its own."""
    from dataclasses import replace
    from pathlib import Path

    from mptcplab.plots import drawings_of

    done = [bundle for bundle in bundles if bundle.status == "done"]
    for bundle in done:
        place = Path(bundle.record["experiment"]) / bundle.path.name if len(done) > 1 else Path()
        of_run = replace(exporter, directory=exporter.directory / place)
        write_figures(of_run, drawings_of(bundle.load()), [bundle], quiet=quiet)


def write_captions(exporter: Exporter, figures: Sequence[Captioned], bundles: Sequence[Bundle], *, quiet: bool) -> None:
    """Writes the captions and references of figures that are written already, and says so unless `quiet`."""
    from mptcplab import callers
    from mptcplab.cli.output import REMARKS, print_remark
    from mptcplab.report.captions import write_captions as write

    exporter.directory.mkdir(parents=True, exist_ok=True)
    write(figures, bundles, exporter)
    callers.give(exporter.directory)
    for line in exporter.left_out():
        REMARKS.print(line, markup=False, soft_wrap=True)
    if not quiet:
        count = "1 figure" if len(figures) == 1 else f"{len(figures)} figures"
        print_remark(f"wrote {count} into {exporter.directory}")


def print_grid(grid: Grid, form: str) -> None:
    """Prints a table in a form of `--table`, as it is."""
    from mptcplab.report.grid_forms import in_form

    sys.stdout.write(in_form(grid, form))


def _allowed(option: str, found: str, allowed: Collection[str]) -> None:
    if found not in allowed:
        raise UsageError(f"{option} {found}: unknown; allowed: {', '.join(allowed)}")
