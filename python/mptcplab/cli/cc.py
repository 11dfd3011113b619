"""``mptcplab cc``: makes coupled congestion controls available to all programs on this machine."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

EXAMPLE = "Example: sudo mptcplab cc install olia"
STATES = {"in_kernel": "of this kernel", "installed": "installed", "not_installed": "not installed"}


class Action(StrEnum):
    """Action of the command."""

    list = "list"
    install = "install"
    remove = "remove"


def command(
    action: Annotated[Action, typer.Argument(help="What to do.")],
    names: Annotated[
        list[str] | None, typer.Argument(help="Names of congestion controls; default all possible.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Install coupled congestion controls into this kernel.

    Any program can then use them, until they are removed.
    """
    from mptcplab import congestion
    from mptcplab.cli.output import print_json, print_line

    if action is Action.install:
        congestion.install(names)
    elif action is Action.remove:
        congestion.remove(names)
    found = congestion.controls(names)
    if as_json:
        print_json({"schema": "mptcplab/cc/1", "congestion_controls": found})
        return
    width = max(len(one["name"]) for one in found)
    for one in found:
        print_line(f"{one['name']:<{width}}  {STATES[one['state']]}")
