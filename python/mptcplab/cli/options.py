"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

As_json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
On: TypeAlias = Annotated[
    str, typer.Option("--on", help="Back-end, or the path of your own.", metavar="sim|kernel|PROGRAM")
]
Settings: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a value of the description; may be given again.", metavar="KEY=VALUE"),
]
Seed: TypeAlias = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Seed of the first repetition.")]
Repeat: TypeAlias = Annotated[int, typer.Option(min=1, help="Repetitions, each with the next seed.")]
Out: TypeAlias = Annotated[Path, typer.Option(file_okay=False, help="Where results go.")]
Jobs: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Runs at a time; default one per core, live one.")]
Fresh: TypeAlias = Annotated[bool, typer.Option("--fresh", help="Run again what is done already.")]
