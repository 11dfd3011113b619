"""Recovery by entries that switches have beforehand: the node before a failed link sends packets
around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mptcplab.paths import Graph, Way
from mptcplab.paths.search import search
from mptcplab.recovery.strategy import Detour, Network, PathKey, Rerouting


@dataclass(frozen=True)
class IpPreinstalled(Rerouting):
    """Goes around a failed link from the node before it, which differs between the two directions.

    A detour is the cheapest way from that node to the target that joins the path again at a node
    after the link, and follows the path from there. It passes no node of the path before the link,
    because packets that come back over a node would circle there. A link without a detour in one of
    the directions is not protected for that path. With several links down, a path takes one detour
    after another, and none if that passes a node twice.
    """

    forward_ns: int = 1_100_000
    """Model of the time from the detection until the fast-failover group forwards: the measured
    median from the failure, 3.6 ms, less that of the detection.
    """

    summary = "switches send packets around a failed link using preinstalled entries"

    def prepare(self, network: Network) -> Mapping[tuple[PathKey, str], Detour]:
        found = {(key, link): _around_link(network, key, link) for key, way in network.ways.items() for link in way}
        return {place: detour for place, detour in found.items() if detour is not None}

    def way_now(self, network: Network, key: PathKey) -> Detour | None:
        original = network.original(key)
        failed = network.down.intersection(network.ways[key])
        detours = {link: detour for link in failed if (detour := _around_link(network, key, link)) is not None}
        source, target = network.ends[key]
        there = _followed(network, source, original.there, {link: detours[link].there for link in detours})
        back = _followed(network, target, original.back, {link: detours[link].back for link in detours})
        return None if there is None or back is None else Detour(there, back)

    def install_time_ns(self) -> int:
        return self.forward_ns


def _around_link(network: Network, key: PathKey, link: str) -> Detour | None:
    """Returns the ways of a path around a link of it; None unless there is one
    in each direction.
    """
    source, target = network.ends[key]
    original = network.original(key)
    there = _around(network.graph, source, original.there, link)
    back = _around(network.graph, target, original.back, link)
    return None if there is None or back is None else Detour(there, back)


def _around(graph: Graph, source: str, way: Way, link: str) -> Way | None:
    """Returns the cheapest way that leaves `way` before `link` and joins it behind; None without
    one.
    """
    index, nodes = way.index(link), graph.nodes_of(way, source)
    before, onward = nodes[:index], dict(zip(nodes[index + 1 :], way[index + 1 :], strict=False))

    def arcs(node: str) -> Iterator[tuple[int, str, str]]:
        for edge in graph.edges_at(node):
            far = edge.far_end(node)
            if edge.id != link and far not in before and onward.get(node, edge.id) == edge.id:
                yield edge.cost, far, edge.id

    route, _ = search(arcs, nodes[index], nodes[-1])
    return None if route is None else way[:index] + route.edges


def _followed(network: Network, source: str, way: Way, detours: Mapping[str, Way]) -> Way | None:
    """Returns the way of a packet that meets the failed links; None if it does not arrive or passes
    a node twice.
    """
    graph, index = network.graph, 0
    while index < len(way):
        if way[index] not in network.down:
            index += 1
        elif way[index] not in detours:
            return None
        else:
            node = graph.nodes_of(way[:index], source)[-1]
            detour = detours[way[index]]
            way = way[:index] + detour[graph.nodes_of(detour, source).index(node) :]
    nodes = graph.nodes_of(way, source)
    return way if len(set(nodes)) == len(nodes) else None
