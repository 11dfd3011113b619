"""The switches of a resolved experiment as strategies see them, and the capacity that a strategy
reserves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from mptcplab.paths import Edge, Graph
from mptcplab.recovery.strategy import Network, Strategy

Json: TypeAlias = Mapping[str, Any]


def network_of(data: Json) -> Network:
    """Returns the switches of a resolved experiment that has `control`, with nothing down."""
    links = links_of(data)
    groups = {group["id"]: group["links"] for group in data["control"]["srlg"]}
    edges = [
        Edge(one["link"], ends_of(links[one["link"]]), one["cost"], _groups_of(one["link"], groups))
        for one in data["control"]["costs"]
    ]
    graph = Graph(edges, (node["id"] for node in data["nodes"] if node["kind"] == "openflow"))
    paths = {
        (flow["id"], number): path["hops"]
        for flow in data["flows"]
        for number, path in enumerate(flow["paths"])
        if len(path["hops"]) > 1 and all(hop["link"] in graph.edges for hop in path["hops"][1:-1])
    }
    ways = {key: tuple(hop["link"] for hop in hops[1:-1]) for key, hops in paths.items()}
    ends = {key: _switches_at(hops, links) for key, hops in paths.items()}
    return Network(graph, ways, ends)


def reserved_bps(data: Json, strategy: Strategy) -> float:
    """Returns the capacity that a strategy keeps free on all links of a resolved experiment
    together.

    A unit is the rate of the narrowest link between switches on the paths. A link keeps no more
    free than its rate.
    """
    network, links = network_of(data), links_of(data)
    of_paths = {link for way in network.ways.values() for link in way}
    unit_bps = min((_rate_bps(links[link]) for link in of_paths), default=0.0)
    reserved = strategy.reserves(network)
    return sum(min(units * unit_bps, _rate_bps(links[link])) for link, units in reserved.items())


def links_of(data: Json) -> dict[str, Json]:
    """Returns the links of a resolved experiment by their ids."""
    return {link["id"]: link for link in data["links"]}


def ends_of(link: Json) -> tuple[str, str]:
    """Returns the nodes at the two ends of a link."""
    return link["a"].partition(".")[0], link["b"].partition(".")[0]


def _rate_bps(link: Json) -> float:
    """Returns the smaller rate of the two directions; infinity if neither is limited."""
    rates = (link[direction]["rate_bps"] for direction in ("forward", "backward"))
    return min((float(rate) for rate in rates if rate), default=float("inf"))


def _groups_of(link: str, groups: Mapping[str, Iterable[str]]) -> frozenset[str]:
    return frozenset(name for name, links in groups.items() if link in links)


def _switches_at(hops: Sequence[Json], links: Mapping[str, Json]) -> tuple[str, str]:
    """Returns the far end of the first link of a path, and the near end of the last."""
    first, last = hops[0], hops[-1]
    a, b = ends_of(links[first["link"]])
    c, d = ends_of(links[last["link"]])
    return b if first["direction"] == "forward" else a, c if last["direction"] == "forward" else d
