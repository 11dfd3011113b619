"""Topologies in files: GML and GraphML, with the attributes of the Internet Topology Zoo."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from mptcplab.experiment.base import described, nearest_hint
from mptcplab.topology import Blueprint, NotedValue, PlannedLink, attached

#: Kilometres that light travels in fibre in a second: two thirds of its speed in vacuum.
_KM_PER_S = 299_792.458 * 2 / 3
_EARTH_RADIUS_KM = 6371.0
_LONGEST_NAME = 30


def graph(file: Path, kind: str, hosts: Collection[str] | None, interfaces: int) -> Blueprint:
    """Returns the nodes and links of a file, and a host `h-NODE` at each node of `hosts`, None for
    all.

    A link takes `rate` from `LinkSpeedRaw` and `delay` from the coordinates of its ends, where the
    file has them. Raises SpecError for a file that cannot be read.
    """
    found = _read(file)
    names = _names(found)
    plan = Blueprint(nodes=dict.fromkeys(names.values(), kind))
    taken: set[str] = set()
    for a, b, attributes in found.edges(data=True):
        if a != b:
            ends = (names[a], names[b])
            values = _values(attributes, found.nodes[a], found.nodes[b], file.name)
            plan.links.append(PlannedLink(_unused("-".join(ends), taken), ends, values=values))
    chosen = list(names.values()) if hosts is None else list(hosts)
    for node in chosen:
        if node not in plan.nodes:
            known = list(plan.nodes)
            raise described(f"unknown node '{node}'{nearest_hint(node, known)}", ", ".join(known), field="hosts")
    attached(plan, {f"h-{node}": node for node in chosen}, interfaces)
    return plan


def _read(file: Path) -> Any:
    """Returns the graph, with ids as nodes, because labels may occur twice."""
    import networkx  # imported here because it takes longer than resolving an experiment

    readers: Mapping[str, Callable[[Path], Any]] = {
        ".gml": lambda path: networkx.read_gml(path, label="id"),
        ".graphml": networkx.read_graphml,
    }
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise described(f"{file.name} is of an unknown format", "a file named .gml or .graphml", field="file")
    try:
        return reader(file)
    except OSError as error:
        raise described(f"{file} cannot be read: {error.strerror}", "a GML or GraphML file", field="file") from None
    except (networkx.NetworkXError, SyntaxError, ValueError, KeyError) as error:
        told = " ".join(str(error).split())
        raise described(f"{file.name} is not valid: {told}", "GML or GraphML", field="file") from None


def _names(found: Any) -> dict[Any, str]:
    """Returns a name for each node: its label, in the characters that names have."""
    taken: set[str] = set()
    names: dict[Any, str] = {}
    for node, attributes in found.nodes(data=True):
        label = re.sub(r"[^A-Za-z0-9_]+", "_", str(attributes.get("label", node))).strip("_")[:_LONGEST_NAME]
        names[node] = _unused(label or f"n{len(names) + 1}", taken)
    return names


def _unused(name: str, taken: set[str]) -> str:
    """Returns the name, or the name with the first free number, and takes it."""
    numbered = itertools.chain([name], (f"{name}-{number}" for number in itertools.count(2)))
    free = next(candidate for candidate in numbered if candidate not in taken)
    taken.add(free)
    return free


def _values(link: Mapping[str, Any], a: Mapping[str, Any], b: Mapping[str, Any], file: str) -> dict[str, NotedValue]:
    values: dict[str, NotedValue] = {}
    speed_bps = _number(link, "LinkSpeedRaw")
    if speed_bps:
        values["rate"] = NotedValue(f"{round(speed_bps)}bit", f"{file}: LinkSpeedRaw")
    places = [_number(end, key) for end in (a, b) for key in ("Latitude", "Longitude")]
    if None not in places:
        distance_km = _distance_km(*[place for place in places if place is not None])
        delay_us = round(distance_km / _KM_PER_S * 1e6)
        values["delay"] = NotedValue(f"{delay_us}us", f"{file}: {distance_km:.0f} km between the ends, in fibre")
    return values


def _number(attributes: Mapping[str, Any], key: str) -> float | None:
    try:
        number = float(attributes[key])
    except (KeyError, TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _distance_km(latitude: float, longitude: float, other_latitude: float, other_longitude: float) -> float:
    """Returns the length of the great circle between two places, by the haversine formula."""
    phi, other_phi = math.radians(latitude), math.radians(other_latitude)
    half = (
        math.sin((other_phi - phi) / 2) ** 2
        + math.cos(phi) * math.cos(other_phi) * math.sin(math.radians(other_longitude - longitude) / 2) ** 2
    )
    return 2 * _EARTH_RADIUS_KM * math.asin(math.sqrt(half))
