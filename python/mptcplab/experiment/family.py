"""Families: descriptions with one experiment for each combination of parameter values."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

from mptcplab.document import FieldPath, Node, field_name, kind_of, wrong
from mptcplab.experiment.base import nearest_hint
from mptcplab.experiment.references import Binding, label_of, mentions, substituted

_MOST_MEMBERS = 10_000
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Combination:
    """The values of all parameters in one member."""

    bindings: Mapping[str, Binding]

    @property
    def labels(self) -> dict[str, str]:
        """The label of each parameter."""
        return {name: binding.label for name, binding in self.bindings.items()}

    @property
    def values(self) -> dict[str, object]:
        """The recorded value of each parameter: a scalar as it is, a named value by its name or
        number.
        """
        return {name: _recorded(binding) for name, binding in self.bindings.items()}


def _recorded(binding: Binding) -> object:
    if not isinstance(binding.node.value, (dict, list)):
        return binding.node.value
    return int(binding.label) if re.fullmatch(r"0|[1-9][0-9]{0,17}", binding.label) else binding.label


def families(document: Node) -> list[Node]:
    """Returns the families of a file: the file itself, or each entry of `experiments` merged over
    the other keys of the file.
    """
    listed = document.child("experiments")
    if listed is None:
        return [document]
    if not isinstance(listed.value, list) or not listed.value:
        raise wrong(document, ("experiments",), f"found {kind_of(listed.plain())}", "a list of descriptions")
    shared = Node({key: node for key, node in document.mapping.items() if key != "experiments"}, document.source)
    for index, entry in enumerate(listed.value):
        if not isinstance(entry.value, dict):
            raise wrong(document, ("experiments", index), f"found {kind_of(entry.plain())}", "a mapping")
    return [_named(shared, merged(shared, entry)) for entry in listed.value]


def merged(below: Node, above: Node) -> Node:
    """Merges `above` over `below`. Mappings are merged key by key; other values are replaced."""
    if not isinstance(below.value, dict) or not isinstance(above.value, dict):
        return above
    both = {key: merged(below.value[key], node) if key in below.value else node for key, node in above.value.items()}
    return Node({**below.value, **both}, above.source)


def _named(shared: Node, family: Node) -> Node:
    """Prefixes the name of an entry with that of the file: `alenazi2019/fig9`."""
    prefix, name = shared.child("name"), family.child("name")
    if prefix is None or name is None or prefix is name or str(name.value).startswith(f"{prefix.value}/"):
        return family
    return family.replaced(("name",), Node(f"{prefix.value}/{name.value}", name.source))


def combinations(family: Node) -> list[Combination]:
    """Returns the members of a family in the order of the file, without those
    that `exclude` names.
    """
    axes = _axes(family)
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > _MOST_MEMBERS:
        raise wrong(family, ("parameters",), f"makes {count} experiments", f"at most {_MOST_MEMBERS}")
    products = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    excluded = _partial_assignments(family, "exclude", axes)
    kept = [bindings for bindings in products if not any(_matches(bindings, labels) for labels in excluded)]
    if not kept:
        raise wrong(family, ("exclude",), "leaves no experiment")
    return [Combination(bindings) for bindings in kept]


def _axes(family: Node) -> dict[str, list[Binding]]:
    declared = family.child("parameters")
    if declared is None:
        return {}
    if not isinstance(declared.value, dict):
        raise wrong(family, ("parameters",), f"found {kind_of(declared.plain())}", "a mapping of lists")
    return {name: _axis(family, name, node) for name, node in declared.value.items()}


def _axis(family: Node, name: str, node: Node) -> list[Binding]:
    """Returns the values of a parameter, given as a list, as named values, or
    as a single scalar.
    """
    path: FieldPath = ("parameters", name)
    if not _PARAMETER.fullmatch(name):
        raise wrong(family, path, f"invalid parameter name '{name}'", "letters, digits and _, not a digit first")
    if isinstance(node.value, dict):
        values = [Binding(label, value) for label, value in node.value.items()]
    elif isinstance(node.value, list):
        values = [_binding(family, (*path, index), item) for index, item in enumerate(node.value)]
    else:
        values = [_binding(family, path, node)]
    labels = [value.label for value in values]
    if not labels or len(set(labels)) < len(labels):
        raise wrong(family, path, "has a value twice" if labels else "has no value", "one or more different values")
    return values


def _binding(family: Node, path: FieldPath, node: Node) -> Binding:
    if isinstance(node.value, (dict, list)):
        raise wrong(family, path, f"found {kind_of(node.plain())} without a name", "NAME: value for a list or mapping")
    return Binding(label_of(node), node)


def _partial_assignments(family: Node, key: str, axes: Mapping[str, list[Binding]]) -> list[dict[str, str]]:
    listed = family.child(key)
    if listed is None:
        return []
    if not isinstance(listed.value, list):
        raise wrong(family, (key,), f"found {kind_of(listed.plain())}", "a list, as in [{n: 3, cc: bbr}]")
    return [partial_assignment(family, (key, index), axes) for index in range(len(listed.value))]


def partial_assignment(family: Node, path: FieldPath, axes: Mapping[str, list[Binding]]) -> dict[str, str]:
    """Returns the labels of the parameters given at `path`. Raises SpecError for an unknown
    parameter or value.
    """
    node = family.find(path)
    if node is None or not isinstance(node.value, dict) or not node.value:
        raise wrong(
            family, path, f"found {kind_of(node.plain() if node else None)}", "parameters and values, as in {n: 3}"
        )
    return {name: _known_label(family, (*path, name), name, value, axes) for name, value in node.value.items()}


def _known_label(family: Node, path: FieldPath, name: str, value: Node, axes: Mapping[str, list[Binding]]) -> str:
    if name not in axes:
        raise wrong(
            family, path, f"unknown parameter '{name}'{nearest_hint(name, list(axes))}", ", ".join(axes) or None
        )
    labels = [binding.label for binding in axes[name]]
    label = label_of(value)
    if label not in labels:
        raise wrong(family, path, f"{name} is never '{label}'{nearest_hint(label, labels)}", ", ".join(labels))
    return label


def _matches(bindings: Mapping[str, Binding], labels: Mapping[str, str]) -> bool:
    return all(bindings[name].label == label for name, label in labels.items())


def with_values(family: Node, name: str, values: Node) -> Node:
    """Returns the family with other values of a parameter. Entries of `exclude`, and a `reference`,
    that name a removed value are removed.
    """
    changed = family.replaced(("parameters", name), values)
    lost = _labels(family, name) - _labels(changed, name)
    excluded = family.child("exclude")
    if excluded is not None and isinstance(excluded.value, list):
        kept = [entry for entry in excluded.value if not _names_one(entry, name, lost)]
        changed = changed.replaced(("exclude",), Node(kept, excluded.source, excluded.key))
    if _names_one(family.child("reference"), name, lost):
        changed = changed.replaced(("reference",), Node(None, values.source))
    return changed


def _labels(family: Node, name: str) -> set[str]:
    return {binding.label for binding in _axes(family)[name]}


def _names_one(assignment: Node | None, parameter: str, labels: set[str]) -> bool:
    named = assignment.child(parameter) if assignment is not None else None
    return named is not None and label_of(named) in labels


def member_name(family: Node, combination: Combination) -> str:
    """Returns the name of a member. Parameters with several values that the name does not mention
    are appended.
    """
    template = family.child("name")
    if template is None or not isinstance(template.value, str):
        problem = f"found {kind_of(template.plain())}" if template else "is missing"
        raise wrong(family, ("name",), problem, "a text, as in two-paths")
    name = _substituted_text(family, "name", combination) or ""
    mentioned = mentions(template.value)
    several = {key for key, values in _axes(family).items() if len(values) > 1}
    labels = combination.labels
    extra = [f"/{key}={labels[key]}" for key in labels if key in several and key not in mentioned]
    return (name + "".join(extra)).replace(" ", "_")


def member_title(family: Node, combination: Combination) -> str:
    """Returns the title of a member, empty if the description has none."""
    return _substituted_text(family, "title", combination) or ""


def _substituted_text(family: Node, key: str, combination: Combination) -> str | None:
    """Returns one top-level text without expanding the rest, because a listing needs only names and
    titles.
    """
    node = family.child(key)
    if node is None:
        return None
    alone = Node({key: node}, family.source)
    value = substituted(alone, combination.bindings).child(key)
    return label_of(value) if value is not None and value.value is not None else None


def reference_labels(family: Node, combination: Combination, members: list[Combination]) -> dict[str, str] | None:
    """Returns the labels of the member that ratios of this one are relative to. Raises SpecError if
    there is no such member.
    """
    reference = family.child("reference")
    if reference is None or reference.value is None:
        return None
    wanted = {**combination.labels, **partial_assignment(family, ("reference",), _axes(family))}
    if not any(member.labels == wanted for member in members):
        described = ", ".join(f"{name}={label}" for name, label in wanted.items())
        raise wrong(family, ("reference",), f"no member has {described}", "values that `exclude` leaves")
    return wanted


def chosen(family: Node, assignment: Mapping[str, object]) -> Combination:
    """Returns the first member with these labels or values."""
    data = Node({name: Node(str(value), family.source) for name, value in assignment.items()}, family.source)
    with_choice = family.replaced(("assignment",), data)
    labels = partial_assignment(with_choice, ("assignment",), _axes(family)) if assignment else {}
    for combination in combinations(family):
        if _matches(combination.bindings, labels):
            return combination
    raise wrong(family, ("parameters",), f"no member has {field_name(labels.values())}")
