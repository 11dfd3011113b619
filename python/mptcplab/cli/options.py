"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from mptcplab.backends import BACKENDS, backend
from mptcplab.errors import UsageError


def html_only(parameter: typer.CallbackParam, page: Path | None) -> Path | None:
    """Refuses a page whose name does not end in .html, before anything runs."""
    if page is not None and page.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"{parameter.opts[0]} {page}: the page is HTML; allowed: a name that ends in .html")
    return page


def made_ready(context: typer.Context, names: str) -> str:
    """Readies the back-ends before the command imports more, because only a process with one thread can enter a
    user namespace, and some modules start threads.
    """
    if not context.resilient_parsing:
        for name in filter(None, names.split(",")):
            backend(name).ready()
    return names


As_json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
On: TypeAlias = Annotated[
    str,
    typer.Option(
        "--on",
        help="Back-end, or the path of your own simulator.",
        metavar="|".join((*BACKENDS, "PROGRAM")),
        callback=made_ready,
    ),
]
On_each: TypeAlias = Annotated[
    str,
    typer.Option("--on", help="Back-ends, separated by commas.", metavar="sim,kernel", callback=made_ready),
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a value of the description; may be given again.", metavar="KEY=VALUE"),
]
SeveralValues: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        help="Change a value of the description, or run each of several values; may be given again.",
        metavar="KEY=V1,V2",
    ),
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the first repetition.")]
Repeat: TypeAlias = Annotated[int, typer.Option(min=1, help="Repetitions, each with the next seed.")]
Out: TypeAlias = Annotated[Path, typer.Option(file_okay=False, help="Directory for results.")]
Jobs: TypeAlias = Annotated[
    int | None, typer.Option(min=1, help="Runs at a time; default one per core, in real time one.")
]
Allow_programs: TypeAlias = Annotated[
    bool, typer.Option("--allow-programs", help="Run programs and classes of the description without asking.")
]
Root_programs: TypeAlias = Annotated[
    bool, typer.Option("--root-programs", help="Under sudo, run them as root and not as its caller.")
]
Export: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--export", file_okay=False, help="Also write every figure, its caption and the references into this directory."
    ),
]
Format: TypeAlias = Annotated[
    str | None,
    typer.Option("--format", help="Forms that --export writes; default png,svg,csv.", metavar="pdf,pgf,.."),
]
Size: TypeAlias = Annotated[
    str | None,
    typer.Option("--size", help="Width of what --export writes; default as on pages.", metavar="column|text|slide"),
]
Style: TypeAlias = Annotated[
    str | None,
    typer.Option("--style", help="Fonts and widths of a publisher for --export.", metavar="plain|ieee|acm"),
]
Table: TypeAlias = Annotated[
    str | None,
    typer.Option("--table", help="Print the table in this form and nothing else.", metavar="latex|markdown|csv"),
]
Fresh: TypeAlias = Annotated[bool, typer.Option("--fresh", help="Run again what is already done.")]


@contextmanager
def rights(*, allow: bool, root: bool = False) -> Iterator[None]:
    """What a description may run inside: what is allowed, was allowed before, or is at the terminal now."""
    from mptcplab import callers, consent

    if root:
        callers.keep_root()
    with consent.policy("allow" if allow else "ask"):
        yield
