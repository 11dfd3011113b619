"""Profiles: named sets of defaults, in which each value has a source."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from mptcplab.document import FieldPath, Node, Source, field_name, kind_of, read, wrong
from mptcplab.experiment.base import nearest_hint
from mptcplab.experiment.flows import CHOOSES_ITS_CC, MEANINGFUL
from mptcplab.experiment.links import EMULATED, RIVALS

DIRECTORY = Path(__file__).parent.parent / "profiles"
_ENTITIES = ("hosts", "media", "links", "flows")
_KEYS = ("profile", "source", "title", "illustrative", "defaults")


def shipped() -> list[str]:
    """Returns the names of the profiles that are part of mptcplab."""
    return sorted(path.stem for path in DIRECTORY.glob("*.yaml"))


def applied(tree: Node) -> Node:
    """Returns the tree with missing values filled in from profiles: first those of an entity, then
    those of the experiment.
    """
    general = [_loaded(tree, path) for path in _references(tree, ())]
    result = tree
    for group in _ENTITIES:
        entities = tree.child(group)
        if entities is not None and isinstance(entities.value, dict):
            filled = {name: _entity(tree, group, name, node, general) for name, node in entities.value.items()}
            result = result.replaced((group,), Node(filled, entities.source))
    for defaults in reversed(general):
        rest = {key: node for key, node in defaults.mapping.items() if key not in _ENTITIES}
        result = _filled(result, Node(rest, defaults.source), "")
    return result


def _entity(tree: Node, group: str, name: str, node: Node, general: list[Node]) -> Node:
    """Fills in a host, link, medium or flow. Later profiles win, so they are applied first."""
    own = [_loaded(tree, path) for path in _references(tree, (group, name))]
    for defaults in [*reversed(own), *reversed(general)]:
        values = defaults.child(group)
        if values is not None and isinstance(node.value, dict):
            node = _filled(node, values, group)
    return node


def _filled(node: Node, defaults: Node, group: str) -> Node:
    """Returns `node` with missing defaults filled in, also inside mappings."""
    fields = dict(node.mapping)
    for key, default in defaults.mapping.items():
        present = fields.get(key)
        if present is None:
            if not _is_pointless(node, key, group):
                fields[key] = default
        elif isinstance(present.value, dict) and isinstance(default.value, dict) and group == "":
            fields[key] = _filled(present, default, group)
    return Node(fields, node.source)


def _is_pointless(node: Node, key: str, group: str) -> bool:
    """Returns whether a default would contradict a value of the entity, or have no effect on it."""
    if any(rival in node.mapping for rival in RIVALS.get(key, ())):
        return True
    if group == "links" and key in EMULATED:
        real = node.child("real")
        return real is not None and real.value is True
    if group != "flows" or key not in MEANINGFUL:
        return False
    if key == "cc" and node.find(("app", CHOOSES_ITS_CC)) is not None:
        return True
    transport = node.child("transport")
    return (transport.value if transport else "mptcp") not in MEANINGFUL[key]


def _references(tree: Node, path: FieldPath) -> Iterator[FieldPath]:
    """Yields the places of the profile names of an entity, or of the experiment."""
    place = (*path, "profile")
    node = tree.find(place)
    if node is not None and isinstance(node.value, list):
        yield from ((*place, index) for index in range(len(node.value)))
    elif node is not None:
        yield place


def _loaded(tree: Node, path: FieldPath) -> Node:
    """Returns the defaults of the profile named at `path`."""
    node = tree.find(path)
    name = node.value if node else None
    if node is None or not isinstance(name, str):
        raise wrong(tree, path, f"found {kind_of(name)}", "the name of a profile, or a file as in ./my.yaml")
    if name.endswith((".yaml", ".yml")):
        file = Path(node.source.file or ".").parent / name
        if not file.is_file():
            raise wrong(tree, path, f"profile file {name} does not exist", "a file, relative to the description")
        return _defaults(file)
    if name not in shipped():
        known = shipped()
        raise wrong(tree, path, f"unknown profile '{name}'{nearest_hint(name, known)}", ", ".join(known))
    return _defaults(DIRECTORY / f"{name}.yaml")


@cache
def _read(path: Path, _changed_ns: int) -> Node:
    return _checked(read(path))


def _defaults(path: Path) -> Node:
    """Returns the defaults of a profile file, which is read again only if it changed."""
    return _read(path, path.stat().st_mtime_ns)


def _checked(profile: Node) -> Node:
    """Returns the defaults with their origins. Raises SpecError if the file is not a profile."""
    for key in profile.mapping:
        if key not in _KEYS:
            raise wrong(profile, (key,), f"unknown field '{key}'{nearest_hint(key, list(_KEYS))}", ", ".join(_KEYS))
    name, defaults = profile.child("profile"), profile.child("defaults")
    if name is None or not isinstance(name.value, str):
        raise wrong(profile, ("profile",), "the name is missing", "profile: NAME")
    if defaults is None or not isinstance(defaults.value, dict):
        raise wrong(profile, ("defaults",), "is missing", "a mapping")
    # The origin of each value says so, because a run keeps only origins.
    mark = ", illustrative" if profile.child("illustrative") is not None else ""
    return _with_origins(profile, defaults, f"{name.value}{mark}", ("defaults",))


def _with_origins(profile: Node, node: Node, name: str, path: FieldPath) -> Node:
    if not isinstance(node.value, dict):
        raise wrong(
            profile, path, f"{field_name(path)} has no source", "{value: .., source: ..} or {value: .., assumed: ..}"
        )
    if "value" not in node.value:
        children = {key: _with_origins(profile, child, name, (*path, key)) for key, child in node.value.items()}
        return Node(children, node.source)
    grounds = [key for key in ("source", "assumed") if key in node.value]
    if len(grounds) != 1 or len(node.value) != 2:
        raise wrong(
            profile, path, "needs a value and its ground", "{value: .., source: ..} or {value: .., assumed: ..}"
        )
    ground = str(node.value[grounds[0]].value)
    note = f"profile {name} ({ground})" if grounds == ["source"] else f"profile {name} (assumed: {ground})"
    return _noted(node.value["value"], note)


def _noted(node: Node, note: str) -> Node:
    source = Source(node.source.file, node.source.line, node.source.column, note)
    if isinstance(node.value, dict):
        return Node({key: _noted(child, note) for key, child in node.value.items()}, source)
    if isinstance(node.value, list):
        return Node([_noted(child, note) for child in node.value], source)
    return Node(node.value, source)
