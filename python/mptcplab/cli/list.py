"""``mptcplab list``: the experiments of the catalogue or of a file."""

from __future__ import annotations

from typing import Annotated

import typer

EXAMPLE = "Example: mptcplab list alenazi2019"


def command(
    spec: Annotated[str | None, typer.Argument(help="Only what a name, a prefix or a file means.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List experiments, and what each still waits for."""
    from rich.markup import escape

    from mptcplab.catalogue import listing
    from mptcplab.cli.output import print_json, print_table

    entries = listing(spec)
    if as_json:
        print_json({"schema": "mptcplab/list/1", "experiments": entries})
        return
    rows = [(escape(entry["id"]), escape(entry["title"]), ", ".join(entry["missing"])) for entry in entries]
    print_table(("experiment", "title", "waits for"), rows)
