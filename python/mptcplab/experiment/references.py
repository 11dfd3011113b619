"""References in a description: `$name` and `$name.field`, replaced by the values of parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mptcplab.document import FieldPath, Node, kind_of, wrong
from mptcplab.experiment.base import nearest_hint

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_REFERENCE = re.compile(rf"\$(?:(\$)|\{{({_NAME}(?:\.{_NAME})*)\}}|({_NAME}(?:\.{_NAME})*)|)")
_WHOLE = re.compile(rf"\$(?:\{{({_NAME}(?:\.{_NAME})*)\}}|({_NAME}(?:\.{_NAME})*))")


class Binding:
    """The value of a parameter in one member: its label, and the node that replaces references."""

    __slots__ = ("label", "node")

    def __init__(self, label: str, node: Node) -> None:
        self.label = label
        self.node = node


Bindings = Mapping[str, Binding]


def substituted(tree: Node, bindings: Bindings) -> Node:
    """Returns the tree with all references replaced. Raises SpecError for an unknown parameter."""
    result = _Substitution(tree, bindings).node(tree, ())
    return result if result is not None else Node(None, tree.source)


def mentions(text: str) -> set[str]:
    """Returns the names of the parameters that a text refers to."""
    found = (match[2] or match[3] for match in _REFERENCE.finditer(text))
    return {reference.partition(".")[0] for reference in found if reference}


class _Substitution:
    def __init__(self, tree: Node, bindings: Bindings) -> None:
        self._tree = tree
        self._bindings = bindings

    def node(self, node: Node, path: FieldPath) -> Node | None:
        """Returns the node with its references replaced, or None to remove its key. Parts without
        references are shared, not copied.
        """
        value = node.value
        if isinstance(value, str):
            return self._text(node, value, path) if "$" in value else node
        if isinstance(value, dict):
            entries = {key: self.node(child, (*path, key)) for key, child in value.items()}
            if all(entries[key] is child for key, child in value.items()):
                return node
            return Node({key: child for key, child in entries.items() if child is not None}, node.source)
        if isinstance(value, list):
            items = [self.node(child, (*path, index)) for index, child in enumerate(value)]
            return Node([item for item in items if item is not None], node.source)
        return node

    def _text(self, node: Node, text: str, path: FieldPath) -> Node | None:
        whole = _WHOLE.fullmatch(text)
        if whole:
            return self._value(whole[1] or whole[2], path)
        return Node(_REFERENCE.sub(lambda match: self._inside(match, path), text), node.source)

    def _binding(self, name: str, path: FieldPath) -> Binding:
        if name not in self._bindings:
            known = list(self._bindings)
            problem = f"unknown parameter '{name}'{nearest_hint(name, known)}"
            raise wrong(self._tree, path, problem, ", ".join(known) or "no parameters are declared ($$ is a plain $)")
        return self._bindings[name]

    def _value(self, reference: str, path: FieldPath) -> Node | None:
        name, *fields = reference.split(".")
        binding = self._binding(name, path)
        if not fields:
            # A mapping is replaced by its label: $scenario is "A.1", and $scenario.flows is a part of it.
            return Node(binding.label, binding.node.source) if isinstance(binding.node.value, dict) else binding.node
        return binding.node.find(fields)

    def _inside(self, match: re.Match[str], path: FieldPath) -> str:
        if match[1]:
            return "$"
        reference = match[2] or match[3]
        if not reference:
            raise wrong(self._tree, path, "a lone '$'", "$name, ${name}, or $$ for a plain $")
        name, _, rest = reference.partition(".")
        binding = self._binding(name, path)
        if not rest:
            return binding.label
        if not isinstance(binding.node.value, dict):
            # In `$n.pcap` the dot is part of the text around the parameter.
            return f"{binding.label}.{rest}"
        found = binding.node.find(rest.split("."))
        if found is None or isinstance(found.value, (dict, list)):
            problem = f"'${reference}' is {kind_of(found.plain()) if found else 'not there'} for {name} {binding.label}"
            raise wrong(self._tree, path, problem, "a text or number inside a text")
        return label_of(found)


def label_of(node: Node) -> str:
    """Returns a scalar as it is written in a name."""
    value = node.value
    return str(value).lower() if isinstance(value, bool) else str(value)
