"""``mptcplab show``: shows the resolved form of a description."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptcplab.cli.options import Settings, Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mptcplab.experiment import Resolved

EXAMPLE = "Example: mptcplab show alenazi2019/fig9/n3"


def command(
    spec: Spec,
    settings: Settings = None,
    as_resolved: Annotated[
        bool, typer.Option("--resolved", help="Print the resolved form that back-ends read, as one JSON document.")
    ] = False,
    paths: Annotated[
        bool, typer.Option("--paths", help="Print the way of each path, and the cut that proves that no more exist.")
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(help="Write the topology as SVG into this file; with --paths, with the paths of its first flow."),
    ] = None,
) -> None:
    """Show what a description was resolved to.

    Prints the back-ends that run it, the topology, middleboxes, payload capacities, the schedule,
    and every value with its origin.
    """
    from mptcplab.catalogue import entry_of
    from mptcplab.cli.explained import print_paths
    from mptcplab.cli.output import REMARKS, print_json
    from mptcplab.cli.specs import resolved

    described, members = resolved([spec], settings)
    if svg is not None:
        _write_svg(members, svg, paths=paths)
        REMARKS.print(f"wrote {svg}", style="dim", markup=False, soft_wrap=True)
    if as_resolved:
        experiments = [member.data for member in members]
        print_json(experiments[0] if len(experiments) == 1 else experiments)
        return
    for description, member in zip(described, members, strict=True):
        if paths:
            print_paths(member.data)
        else:
            _print(member, entry_of(description))


def _write_svg(members: list[Resolved], svg: Path, *, paths: bool) -> None:
    from mptcplab.cli.output import write_text
    from mptcplab.errors import UsageError
    from mptcplab.picture import as_svg

    if len(members) > 1:
        raise UsageError(f"--svg draws one experiment, and this SPEC has {len(members)}; name one of them")
    write_text(svg, as_svg(members[0].data, paths=paths))


def _print(member: Resolved, entry: Mapping[str, Any]) -> None:
    from mptcplab.cli.explained import (
        print_back_ends,
        print_ceilings,
        print_devices,
        print_head,
        print_middleboxes,
        print_origins,
        print_published,
        print_schedule,
        print_topology,
    )

    print_head(member.data)
    print_back_ends(entry)
    print_topology(member.data)
    print_devices(member.data)
    print_middleboxes(member.data)
    print_ceilings(member.data)
    print_schedule(member.data)
    if member.description:
        print_published(member)
        print_origins(member)
