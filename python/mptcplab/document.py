"""YAML with places: a description as a tree of nodes with their sources.

Reads YAML 1.2 core scalars (so `on` and `yes` are texts) with PyYAML's C parser. Nodes are
immutable and shared: profiles, families and settings build new trees out of existing nodes, and
each node keeps the source for errors and origins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from yaml.reader import ReaderError

from mptcplab.errors import SpecError, Where

Scalar: TypeAlias = "str | int | float | bool | None"
Value: TypeAlias = "dict[str, Node] | list[Node] | Scalar"
FieldPath: TypeAlias = "tuple[str | int, ...]"

_MOST_NODES = 200_000
_DEEPEST = 100
_INT_DIGITS = 40
_UNFOLDED = 2**31 - 1
_WHOLE = "KEY: VALUE lines, as in name: two-paths"


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a value. `note` is its origin in words, if it is not just a place in a file."""

    file: str | None = None
    line: int | None = None
    column: int | None = None
    note: str | None = None

    def __str__(self) -> str:
        if self.note is not None:
            return self.note
        name = Path(self.file).name if self.file else "text"
        return f"{name}:{self.line}" if self.line else name


GIVEN = Source(note="given")


class Node:
    """A mapping, list or scalar with its source, and the place of its key if it
    has one. Immutable.
    """

    __slots__ = ("key", "source", "value")

    def __init__(self, value: Value, source: Source, key: Source | None = None) -> None:
        self.value = value
        self.source = source
        self.key = key

    @property
    def mapping(self) -> dict[str, Node]:
        """The entries of a mapping; empty for other values."""
        return self.value if isinstance(self.value, dict) else {}

    def child(self, key: str | int) -> Node | None:
        """Returns the child at `key`, or None."""
        if isinstance(self.value, dict):
            return self.value.get(str(key))
        if isinstance(self.value, list) and isinstance(key, int) and key < len(self.value):
            return self.value[key]
        return None

    def find(self, path: Iterable[str | int]) -> Node | None:
        """Returns the node at `path`, or None."""
        node: Node | None = self
        for key in path:
            node = node.child(key) if node else None
        return node

    def deepest(self, path: FieldPath) -> tuple[Node, FieldPath]:
        """Returns the deepest existing node on `path`, and its path."""
        node = self
        for depth, key in enumerate(path):
            below = node.child(key)
            if below is None:
                return node, path[:depth]
            node = below
        return node, path

    def replaced(self, path: FieldPath, value: Node) -> Node:
        """Returns a copy of the tree with `value` at `path`. Missing mappings on the path are
        added.
        """
        if not path:
            return value
        below = self.child(path[0]) or Node({}, value.source)
        changed = below.replaced(path[1:], value)
        if isinstance(self.value, list) and isinstance(path[0], int):
            return Node([*self.value[: path[0]], changed, *self.value[path[0] + 1 :]], self.source, self.key)
        return Node({**self.mapping, str(path[0]): changed}, self.source, self.key)

    def plain(self) -> Any:
        """Returns the data without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, list):
            return [node.plain() for node in self.value]
        return self.value


def field_name(path: Iterable[str | int]) -> str:
    """Returns a path as it is written: `links.wifi.rate`."""
    return ".".join(str(part) for part in path)


def wrong(tree: Node, path: FieldPath, problem: str, allowed: str | None = None) -> SpecError:
    """Returns the error for the node at `path`, or for the deepest existing node on the path."""
    node, _ = tree.deepest(path)
    source = node.source
    where = Where(source.file, source.line, source.column, field_name(path) or None)
    return SpecError(problem, where, allowed=allowed)


def given(data: object, source: Source = GIVEN) -> Node:
    """Returns Python data as a tree whose nodes all have the same source."""
    if isinstance(data, Mapping):
        return Node({str(key): given(value, source) for key, value in data.items()}, source)
    if isinstance(data, (list, tuple)):
        return Node([given(value, source) for value in data], source)
    if data is None or isinstance(data, (str, int, float, bool)):
        return Node(data, source)
    raise SpecError(f"found {kind_of(data)}, a {type(data).__name__}", allowed="texts, numbers, lists and mappings")


def read(path: Path) -> Node:
    """Reads a YAML file. Raises SpecError if it cannot be read or is not a mapping."""
    name = str(path)
    if path.is_dir():
        raise SpecError("is a directory", Where(name), allowed="a description file")
    try:
        content = path.read_bytes()
        text = content.decode("utf-8")
    except FileNotFoundError:
        raise SpecError("there is no such file", Where(name)) from None
    except UnicodeDecodeError as error:
        before = content[: error.start]
        where = Where(name, before.count(b"\n") + 1, error.start - before.rfind(b"\n"))
        raise SpecError(f"byte 0x{content[error.start]:02x} is not UTF-8", where, allowed="UTF-8 text") from None
    except OSError as error:
        raise SpecError(f"cannot be read: {error.strerror}", Where(name)) from None
    return parse(text, name)


def parse(text: str, file: str | None = None) -> Node:
    """Parses a YAML text with one mapping. Raises SpecError with the place of an error."""
    root = parse_value(text, file)
    if root.value is None:
        raise SpecError("is empty", Where(file, 1, 1), allowed=_WHOLE)
    if not isinstance(root.value, dict):
        raise wrong(root, (), f"found {kind_of(root.value)}", _WHOLE)
    return root


def parse_value(text: str, file: str | None = None) -> Node:
    """Parses any one YAML value."""
    _check_brackets(text, file)
    try:
        root = yaml.compose(text, _CoreLoader)
    except yaml.MarkedYAMLError as error:
        raise _broken(error, text, file) from None
    except ReaderError as error:
        where = _place_in(text, error.position, file)
        raise SpecError(f"broken YAML: {error.reason}", where, allowed="text") from None
    return _Builder(file).build(root) if root is not None else Node(None, Source(file, 1, 1))


def kind_of(value: object) -> str:
    """Returns how a message names a value: `a list`, `'text'`, `12`."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None:
        return "nothing"
    text = f"'{value}'" if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def write(data: object, width: int = 120) -> str:
    """Returns YAML that reads back to the same data. `data` has only types of YAML 1.2's core
    schema.
    """
    return str(yaml.dump(data, Dumper=_CoreDumper, sort_keys=False, allow_unicode=True, width=width))


