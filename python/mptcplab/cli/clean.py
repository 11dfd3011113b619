"""``mptcplab clean``: removes the bundles of unfinished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptcplab.cli.options import OUT_VARIABLE

EXAMPLE = "Example: mptcplab clean results --dry-run"


def command(
    directory: Annotated[Path, typer.Argument(envvar=OUT_VARIABLE, help="Directory of results.")] = Path("results"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print what would be removed.")] = False,
) -> None:
    """Remove the bundles of unfinished runs.

    Runs in progress, bundles of other status and other files stay.
    """
    import shutil

    from mptcplab.cli.bundles import bundles_in
    from mptcplab.cli.output import print_line

    unfinished = [bundle for bundle in bundles_in(directory) if bundle.status == "unfinished"]
    for bundle in unfinished:
        if bundle.in_progress:
            print_line(f"in progress, left alone: {bundle.path}")
            continue
        if not dry_run:
            shutil.rmtree(bundle.path)
        print_line(f"{'would remove' if dry_run else 'removed'} {bundle.path}")
    if not unfinished:
        print_line(f"{directory}: no unfinished runs")
