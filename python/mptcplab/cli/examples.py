"""``mptcplab examples``: copies the examples that come with mptcplab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLE = "Example: mptcplab examples, then: mptcplab run examples/two-paths-mptcp.yaml"


def command(
    directory: Annotated[Path, typer.Argument(help="Directory to make.", file_okay=False)] = Path("examples"),
) -> None:
    """Copy the examples that come with mptcplab.

    They are descriptions, classes, scripts and notebooks.
    """
    import shutil

    from mptcplab.cli.output import print_line, print_remark
    from mptcplab.errors import UsageError
    from mptcplab.shipped import EXAMPLES

    try:
        shutil.copytree(EXAMPLES, directory, ignore=shutil.ignore_patterns("__pycache__", "target"))
    except FileExistsError as error:
        raise UsageError(f"{directory}: exists already; allowed: a new directory") from error
    except OSError as error:
        shutil.rmtree(directory, ignore_errors=True)
        # copytree collects errors as texts of the form "[Errno 28] No space left on device: 'FILE'".
        told = error.args[0][0][2] if isinstance(error, shutil.Error) else str(error)
        why = told.partition("] ")[2].partition(": ")[0] or told
        raise UsageError(f"{directory}: cannot be made: {why}") from error
    descriptions = len(list(directory.rglob("*.yaml")))
    notebooks = len(list(directory.rglob("*.ipynb")))
    told = f"{descriptions} descriptions, {notebooks} notebooks, and the files that they use"
    print_line(f"wrote {directory}: {told}; each says in its first lines what it shows")
    print_remark(f"start here: mptcplab run {directory / 'two-paths-mptcp.yaml'}")
