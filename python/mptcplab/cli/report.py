"""``mptcplab report``: writes the page and the figures of a run."""

from __future__ import annotations

import os
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli import completion
from mptcplab.cli.options import Allow_programs, Export, Format, Listed, Quiet, Size, Style, Table, html_only, rights

if TYPE_CHECKING:
    from mptcplab.report.beside import Beside
    from mptcplab.reproduction import Publication, Side
    from mptcplab.results import Bundle
    from mptcplab.results.entities import Json

EXAMPLE = "Example: mptcplab report results/failing-link --export figures"


def command(
    bundle: Annotated[Path, typer.Argument(help="A bundle, or a directory with bundles.")],
    out: Annotated[
        Path | None, typer.Option(help="File of the page; default report.html in the bundle.", callback=html_only)
    ] = None,
    export: Export = None,
    formats: Format = None,
    size: Size = None,
    style: Style = None,
    table: Table = None,
    simulate: Annotated[
        bool | None,
        typer.Option(
            "--simulate/--no-simulate",
            help="Simulate the same experiment and show it beside; default only if a paper published values of it.",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Select the bundle by its seed.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Select it by a change it was run with; may be given again.", metavar="KEY=VALUE"),
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", autocompletion=completion.backends, help="Select it by its back-end.")
    ] = None,
    newest: Annotated[bool, typer.Option("--newest", help="Use the newest without a remark.")] = False,
    listed: Listed = False,
    allow_programs: Allow_programs = False,
    _quiet: Quiet = False,
) -> None:
    """Write the report of a run as an HTML page.

    Each host with captures has a page of its own. Of several bundles it takes the newest.

    Each page is self-contained. The report of an experiment of a paper has the published values,
    and the simulator next to a run in real time. For several runs side by side, see mptcplab
    compare.
    """
    from mptcplab.cli.bundles import Selection, bundles_under, one_bundle, print_bundles
    from mptcplab.cli.exporting import Publishing, print_grid
    from mptcplab.cli.specs import overrides

    asked = Publishing.of(export, formats, size, style, table, has_page=True)
    selection = Selection(seed, overrides(settings), (on,) if on else (), newest)
    if listed:
        print_bundles(selection.among(bundles_under([bundle]), bundle))
        return
    found = one_bundle(bundle, selection)
    run = found.load()

    from mptcplab.backends import SIMULATOR
    from mptcplab.cli.output import print_line, print_remark, write_text
    from mptcplab.plots import drawings_of
    from mptcplab.report.captured import captured_hosts, host_page
    from mptcplab.report.publication import Published
    from mptcplab.report.run import run_page
    from mptcplab.reproduction import Publication

    page = out or _place_of_page(found)
    written: list[Path] = []
    publication = Publication.about(found.record["experiment"])
    with tempfile.TemporaryDirectory(prefix="mptcplab-") as scratch:
        with rights(allow=allow_programs):
            sides = _sides(found, publication, simulate, Path(scratch))
        published = Published.of(publication, found, sides) if publication else None
        beside = _beside(found, sides)
        captured = captured_hosts(found.record, found.path, Path(scratch))
        for host in captured:
            page_of_host = page.with_name(host.page)
            write_text(page_of_host, asked.dressed(host_page(host)))
            written.append(page_of_host)
        write_text(page, asked.dressed(run_page(found, captured, published=published, beside=beside)))
    if asked.exporter is not None:
        drawings = [*drawings_of(run), *(beside.drawings if beside else ())]
        asked.write_figures(drawings, [found])
    if asked.form:
        from mptcplab.cli.outcome import outcome_grid

        print_grid(outcome_grid([found]), asked.form)
        return
    for path in [*written, page]:
        print_line(f"wrote {path}")
    for line in published.tally if published else ():
        print_line(f"published values, {line}")
    if beside is None and simulate is None and found.record["backend"] != SIMULATOR:
        print_remark(f"compare with the simulator: mptcplab report {shlex.quote(str(found.path))} --simulate")


def _place_of_page(bundle: Bundle) -> Path:
    """Returns the file of the page: in the bundle, or in the working directory if the user may not
    write there.
    """
    from mptcplab.cli.output import print_note

    if os.access(bundle.path, os.W_OK):
        return bundle.path / "report.html"
    print_note(f"{bundle.path}: not writable for you; the report goes into the working directory")
    return Path("report.html")


def _sides(bundle: Bundle, publication: Publication | None, simulate: bool | None, scratch: Path) -> list[Side]:
    """Returns the run with the runs of its back-end that the published values need and, if wanted,
    the same runs in the simulator.
    """
    from mptcplab.backends import SIMULATOR
    from mptcplab.errors import UsageError
    from mptcplab.reproduction import Side

    is_simulated = bundle.record["backend"] == SIMULATOR
    if simulate and is_simulated:
        raise UsageError(f"{bundle.path}: is a run of the simulator; --simulate is for runs of other back-ends")
    compared = publication if publication is not None and publication.is_about(bundle) else None
    ran = compared.beside(bundle) if compared else Side.of(bundle, {}, {})
    wanted = compared is not None and not is_simulated if simulate is None else simulate
    needed = {bundle.record["experiment"]: bundle.resolved} | (compared.needed if compared else {})
    return [ran, _simulated(ran, needed, bundle.record["seed"], scratch)] if wanted else [ran]


def _simulated(ran: Side, needed: dict[str, Json], seed: int, scratch: Path) -> Side:
    """Simulates the same experiments and returns their runs."""
    from mptcplab.cli.progress import progress
    from mptcplab.reproduction import Twins
    from mptcplab.runner import execute

    twins = Twins.of(ran, needed, seed=seed, out=scratch)
    jobs = list(twins.jobs.values())
    with progress(jobs) as observer:
        return twins.side(execute(jobs, observer))


def _beside(bundle: Bundle, sides: list[Side]) -> Beside | None:
    """Returns the run beside the simulated one, or None if nothing was simulated."""
    from mptcplab.report.beside import Beside

    name = bundle.record["experiment"]
    if len(sides) == 1:
        return None
    twin = sides[1].runs.get(name)
    return Beside.of(bundle, twin) if twin else Beside.missing(sides[1].why_not[name])
