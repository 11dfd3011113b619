"""A description as YAML with a comment above each field, the first time that it is used."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from mptcplab import document
from mptcplab.document import Node
from mptcplab.starts import sentences
from mptcplab.starts.sentences import FieldOf, Types

WIDTH = 100
_STEP = 2


def commented(description: Node) -> str:
    """Returns YAML that reads back to the same data.

    A field has its sentence where it first occurs. What needs no further sentence is on one line,
    if it fits.
    """
    lines = _Writer().mapping(description, sentences.WHOLE, 0)
    return "\n".join(lines).strip("\n") + "\n"


class _Writer:
    """Remembers which fields and choices have their sentence."""

    def __init__(self) -> None:
        self._told: set[FieldOf | str] = set()

    def mapping(self, node: Node, types: Types, indent: int) -> list[str]:
        """Returns the lines of a mapping that begins at a column."""
        return [line for key, child in node.mapping.items() for line in self._entry(key, child, types, indent)]

    def _entry(self, key: str, child: Node, types: Types, indent: int) -> Iterator[str]:
        field, below = sentences.at_key(types, key)
        comment = list(self._comment(field, child, below, indent))
        if indent == 0 and (comment or _is_nested(child)):
            yield ""
        yield from comment
        yield from self._value(key, child, below, indent)

    def _value(self, key: str, child: Node, types: Types, indent: int) -> Iterator[str]:
        margin = " " * indent
        if not isinstance(child.value, (dict, list)):
            yield from _scalar({key: child.plain()}, indent)
        elif self._fits(line := f"{margin}{document.write_line({key: child.plain()})[1:-1]}", child, types):
            yield line
        else:
            yield f"{margin}{document.write_line(key)}:"
            if child.mapping:
                yield from self.mapping(child, types, indent + _STEP)
            for item in child.value if isinstance(child.value, list) else ():
                yield from self._item(item, sentences.of_items(types), indent + _STEP)

    def _item(self, item: Node, types: Types, indent: int) -> Iterator[str]:
        margin = " " * indent
        line = f"{margin}- {document.write_line(item.plain())}"
        if not isinstance(item.value, (dict, list)):
            yield from _scalar([item.plain()], indent)
        elif not item.mapping or self._fits(line, item, types):
            yield line
        else:
            entries = self.mapping(item, types, indent + _STEP)
            first = next(number for number, entry in enumerate(entries) if not entry.lstrip().startswith("#"))
            yield from (f"{margin}{entry.lstrip()}" for entry in entries[:first])
            yield f"{margin}- {entries[first].lstrip()}"
            yield from entries[first + 1 :]

    def _fits(self, line: str, node: Node, types: Types) -> bool:
        """Returns whether a line is short enough and needs no sentence inside."""
        return len(line) <= WIDTH and not any(self._untold(node, types))

    def _comment(self, field: FieldOf | None, child: Node, types: Types, indent: int) -> Iterator[str]:
        told = []
        if field is not None and field not in self._told:
            self._told.add(field)
            told.append(sentences.sentence(field))
        for name in _names(child):
            summary = sentences.of_choice(types, name)
            if summary is not None and name not in self._told:
                self._told.add(name)
                told.append(f"`{name}`: {summary.removesuffix('.')}.")
        for text in filter(None, told):
            prefix = f"{' ' * indent}# "
            yield from textwrap.wrap(text, WIDTH, initial_indent=prefix, subsequent_indent=prefix)

    def _untold(self, node: Node, types: Types) -> Iterator[FieldOf | str]:
        """Yields the fields and choices in a node that have no sentence yet."""
        for key, child in node.mapping.items():
            field, below = sentences.at_key(types, key)
            if field is not None and field not in self._told and sentences.sentence(field):
                yield field
            yield from (
                name
                for name in _names(child)
                if name not in self._told and sentences.of_choice(below, name) is not None
            )
            yield from self._untold(child, below)
        for item in node.value if isinstance(node.value, list) else ():
            yield from self._untold(item, sentences.of_items(types))


def _names(node: Node) -> Iterator[str]:
    """Yields the names by which a value may choose something."""
    if isinstance(node.value, str):
        yield node.value
    elif len(node.mapping) == 1:
        yield from node.mapping
    elif isinstance(node.value, list):
        for item in node.value:
            yield from _names(item)


def _is_nested(node: Node) -> bool:
    return bool(node.mapping) or (isinstance(node.value, list) and any(item.mapping for item in node.value))


def _scalar(data: object, indent: int) -> Iterator[str]:
    """Yields the lines of a key or an item with a scalar. A long text continues on further lines."""
    for line in document.write(data, width=WIDTH - indent).splitlines():
        yield f"{' ' * indent}{line}".rstrip()
