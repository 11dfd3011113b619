"""`--set KEY=VALUE`: new values of parameters and fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from mptcplab.document import FieldPath, Node, Source, field_name, parse_value
from mptcplab.errors import SpecError, Where, first_few
from mptcplab.experiment.base import nearest_hint
from mptcplab.experiment.family import with_values
from mptcplab.experiment.links import RIVALS

_ENTITIES = ("hosts", "nodes", "media", "links", "flows")
# Fields with a short form, and the field whose value the short form is.
_SHORT_FORMS = {"queue": "limit", "loss": "probability", "behaviour": "preset"}
# Fields that flows over UDP cannot have.
_NOT_OF_UDP = ("cc", "scheduler", "path_manager")
_DIRECTIONS = ("forward", "backward")
# Parts of a key that stand for several names.
_PATTERN = re.compile(r"[*?]")
_MOST_NAMES = 12


@dataclass(frozen=True)
class Change:
    """A new value for a parameter (`n`, `parameters.n`) or for the fields at a description path
    (`links.wifi.delay`).

    `*` and `?` in a path stand for names that the description has: `links.*.delay`.
    """

    key: str
    value: Node

    @classmethod
    def parse(cls, key: str, text: str) -> Change:
        """Parses the two sides of `--set KEY=VALUE`. The value is YAML."""
        return cls(key, _noted(parse_value(text, f"--set {key}"), Source(f"--set {key}", note=f"--set {key}={text}")))

    def is_parameter(self, family: Node) -> bool:
        """Returns whether it changes a parameter of this family."""
        parameters = family.child("parameters")
        return parameters is not None and self._parameter in parameters.mapping

    @property
    def is_of_topology(self) -> bool:
        """Whether it changes the settings of a generator, so it is applied before the generator
        runs.
        """
        return self.key.partition(".")[0] == "topology"

    @property
    def _parameter(self) -> str:
        return self.key.removeprefix("parameters.")

    def on_family(self, family: Node) -> Node:
        """Returns the family with another value, or a list of values, of the parameter. Named
        values are given by their names.
        """
        name = self._parameter
        declared = family.find(("parameters", name))
        if declared is not None and isinstance(declared.value, dict) and not isinstance(self.value.value, dict):
            return with_values(family, name, self._selected(name, declared))
        return with_values(family, name, self.value)

    def _selected(self, name: str, values: Node) -> Node:
        wanted = self.value.value if isinstance(self.value.value, list) else [self.value]
        chosen = {str(node.value): values.child(str(node.value)) for node in wanted}
        for label, node in chosen.items():
            if node is None:
                known = list(values.mapping)
                raise self._wrong(f"{name} is never '{label}'{nearest_hint(label, known)}", ", ".join(known))
        return Node({label: node for label, node in chosen.items() if node is not None}, self.value.source)

    def on_member(self, written: Node, filled_in: Node) -> Node:
        """Returns `written` with the new value. The names in the path must exist in `filled_in`,
        and patterns match the names that exist there.
        """
        for key in self._keys(filled_in):
            path = replace(self, key=key)._path(filled_in)
            tree = self._without_rivals(self._lifted(written, path), path)
            written = tree.replaced(path, self.value)
        return written

    def _keys(self, tree: Node) -> list[str]:
        """Returns the keys that the key stands for: itself, or one for each
        match of its patterns.
        """
        first, *steps = self.key.split(".")
        if not _PATTERN.search(self.key):
            return [self.key]
        if not steps or _PATTERN.search(first + steps[-1]):
            raise self._wrong("a pattern stands for names, not for fields", "* and ? between two dots: links.*.rate")
        groups = [*_ENTITIES, "events"]
        if tree.child(first) is None and first not in groups and (hint := nearest_hint(first, groups)):
            raise self._wrong(f"unknown field '{first}'{hint}", ", ".join(groups))
        matched: dict[str, Node | None] = {first: tree.child(first)}
        for step in steps:
            matched = {f"{key}.{name}": node for key, at in matched.items() for name, node in self._at(step, key, at)}
        return self._of_mptcp_flows(list(matched), tree)

    def _of_mptcp_flows(self, keys: list[str], tree: Node) -> list[str]:
        """Returns the keys without those of UDP flows, if the field is one that UDP flows cannot
        have. If all are UDP, all stay, and each is refused with its reason.
        """
        if not (self.key.startswith("flows.") and self.key.rpartition(".")[2] in _NOT_OF_UDP):
            return keys
        kept = [key for key in keys if _transport(tree, key.rpartition(".")[0]) != "udp"]
        return kept or keys

    def _at(self, step: str, key: str, node: Node | None) -> Iterator[tuple[str, Node | None]]:
        """Yields the part of a key itself, or the names under `node` that a pattern matches."""
        named = _named(node) if node is not None else {}
        if not _PATTERN.search(step):
            yield step, named.get(step)
            return
        # Brackets are no pattern here, because names of patterns of flows can have them.
        found = [name for name in named if fnmatchcase(name, step.replace("[", "[[]"))]
        if not found:
            known = first_few(list(named), most=_MOST_NAMES)
            raise self._wrong(f"no name in {key} matches '{step}'", known or "nothing: it is empty")
        yield from ((name, named[name]) for name in found)

    def _path(self, tree: Node) -> FieldPath:
        steps: list[str | int] = list(self.key.split("."))
        if len(steps) > 1 and steps[0] == "parameters":
            known = list((tree.child("parameters") or Node({}, tree.source)).mapping)
            problem = f"unknown parameter '{steps[1]}'{nearest_hint(str(steps[1]), known)}"
            raise self._wrong(problem, ", ".join(known) or "no parameters are declared")
        if len(steps) > 1 and steps[0] in _ENTITIES:
            known = list((tree.child(steps[0]) or tree).mapping) if tree.child(steps[0]) else []
            if steps[1] not in known:
                hint = nearest_hint(str(steps[1]), known)
                raise self._wrong(
                    f"unknown name '{steps[1]}' in {steps[0]}{hint}", ", ".join(known) or "nothing: it is empty"
                )
        if len(steps) > 1 and steps[0] in ("events", "expect"):
            steps[1] = self._index(tree, str(steps[0]), str(steps[1]))
        return tuple(steps)

    def _index(self, tree: Node, group: str, name: str) -> int:
        """Returns the index in a list, from a number or the id of an event."""
        listed = tree.child(group)
        ids = list(_named(listed)) if listed is not None and isinstance(listed.value, list) else []
        if name.isdigit() and int(name) < len(ids):
            return int(name)
        if name not in ids:
            raise self._wrong(
                f"unknown name '{name}' in {group}{nearest_hint(name, ids)}", ", ".join(ids) or "nothing: it is empty"
            )
        return ids.index(name)

    def _lifted(self, tree: Node, path: FieldPath) -> Node:
        """Expands the short forms on the path, so only the named part changes."""
        for depth in range(1, len(path)):
            node, key = tree.find(path[:depth]), path[depth]
            if node is not None and isinstance(node.value, list):
                self._check_index(key, path[:depth])
            if (
                node is None
                or isinstance(node.value, list)
                or (isinstance(node.value, dict) and key not in _DIRECTIONS)
            ):
                continue
            if key in _DIRECTIONS and not any(direction in node.mapping for direction in _DIRECTIONS):
                tree = tree.replaced(path[:depth], Node(dict.fromkeys(_DIRECTIONS, node), node.source))
            elif (main := _SHORT_FORMS.get(str(path[depth - 1]))) and not isinstance(node.value, dict):
                tree = tree.replaced(path[:depth], Node({main: node}, node.source))
        return tree

    def _check_index(self, key: str | int, path: FieldPath) -> None:
        """Refuses to change an item of a list other than events and expectations."""
        if not isinstance(key, int):
            name = field_name(path)
            raise self._wrong(f"{name} is a list", f"--set {name}= with the whole of it")

    @staticmethod
    def _without_rivals(tree: Node, path: FieldPath) -> Node:
        """Removes the rivals of the new value: `rtt` replaces `delay`, and so on."""
        entity = tree.find(path[:-1])
        rivals = RIVALS.get(str(path[-1]), ())
        if entity is None or not any(rival in entity.mapping for rival in rivals):
            return tree
        kept = {key: node for key, node in entity.mapping.items() if key not in rivals}
        return tree.replaced(path[:-1], Node(kept, entity.source))

    def _wrong(self, problem: str, allowed: str) -> SpecError:
        return SpecError(
            problem,
            Where(str(self.value.source.file or self.value.source), field=field_name((self.key,))),
            allowed=allowed,
        )


def _transport(tree: Node, flow: str) -> object:
    group, _, name = flow.partition(".")
    flows = tree.child(group)
    at = _named(flows).get(name) if flows is not None else None
    transport = at.child("transport") if at is not None else None
    return transport.value if transport is not None else None


def _named(node: Node) -> dict[str, Node]:
    """Returns the parts of a mapping by their names, and those of a list by their ids, else by
    their indices.
    """
    if not isinstance(node.value, list):
        return node.mapping
    ids = [str(named.value) if (named := item.child("id")) else str(index) for index, item in enumerate(node.value)]
    return dict(zip(ids, node.value, strict=True))


def _noted(node: Node, source: Source) -> Node:
    if isinstance(node.value, dict):
        return Node({key: _noted(child, source) for key, child in node.value.items()}, source)
    if isinstance(node.value, list):
        return Node([_noted(child, source) for child in node.value], source)
    return Node(node.value, source)
