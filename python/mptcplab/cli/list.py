"""``mptcplab list``: lists the experiments of the catalogue or of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptcplab.backends import BACKENDS
from mptcplab.cli import completion

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

EXAMPLE = "Example: mptcplab list alenazi2019"


def command(
    spec: Annotated[
        str | None,
        typer.Argument(autocompletion=completion.specs, help="Only the experiments of this name, prefix or file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """List experiments and the back-ends that run each.

    Behind each are the features that the other back-ends still need.
    """
    from mptcplab.catalogue import listing
    from mptcplab.cli.output import print_json

    entries = listing(spec)
    if as_json:
        print_json({"schema": "mptcplab/list/1", "experiments": entries})
    else:
        _print(entries)


def _print(entries: Sequence[Mapping[str, Any]]) -> None:
    """Prints a head for each paper and a line for each experiment."""
    from itertools import groupby

    from mptcplab.catalogue_index import title_of
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import RESULTS, print_remark

    width = max(len(entry["id"]) for entry in entries)
    for paper, group in groupby(entries, key=lambda entry: entry["id"].partition("/")[0]):
        members = list(group)
        title = title_of(paper)
        if title is not None:
            number = f"{len(members)} experiment{'s' if len(members) > 1 else ''}"
            RESULTS.print(f"[bold]{escape(paper)}[/]: {escape(title)} ({number})", soft_wrap=True)
        for entry in members:
            told = f"{escape(entry['id']):<{width}}  {_marks(entry)}  {escape(entry['title'])}".rstrip()
            RESULTS.print(f"{told}{_waits(entry)}", soft_wrap=True)
    print_remark(f"runs on: {', '.join(f'{_mark(name)} {name}' for name in BACKENDS)}; - waits for a feature")


def _mark(backend: str) -> str:
    return backend[0].upper()


def _marks(entry: Mapping[str, Any]) -> str:
    """Returns a letter for each back-end that runs the experiment, and a dash for each that does
    not.
    """
    return " ".join(_mark(name) if name in entry["on"] else "-" for name in BACKENDS)


def _waits(entry: Mapping[str, Any]) -> str:
    """Returns what back-ends lack for the experiment, in brackets."""
    from mptcplab.cli.console import escape
    from mptcplab.cli.explained import waits_of

    told = waits_of(entry)
    return f"  [dim]({escape('; '.join(told))})[/]" if told else ""
