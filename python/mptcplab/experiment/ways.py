"""The ways of the paths of a resolved experiment: their nodes, what they share, and why there are
no more of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from mptcplab.experiment.switched_network import SwitchedNetwork
from mptcplab.paths import NoWaysError, edge_disjoint


@dataclass(frozen=True)
class PathWay:
    """The way of a path. Paths are numbered from 1, as in descriptions."""

    number: int
    local: str
    remote: str
    nodes: tuple[str, ...]
    """The nodes between the two hosts; routers choose them if `is_chosen`."""
    links: tuple[str, ...]
    rtt_ns: int
    rate_bps: int | None
    is_chosen: bool
    shared: Mapping[str, tuple[int, ...]]
    """The links that other paths of the flow use too, and the numbers of these paths."""
    groups: tuple[str, ...]
    """The shared-risk groups of its links."""


def ways_of(data: Mapping[str, Any], flow: Mapping[str, Any]) -> list[PathWay]:
    """Returns the ways of the paths of a flow."""
    node_of = {interface["id"]: interface["node"] for interface in data["interfaces"]}
    links = {link["id"]: link for link in data["links"]}
    groups = {group["id"]: group["links"] for group in (data["control"] or {"srlg": []})["srlg"]}
    used = [tuple(hop["link"] for hop in path["hops"]) for path in flow["paths"]]
    found = []
    for number, path in enumerate(flow["paths"], 1):
        mine = used[number - 1]
        others = {link: tuple(i for i, way in enumerate(used, 1) if i != number and link in way) for link in mine}
        found.append(
            PathWay(
                number,
                path["local"],
                path["remote"],
                tuple(node_of[_far_end(links, hop)] for hop in path["hops"][:-1]),
                mine,
                path["rtt_ns"],
                path["rate_bps"],
                path["routed"],
                {link: paths for link, paths in others.items() if paths},
                tuple(name for name, members in groups.items() if set(members) & set(mine)),
            )
        )
    return found


def limits(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields for each flow over OpenFlow switches its id, and the cut that limits its edge-disjoint
    ways.
    """
    switched = SwitchedNetwork.of(data)
    if switched is None:
        return
    for flow in data["flows"]:
        ends = switched.whole.ends.get((flow["id"], 0))
        if ends is not None and ends[0] != ends[1]:
            cut = _cut(switched, ends)
            noun = "one edge-disjoint way" if len(cut) == 1 else f"{len(cut)} edge-disjoint ways"
            yield flow["id"], f"{' and '.join(ends)} have {noun}, because all cross {', '.join(cut)}"


def _cut(switched: SwitchedNetwork, ends: tuple[str, str]) -> tuple[str, ...]:
    """Returns a minimum cut between two switches."""
    try:
        edge_disjoint(switched.graph, *ends, len(switched.graph.edges) + 1)
    except NoWaysError as error:
        return error.cut
    raise AssertionError("there are not more disjoint ways than links")


def _far_end(links: Mapping[str, Any], hop: Mapping[str, str]) -> str:
    end: str = links[hop["link"]]["b" if hop["direction"] == "forward" else "a"]
    return end
