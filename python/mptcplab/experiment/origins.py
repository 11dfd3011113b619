"""Where each value of a filled-in description came from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from mptcplab.document import FieldPath, Node, field_name
from mptcplab.experiment.hosts import PRESETS

_DEFAULT = "default"


def origins_of(filled_in: dict[str, Any], tree: Node) -> dict[str, str]:
    """Description path -> `FILE:LINE`, the profile and its ground, `--set`, `given`, `derived from rtt`, `default`."""
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
    """The node of one part. Of a link, the delay may stem from its rtt; a behaviour's parts from its preset."""
    if node is None:
        return None
    if isinstance(key, int) and not isinstance(node.value, list):
        return node  # a list that is written as its only item
    below = node.child(key)
    if below is None and key in PRESETS["mainline"]:
        preset = node.child("preset") if isinstance(node.value, dict) else node
        if preset is None or preset.value not in PRESETS:
            return None
        return Node(None, replace(preset.source, note=f"preset {preset.value}"))
    if below is None and key == "delay" and "rtt" in node.mapping:
        return Node(None, replace(node.mapping["rtt"].source, note="derived from rtt"))
    if below is None and not isinstance(node.value, (dict, list)):
        # A short form: the mapping it stands for has one part that was given.
        return node if key in ("preset", "limit", "probability") else None
    return below
