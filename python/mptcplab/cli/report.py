"""``mptcplab report``: the page and the figures of a run."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: mptcplab report results/failing-link --export figures"


def command(
    bundle: Annotated[Path, typer.Argument(help="A bundle, or a directory that holds just one.")],
    out: Annotated[Path | None, typer.Option(help="The page; default report.html in the bundle's directory.")] = None,
    export: Annotated[Path | None, typer.Option(help="Also write every figure as PNG, SVG and CSV here.")] = None,
) -> None:
    """Write the report of a run: one HTML page, and one for each host of which it made captures.

    Each is complete in itself. Several runs side by side: mptcplab compare.
    """
    from mptcplab.cli.bundles import one_bundle

    found = one_bundle(bundle)

    from mptcplab.cli.output import print_line, write_text
    from mptcplab.plots import drawings_of
    from mptcplab.plots import export as export_figures
    from mptcplab.report import captured_hosts, host_page, run_page

    page = out or found.path / "report.html"
    with tempfile.TemporaryDirectory(prefix="mptcplab-") as scratch:
        captured = captured_hosts(found.record, found.path, Path(scratch))
        for host in captured:
            beside = page.with_name(host.page)
            write_text(beside, host_page(host))
            print_line(f"wrote {beside}")
    write_text(page, run_page(found, captured))
    print_line(f"wrote {page}")
    if export is not None:
        figures = export_figures(drawings_of(found.load()), export)
        print_line(f"wrote {len(figures)} figures into {export}")
