"""`--set KEY=VALUE`: new values of parameters and fields."""

from __future__ import annotations

from dataclasses import dataclass

from mptcplab.document import FieldPath, Node, Source, field_name, parse_value
from mptcplab.errors import SpecError, Where
from mptcplab.experiment.base import nearest_hint
from mptcplab.experiment.family import with_values
from mptcplab.experiment.links import RIVALS

_ENTITIES = ("hosts", "nodes", "media", "links", "flows")
# Fields with a short form, and the field whose value the short form is.
_SHORT_FORMS = {"queue": "limit", "loss": "probability", "behaviour": "preset"}
_DIRECTIONS = ("forward", "backward")


@dataclass(frozen=True)
class Change:
    """A new value for a parameter (`n`, `parameters.n`) or for the field at a description path (`links.wifi.delay`)."""

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
        """Whether it changes the settings of a generator, so it is applied before the generator runs."""
        return self.key.partition(".")[0] == "topology"

    @property
    def _parameter(self) -> str:
        return self.key.removeprefix("parameters.")

    def on_family(self, family: Node) -> Node:
        """Returns the family with another value, or a list of values, of the parameter. Named values are
        given by their names.
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
        """Returns `written` with the new value. The names in the path must exist in `filled_in`."""
        path = self._path(filled_in)
        tree = self._without_rivals(self._lifted(written, path), path)
        return tree.replaced(path, self.value)

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
        items = listed.value if listed is not None and isinstance(listed.value, list) else []
        ids = [str(node.value) if (node := item.child("id")) else str(index) for index, item in enumerate(items)]
        if name.isdigit() and int(name) < len(items):
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


def _noted(node: Node, source: Source) -> Node:
    if isinstance(node.value, dict):
        return Node({key: _noted(child, source) for key, child in node.value.items()}, source)
    if isinstance(node.value, list):
        return Node([_noted(child, source) for child in node.value], source)
    return Node(node.value, source)
