"""Tells whether a run has the value that ``--set KEY=VALUE`` asks for, however it came to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import yaml

from mptcplab.results.bundle import Bundle, changes_of
from mptcplab.results.entities import Json
from mptcplab.units import Duration, Probability, QuantityError, Rate, Size

_DIRECTIONS = ("forward", "backward")
#: Ends of the names of resolved fields, and what a description writes there.
_QUANTITIES = {"_bps": Rate, "_ns": Duration, "_bytes": Size}


def has_setting(bundle: Bundle, key: str, value: str) -> bool:
    """Returns whether a run has this value. Patterns in the key, as in ``links.*.rate``, ask for
    all names that they match.
    """
    changes = dict(change.split("=", 1) for change in changes_of(bundle))
    if key in changes and _alike(changes[key], value):
        return True
    resolved = bundle.resolved
    heads = _heads(key, [*resolved["origins"], *resolved["parameters"]])
    return bool(heads) and all(_has_at(head, value, changes, resolved) for head in heads)


def _heads(key: str, paths: list[str]) -> list[str]:
    """Returns the parts of the description that a key stands for."""
    depth = key.count(".") + 1
    starts = dict.fromkeys(".".join(path.split(".")[:depth]) for path in paths)
    return [start for start in starts if _stands_for(key, start)]


def _stands_for(key: str, path: str) -> bool:
    parts, found = key.split("."), path.split(".")
    # Brackets are no pattern here, because names of patterns of flows can have them.
    return len(parts) == len(found) and all(
        fnmatchcase(name, part.replace("[", "[[]")) for name, part in zip(found, parts, strict=True)
    )


def _has_at(path: str, value: str, changes: dict[str, str], resolved: Json) -> bool:
    below = [origin for at, origin in resolved["origins"].items() if f"{at}.".startswith(f"{path}.")]
    for key, changed in changes.items():
        if f"--set {key}={changed}" in below and _stands_for(key, path) and _alike(changed, value):
            return True
    found = list(_resolved_at(path, resolved))
    return bool(found) and all(_means(name, one, value) for name, one in found)


def _alike(found: str, asked: str) -> bool:
    """Returns whether two values are the same text or the same YAML."""
    try:
        return found == asked or bool(yaml.safe_load(found) == yaml.safe_load(asked))
    except yaml.YAMLError:
        return False


def _resolved_at(path: str, resolved: Json) -> Iterator[tuple[str, Any]]:
    """Yields the names and values of the resolved fields that a path of the description stands for,
    for each flow of a group and for each direction of a link.
    """
    first, *steps = path.split(".")
    if not steps:
        yield from _field(resolved | resolved["parameters"], first)
        return
    part = resolved.get(first)
    parts = [part]
    if isinstance(part, list):
        parts = [one for one in part if isinstance(one, dict) and steps[0] in (one.get("id"), one.get("group"))]
        steps = steps[1:]
    for step in steps[:-1]:
        parts = [value for one in parts for _, value in _directed(one, step)]
    if steps:
        yield from (found for one in parts for found in _directed(one, steps[-1]))


def _directed(part: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yields the field of a part, or those of its directions if the part itself has none."""
    if not isinstance(part, dict):
        return
    own = list(_field(part, name))
    yield from own or (found for direction in _DIRECTIONS for found in _field(part.get(direction) or {}, name))


def _field(part: Json, name: str) -> Iterator[tuple[str, Any]]:
    for key in (name, *(f"{name}{end}" for end in _QUANTITIES)):
        if key in part:
            yield key, part[key]


def _means(name: str, found: Any, asked: str) -> bool:
    """Returns whether a resolved value is what a text of a description says."""
    if isinstance(found, list) and len(found) == 1:
        found = found[0]
    if isinstance(found, dict):
        return _means_part(name, found, asked)
    kind = next((kind for end, kind in _QUANTITIES.items() if name.endswith(end)), None)
    if kind is None or found is None:
        return _alike(str(found), asked)
    try:
        return bool(found == kind.parse(asked))
    except QuantityError:
        return False


def _means_part(name: str, found: Json, asked: str) -> bool:
    """Returns whether the short form of a part, such as ``1%`` for loss, says what was resolved."""
    if name == "queue":
        packets = re.fullmatch(r"\s*([0-9]+)\s*p\s*", asked)
        return packets is not None and found.get("limit_packets") == int(packets[1])
    if name == "loss" and set(found) <= {"kind", "probability"}:
        try:
            return bool(found.get("probability", 0) == Probability.parse(_plain(asked)))
        except QuantityError:
            return False
    return set(found) <= {"name", "kind"} and found.get("name") == asked


def _plain(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text
