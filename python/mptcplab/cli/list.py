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
    from mptcplab.cli.output import RESULTS, print_json

    entries = listing(spec)
    if as_json:
        print_json({"schema": "mptcplab/list/1", "experiments": entries})
        return
    width = max(len(entry["id"]) for entry in entries)
    for entry in entries:
        waits = f"  [dim](waits for {escape(', '.join(entry['missing']))})[/]" if entry["missing"] else ""
        RESULTS.print(f"{escape(entry['id']):<{width}}  {escape(entry['title'])}{waits}", soft_wrap=True)
