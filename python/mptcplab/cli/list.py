"""``mptcplab list``: lists the experiments of the catalogue or of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The back-end without ``--on``.
DEFAULT = "sim"

EXAMPLE = "Example: mptcplab list alenazi2019"


def command(
    spec: Annotated[str | None, typer.Argument(help="Only the experiments of this name, prefix or file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List experiments, and the features that each still needs."""
    from rich.markup import escape

    from mptcplab.catalogue import listing
    from mptcplab.cli.output import RESULTS, print_json

    entries = listing(spec)
    if as_json:
        print_json({"schema": "mptcplab/list/1", "experiments": entries})
        return
    width = max(len(entry["id"]) for entry in entries)
    for entry in entries:
        RESULTS.print(f"{escape(entry['id']):<{width}}  {escape(entry['title'])}{_remark(entry)}", soft_wrap=True)


def _remark(entry: Mapping[str, Any]) -> str:
    """Returns how to run an experiment that needs --on, or the features that back-ends lack for it."""
    from rich.markup import escape

    waits = {name: escape(", ".join(features)) for name, features in entry["waits"].items()}
    if not entry["on"]:
        return f"  [dim]({'; '.join(f'{name} waits for {features}' for name, features in waits.items())})[/]"
    if DEFAULT in entry["on"]:
        return ""
    return f"  [dim](--on {' or '.join(entry['on'])}; {DEFAULT} waits for {waits[DEFAULT]})[/]"
