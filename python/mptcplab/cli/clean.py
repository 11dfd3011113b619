"""``mptcplab clean``: remove what unfinished runs left."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: mptcplab clean results --dry-run"


def command(
    directory: Annotated[Path, typer.Argument(help="Where results are.")] = Path("results"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove the bundles of runs that did not finish. Bundles of other status and files of others are left alone."""
    import shutil

    from mptcplab.cli.output import RESULTS
    from mptcplab.results import find

    unfinished = [bundle.path for bundle in find(directory) if bundle.status == "unfinished"]
    for path in unfinished:
        if not dry_run:
            shutil.rmtree(path)
        RESULTS.print(f"{'would remove' if dry_run else 'removed'} {path}", markup=False)
    if not unfinished:
        RESULTS.print(f"{directory}: no unfinished runs", markup=False)