def write_line(data: object) -> str:
    """Returns the same on one line, with brackets."""
    text = yaml.dump(
        data, Dumper=_CoreDumper, sort_keys=False, allow_unicode=True, width=_UNFOLDED, default_flow_style=True
    )
    return str(text).removesuffix("...\n").strip()


def _check_brackets(text: str, file: str | None) -> None:
    """Refuses brackets that are nested too deep. Runs before parsing, because the C parser
    recurses.
    """
    depth = 0
    for bracket in re.finditer(r"[\[\]{}]", text):
        depth += 1 if bracket[0] in "[{" else -1
        if depth > _DEEPEST:
            where = _place_in(text, bracket.start(), file)
            raise SpecError(f"brackets are nested more than {_DEEPEST} deep", where, allowed=f"at most {_DEEPEST}")


def _place_in(text: str, position: int, file: str | None) -> Where:
    before = text[:position]
    return Where(file, before.count("\n") + 1, position - before.rfind("\n"))


# Message of the parser -> the problem in plain words, and what is allowed. `{line}` is where the
# broken part begins.
_BROKEN = (
    ("could not find expected ':'", "a ':' is missing on line {line}", "KEY: VALUE"),
    (
        "mapping values are not allowed",
        "a ':' in the middle of a value, or none on the line above",
        "KEY: VALUE, with quotes around a value that holds ': '",
    ),
    ("found unexpected end of stream", "the quote that opens on line {line} is never closed", "a quote at both ends"),
    ("expected ',' or ']'", "the '[' of line {line} is neither continued nor closed here", "',' or ']'"),
    ("expected ',' or '}'", "the '{{' of line {line} is neither continued nor closed here", "',' or '}'"),
    ("did not find expected key", "this line is indented unlike its neighbours", "as many spaces as they have"),
    ("did not find expected '-'", "this line is indented unlike its neighbours", "as many spaces as they have"),
    ("found undefined alias", "'*' refers to a name that no '&' has given", "*NAME after &NAME; quotes around a text"),
    ("found another document", "a second document begins here", "one per file; several experiments under experiments"),
)


