"""``mptcplab new``: writes a commented description."""

from __future__ import annotations

import re
import shlex
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from mptcplab.cli import completion

if TYPE_CHECKING:
    from mptcplab.starts import Start

EXAMPLE = "Example: mptcplab new first --from two-paths-mptcp, then: mptcplab run first.yaml"

#: What the name of a description may be.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_ENDINGS = (".yaml", ".yml")


def command(
    name: Annotated[
        Path | None, typer.Argument(help="Name of the new experiment, in NAME.yaml; default that of --from.")
    ] = None,
    origin: Annotated[
        str | None,
        typer.Option(
            "--from",
            autocompletion=completion.starts,
            metavar="SPEC|TEMPLATE",
            help="What to begin with: a template, an example, a .yaml file, or a name from `mptcplab list`.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over files that exist.")] = False,
) -> None:
    """Write a new description that explains its fields.

    It is a copy of a template, of an example, or of a published experiment, and means the same.
    Without --from, the command lists the templates.
    """
    if origin is None:
        _list_templates(name)
        return
    from mptcplab.cli.output import print_line, print_remark
    from mptcplab.starts import Start

    start = Start.of(origin)
    file = _file_of(name, origin)
    asked = shlex.join(["mptcplab", "new", *([str(name)] if name else []), "--from", origin])
    written = {file: start.text(file, asked).encode(), **_files_beside(start, file)}
    _write(written, force=force)
    for path in written:
        print_line(f"wrote {path}")
    print_remark(f"run it: mptcplab run {shlex.quote(str(file))}")


def _list_templates(name: Path | None) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_outline, print_remark
    from mptcplab.errors import UsageError
    from mptcplab.starts import TEMPLATES, example_names, templates

    if name is not None:
        raise UsageError(f"new {name}: --from is missing; allowed: {', '.join(TEMPLATES)}, or a SPEC")
    print_outline([(one, escape(title)) for one, title in templates()])
    print_remark(
        f"write one: mptcplab new NAME --from {TEMPLATES[0]}; --from also takes all {len(example_names())} examples, "
        "a .yaml file, and the names of `mptcplab list`"
    )


def _file_of(name: Path | None, origin: str) -> Path:
    """Returns the file to write. Raises UsageError for a name that an experiment cannot have."""
    from mptcplab.errors import UsageError

    asked = name if name is not None else Path(PurePosixPath(origin.rstrip("/")).name)
    file = asked if asked.suffix in _ENDINGS else asked.with_name(f"{asked.name}.yaml")
    if not _NAME.fullmatch(file.stem):
        raise UsageError(f"new {asked}: invalid name '{file.stem}'; allowed: letters, digits, _ . + -")
    return file


def _files_beside(start: Start, file: Path) -> dict[Path, bytes]:
    """Returns the contents of the files that the description refers to, at the same places beside
    its copy.
    """
    from mptcplab.errors import UsageError

    found = {}
    for source, relative in start.files():
        target = file.parent / relative
        if target.exists() and target.samefile(source):
            continue
        if ".." in relative.parts:
            raise UsageError(f"new {file}: {relative} is not below the description; allowed: a NAME in its directory")
        found[target] = source.read_bytes()
    return found


def _write(contents: dict[Path, bytes], *, force: bool) -> None:
    """Writes all files, or none of them if one exists."""
    from mptcplab import callers
    from mptcplab.errors import UsageError
    from mptcplab.unfinished import removed_if_unfinished

    for file in contents:
        if file.exists() and not force:
            raise UsageError(f"{file}: exists already; allowed: another NAME, or --force to write over it")
    for file, content in contents.items():
        try:
            if file is not next(iter(contents)):
                file.parent.mkdir(parents=True, exist_ok=True)
            with removed_if_unfinished(file):
                file.write_bytes(content)
        except OSError as error:
            raise UsageError(f"{file}: cannot be written: {error.strerror}") from error
        callers.give(file)
