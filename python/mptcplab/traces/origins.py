"""Where a trace is from, in files beside it: YAML with `source`, `licence` and `columns`.

`NAME.origin.yaml` is about the trace NAME, `origin.yaml` about all traces of its folder that have
none of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mptcplab import document
from mptcplab.document import Node, wrong
from mptcplab.errors import UsageError
from mptcplab.traces.model import Origin

SUFFIX = ".origin.yaml"
OF_FOLDER = "origin.yaml"
_KEYS = ("source", "licence", "columns")
_LINE = "a text of one line"


@dataclass(frozen=True)
class Beside:
    """What a file beside a trace says of it."""

    origin: Origin = field(default_factory=Origin)
    columns: dict[str, str] = field(default_factory=dict)


def is_origin(path: Path) -> bool:
    """Returns whether the name of a file is that of one beside a trace."""
    return path.name == OF_FOLDER or path.name.endswith(SUFFIX)


def beside(path: Path) -> Beside:
    """Returns what a file beside a trace says of it. Raises SpecError if such a file is wrong."""
    for file in (path.with_name(path.name + SUFFIX), path.with_name(OF_FOLDER)):
        if file.is_file():
            return _read(document.read(file))
    return Beside()


def _read(tree: Node) -> Beside:
    for key in tree.mapping:
        if key not in _KEYS:
            raise wrong(tree, (key,), f"unknown field '{key}'", ", ".join(_KEYS))
    columns = tree.child("columns")
    named = {} if columns is None else {kind: _text(tree, ("columns", kind)) for kind in columns.mapping}
    source, licence = (_text(tree, (key,)) if tree.child(key) else None for key in ("source", "licence"))
    return Beside(Origin(source, licence), {kind: name for kind, name in named.items() if name})


def _text(tree: Node, path: tuple[str, ...]) -> str:
    node = tree.find(path)
    value: Any = node.value if node else None
    if not isinstance(value, str) or not _is_line(value):
        raise wrong(tree, path, f"found {document.kind_of(value)}", _LINE)
    return value.strip()


def _is_line(text: str) -> bool:
    return len(text.strip().splitlines()) == 1


def line(text: str, place: str) -> str:
    """Returns a source or a licence without blanks around it. Raises UsageError if it is empty or
    has several lines, because no file could keep it.
    """
    if not _is_line(text):
        raise UsageError(f"{place}: found {text[:40]!r}; allowed: {_LINE}")
    return text.strip()


def text(origin: Origin) -> str:
    """Returns the content of the file beside a trace."""
    return document.write(
        {key: value for key, value in zip(_KEYS, (origin.source, origin.licence), strict=False) if value}
    )