def _broken(error: yaml.MarkedYAMLError, text: str, file: str | None) -> SpecError:
    """Returns an error of the parser in plain words."""
    said = error.problem or ""
    mark = error.problem_mark or error.context_mark
    where = Where(file, mark.line + 1, mark.column + 1) if mark is not None else Where(file)
    begins = (error.context_mark or mark).line + 1 if mark is not None else "?"
    for known, problem, allowed in _BROKEN:
        if known in said:
            return SpecError(f"broken YAML: {problem.format(line=begins)}", where, allowed=allowed)
    if "cannot start any token" in said and mark is not None:
        if text[mark.index : mark.index + 1] == "\t":
            return SpecError("broken YAML: a tab where spaces belong", where, allowed="spaces for indentation")
        return SpecError("broken YAML: a text cannot begin with this character", where, allowed="quotes around it")
    problem = ", ".join(part for part in (error.context, error.problem) if part)
    return SpecError(f"broken YAML: {problem}", where)


class _CoreLoader(yaml.CSafeLoader):
    """Resolves plain scalars by YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML declares it so)


class _CoreDumper(yaml.CSafeDumper):
    """Quotes what the core schema would read as something else."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 (PyYAML declares it so)

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 (the signature is PyYAML's)
        """Writes shared values out instead of anchors, which are hard to read."""
        return True


_CORE_SCALARS = (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", "~nN\0"),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
)
for _name, _pattern, _first in _CORE_SCALARS:
    for _class in (_CoreLoader, _CoreDumper):
        _letters: list[Any] = ["" if letter == "\0" else letter for letter in _first]
        _class.add_implicit_resolver(f"tag:yaml.org,2002:{_name}", re.compile(rf"^(?:{_pattern})$"), _letters)


class _Builder:
    """Converts nodes of PyYAML to `Node`, and refuses what descriptions must not have."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._open: set[int] = set()
        self._path: list[str | int] = []
        self._nodes = 0

    def build(self, node: yaml.Node, key: Source | None = None) -> Node:
        source = self._place(node)
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise self._wrong(source, f"holds more than {_MOST_NODES} values", "fewer values (aliases count each time)")
        if isinstance(node, yaml.ScalarNode):
            return Node(self._scalar(node, source), source, key)
        if id(node) in self._open:
            raise self._wrong(source, "an alias refers to what it is part of")
        if len(self._open) > _DEEPEST:
            raise self._wrong(source, f"is nested more than {_DEEPEST} deep")
        self._open.add(id(node))
        value = self._mapping(node) if isinstance(node, yaml.MappingNode) else self._list(node, source)
        self._open.discard(id(node))
        return Node(value, source, key)

    def _place(self, node: yaml.Node) -> Source:
        return Source(self._file, node.start_mark.line + 1, node.start_mark.column + 1)

    def _mapping(self, node: yaml.MappingNode) -> dict[str, Node]:
        entries: dict[str, Node] = {}
        for key, value in node.value:
            place = self._place(key)
            if not isinstance(key, yaml.ScalarNode):
                raise self._wrong(place, "a key is a list or mapping", "a text")
            self._path.append(key.value)
            if key.value in entries:
                first = entries[key.value].key
                raise self._wrong(place, f"is given twice, first in line {first.line if first else '?'}", "one of them")
            entries[key.value] = self.build(value, place)
            self._path.pop()
        return entries

    def _list(self, node: yaml.Node, source: Source) -> list[Node]:
        if not isinstance(node, yaml.SequenceNode) or node.tag != "tag:yaml.org,2002:seq":
            raise self._wrong(source, f"unknown tag {node.tag}", "no tags")
        items = []
        for index, item in enumerate(node.value):
            self._path.append(index)
            items.append(self.build(item))
            self._path.pop()
        return items

    def _scalar(self, node: yaml.ScalarNode, source: Source) -> Scalar:
        text: str = node.value
        match node.tag.removeprefix("tag:yaml.org,2002:"):
            case "str":
                return text
            case "int":
                return self._int(text, source)
            case "float":
                return float(re.sub(r"\.(?=inf|nan)", "", text.lower()))
            case "bool":
                return text.lower() == "true"
            case "null":
                return None
            case _:
                raise self._wrong(source, f"unknown tag {node.tag}", "no tags")

    def _int(self, text: str, source: Source) -> int:
        if len(text) > _INT_DIGITS:
            raise self._wrong(source, f"a number of {len(text)} digits", f"at most {_INT_DIGITS}")
        for prefix, base in (("0o", 8), ("0x", 16)):
            if text.startswith(prefix):
                return int(text[2:], base)
        return int(text)

    def _wrong(self, source: Source, problem: str, allowed: str | None = None) -> SpecError:
        where = Where(source.file, source.line, source.column, field_name(self._path) or None)
        return SpecError(problem, where, allowed=allowed)
