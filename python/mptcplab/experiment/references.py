"""References in a description, replaced by the values of parameters: `$name`, `$name.field`, and
products such as `${125mbit / scale}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mptcplab.document import FieldPath, Node, kind_of, wrong
from mptcplab.experiment.base import nearest_hint
from mptcplab.experiment.products import factors, product
from mptcplab.units import in_a_sentence

_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_DOTTED = rf"{_NAME}(?:\.{_NAME})*"
# What stands in braces begins with a name, or is a product with an operator.
_BRACED = rf"\{{({_DOTTED}|[^{{}}$]* [*/] [^{{}}$]*)\}}"
_REFERENCE = re.compile(rf"\$(?:(\$)|{_BRACED}|({_DOTTED})|)")
_WHOLE = re.compile(rf"\$(?:{_BRACED}|({_DOTTED}))")
_TITLE: FieldPath = ("title",)


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
    names = (name for reference in found if reference for _, name in factors(reference))
    return {name.partition(".")[0] for name in names if re.fullmatch(_DOTTED, name)}


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
        # A title is read by people, all other texts by mptcplab.
        written = in_a_sentence if path == _TITLE else str
        return Node(_REFERENCE.sub(lambda match: written(self._inside(match, path)), text), node.source)

    def _binding(self, name: str, path: FieldPath) -> Binding:
        if name not in self._bindings:
            known = list(self._bindings)
            problem = f"unknown parameter '{name}'{nearest_hint(name, known)}"
            raise wrong(self._tree, path, problem, ", ".join(known) or "no parameters are declared ($$ is a plain $)")
        return self._bindings[name]

    def _value(self, reference: str, path: FieldPath) -> Node | None:
        if len(terms := factors(reference)) > 1:
            return self._product(terms, path)
        name, *fields = reference.split(".")
        binding = self._binding(name, path)
        if not fields:
            # A mapping is replaced by its label: $scenario is "A.1", and $scenario.flows is a part
            # of it.
            return Node(binding.label, binding.node.source) if isinstance(binding.node.value, dict) else binding.node
        return binding.node.find(fields)

    def _product(self, terms: list[tuple[str, str]], path: FieldPath) -> Node | None:
        """Returns the product, or None to remove its key, if a value lacks the
        field that it uses.
        """
        found = [
            (operator, self._value(text, path) if re.fullmatch(_DOTTED, text) else Node(text, self._tree.source))
            for operator, text in terms
        ]
        known = [(operator, node) for operator, node in found if node is not None]
        if len(known) < len(found):
            return None
        try:
            value = product([(operator, label_of(node)) for operator, node in known])
        except ValueError as error:
            raise wrong(self._tree, path, str(error), "a number, one with a unit at first: ${10s * scale}") from None
        return Node(int(value) if value.isdigit() else value, known[0][1].source)

    def _inside(self, match: re.Match[str], path: FieldPath) -> str:
        if match[1]:
            return "$"
        reference = match[2] or match[3]
        if not reference:
            raise wrong(self._tree, path, "a lone '$'", "$name, ${name}, ${10s * name}, or $$ for a plain $")
        if len(terms := factors(reference)) > 1:
            found = self._product(terms, path)
            if found is None:
                raise wrong(self._tree, path, f"'${{{reference}}}' has a field that is not there", "one that is")
            return label_of(found)
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
