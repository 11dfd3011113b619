"""The origin of each value of a filled-in description."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mptcplab.behaviours import presets
from mptcplab.document import FieldPath, Node, field_name
from mptcplab.experiment.hosts import OF_PRESET

_DEFAULT = "default"


def origins_of(filled_in: dict[str, Any], tree: Node) -> dict[str, str]:
    """Maps each description path to its origin: `FILE:LINE`, a profile with its source, `--set`,
    `given`, `derived from rtt`, or `default`.
    """
    return dict(_walk(filled_in, tree, ()))


def _walk(value: Any, node: Node | None, path: FieldPath) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _walk(inner, _below(node, key), (*path, key))
    elif isinstance(value, list) and value and isinstance(value[0], dict):
        for index, inner in enumerate(value):
            yield from _walk(inner, _below(node, index), (*path, index))
    else:
        yield field_name(path), str(node.source) if node is not None else _DEFAULT


def _below(node: Node | None, key: str | int) -> Node | None:
    """Returns the node of one part. The delay of a link can derive from its rtt, and the parts of a
    behaviour from its preset.
    """
    if node is None:
        return None
    if isinstance(key, int) and not isinstance(node.value, list):
        return node  # a list that is written as its only item
    below = node.child(key)
    if below is None and key in OF_PRESET:
        preset = node.child("preset") if isinstance(node.value, dict) else node
        if preset is None or preset.value not in presets():
            return None
        return Node(None, replace(preset.source, note=f"preset {preset.value}"))
    if below is None and key == "delay" and "rtt" in node.mapping:
        return Node(None, replace(node.mapping["rtt"].source, note="derived from rtt"))
    if below is None and not isinstance(node.value, (dict, list)):
        # A short form: only the main field of its mapping was given.
        return node if key in ("preset", "limit", "probability") else None
    return below
