"""Writes figures and prints tables for publications, for all commands with `--export` and
`--table`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mptcplab.cli.options import listed_names
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from mptcplab.plots import Drawing, Exporter
    from mptcplab.report.captions import Captioned
    from mptcplab.report.grid import Grid
    from mptcplab.results import Bundle


@dataclass(frozen=True)
class Publishing:
    """What `--export`, `--table` and `--json` ask for."""

    exporter: Exporter | None
    #: The form of the table that is printed in place of all else, or None.
    form: str | None
    #: Whether standard output has one document, so that remarks do not belong there.
    is_quiet: bool
    #: The style of pages, None for the usual one.
    page_style: str | None = None

    @classmethod
    def of(
        cls,
        export: Path | None,
        formats: str | None,
        size: str | None,
        style: str | None,
        table: str | None,
        *,
        as_json: bool = False,
        has_page: bool = False,
    ) -> Publishing:
        """Reads the options. `has_page` says that the command writes or shows a page, which may
        have a style of its own. Raises UsageError before anything runs.
        """
        page_style = style if has_page and _is_for_a_projector(style) else None
        exporter = exporter_of(export, formats, size, style if export or page_style is None else None)
        return cls(exporter, _table_form(table, as_json=as_json), as_json or table is not None, page_style)

    def dressed(self, page: str) -> str:
        """Returns a page in the style asked for."""
        from mptcplab.report.page import dressed

        return dressed(page, self.page_style)

    def write_figures(self, drawings: Sequence[Drawing], bundles: Sequence[Bundle], place: Path | None = None) -> None:
        """Writes the drawings and their captions into the directory of `--export`, or into `place`
        below it.
        """
        exporter = self._exporter_at(place)
        exporter.write(drawings)
        self.write_captions(drawings, bundles, place)

    def write_runs(self, bundles: Sequence[Bundle]) -> None:
        """Writes the figures of runs that are done: of several runs each into a directory of its
        own.
        """
        from pathlib import Path

        from mptcplab.plots import drawings_of

        done = [bundle for bundle in bundles if bundle.status == "done"]
        for bundle in done:
            place = Path(bundle.record["experiment"]) / bundle.path.name if len(done) > 1 else None
            self.write_figures(drawings_of(bundle.load()), [bundle], place)

    def write_captions(
        self, figures: Sequence[Captioned], bundles: Sequence[Bundle], place: Path | None = None
    ) -> None:
        """Writes the captions and references of figures that are written already."""
        from mptcplab import callers
        from mptcplab.cli.output import print_remark
        from mptcplab.report.captions import write_captions

        exporter = self._exporter_at(place)
        exporter.directory.mkdir(parents=True, exist_ok=True)
        write_captions(figures, bundles, exporter)
        callers.give(exporter.directory)
        for line in exporter.left_out():
            # `--quiet` does not silence that a form which was asked for is missing.
            print(line, file=sys.stderr)
        if not self.is_quiet:
            count = "1 figure" if len(figures) == 1 else f"{len(figures)} figures"
            print_remark(f"wrote {count} into {exporter.directory}")

    def _exporter_at(self, place: Path | None) -> Exporter:
        from dataclasses import replace

        assert self.exporter is not None, "asked without --export"
        return replace(self.exporter, directory=self.exporter.directory / place) if place else self.exporter


def exporter_of(export: Path | None, formats: str | None, size: str | None, style: str | None) -> Exporter | None:
    """Returns what writes figures, or None without `--export`. Raises UsageError for what does not
    fit together.
    """
    if export is None:
        for option, value in (("--format", formats), ("--size", size), ("--style", style)):
            if value is not None:
                if option == "--style":
                    from mptcplab.plots import STYLES

                    _allowed(option, value, STYLES)
                ways = "--export DIR or --live" if _is_for_a_projector(value) else "--export DIR"
                raise UsageError(f"{option} {value}: has no effect without {ways}")
        return None
    from mptcplab.plots import DEFAULT_FORMATS, FORMATS, PAGE, SIZES, STYLES, Exporter, Look

    wanted = list(dict.fromkeys(listed_names(formats))) if formats else list(DEFAULT_FORMATS)
    for one in wanted:
        _allowed("--format", one, FORMATS)
    if size is not None:
        _allowed("--size", size, SIZES)
    if style is not None:
        _allowed("--style", style, STYLES)
    usual = "slide" if _is_for_a_projector(style) else "text"
    look = PAGE if size is None and style is None else Look.of(size or usual, style or "plain")
    return Exporter(export, tuple(wanted), look)


def _is_for_a_projector(style: str | None) -> bool:
    # Loading the figures takes longer than most commands do anything else.
    if style is None:
        return False
    from mptcplab.plots.look import PROJECTOR

    return style == PROJECTOR


def _table_form(table: str | None, *, as_json: bool) -> str | None:
    if table is None:
        return None
    from mptcplab.report.grid_forms import FORMS

    _allowed("--table", table, FORMS)
    if as_json:
        raise UsageError(f"--table {table}: has no effect with --json, which prints one document; omit one of them")
    return table


def print_grid(grid: Grid, form: str) -> None:
    """Prints a table in a form of `--table`, as it is."""
    from mptcplab.report.grid_forms import in_form

    sys.stdout.write(in_form(grid, form))


def _allowed(option: str, found: str, allowed: Collection[str]) -> None:
    if found not in allowed:
        raise UsageError(f"{option} {found}: unknown; allowed: {', '.join(allowed)}")
