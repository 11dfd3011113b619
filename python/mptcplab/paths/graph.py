"""The network as a graph, and ways through it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from mptcplab.errors import SpecError, first_few

Way: TypeAlias = tuple[str, ...]
"""The ids of edges from the source to the target."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A link between two nodes. Both directions share its fate and have the same cost."""

    id: str
    ends: tuple[str, str]
    cost: int
    groups: frozenset[str] = frozenset()
    """Shared-risk groups: edges of one group can fail together."""

    def far_end(self, node: str) -> str:
        """Returns the end that is not `node`."""
        first, second = self.ends
        return second if node == first else first


class Graph:
    """An undirected graph that may have parallel edges. It never changes."""

    def __init__(self, edges: Iterable[Edge], nodes: Iterable[str] = ()) -> None:
        """Takes the nodes from `edges`, and those without an edge from `nodes`.

        Raises ValueError for an id that occurs twice, a loop and a negative cost.
        """
        found: dict[str, Edge] = {}
        at: dict[str, list[Edge]] = {node: [] for node in nodes}
        for edge in edges:
            if edge.id in found:
                raise ValueError(f"edge {edge.id}: the id occurs twice")
            if edge.ends[0] == edge.ends[1]:
                raise ValueError(f"edge {edge.id}: both ends are {edge.ends[0]}")
            if edge.cost < 0:
                raise ValueError(f"edge {edge.id}: found cost {edge.cost}, allowed is 0 or more")
            found[edge.id] = edge
            for node in edge.ends:
                at.setdefault(node, []).append(edge)
        self.edges: Mapping[str, Edge] = MappingProxyType(found)
        self.nodes: tuple[str, ...] = tuple(sorted(at))
        self._at = at

    def edges_at(self, node: str) -> tuple[Edge, ...]:
        """Returns the edges of a node."""
        return tuple(self._at[node])

    def without(self, edges: Collection[str]) -> Graph:
        """Returns the graph with the same nodes and without some edges."""
        return Graph((edge for edge in self.edges.values() if edge.id not in edges), self.nodes)

    def cost_of(self, way: Way) -> int:
        """Returns the sum of the costs of a way."""
        return sum(self.edges[edge].cost for edge in way)

    def groups_of(self, way: Way) -> frozenset[str]:
        """Returns the shared-risk groups of the edges of a way."""
        return frozenset().union(*(self.edges[edge].groups for edge in way))

    def nodes_of(self, way: Way, source: str) -> tuple[str, ...]:
        """Returns the nodes of a way that begins at `source`. Raises ValueError for edges that do
        not follow.
        """
        nodes = [source]
        for edge in way:
            if nodes[-1] not in self.edges[edge].ends:
                raise ValueError(f"edge {edge}: does not begin at {nodes[-1]}")
            nodes.append(self.edges[edge].far_end(nodes[-1]))
        return tuple(nodes)

    def require(self, *nodes: str) -> None:
        """Raises SpecError for a node that the graph does not have."""
        for node in nodes:
            if node not in self._at:
                raise SpecError(f"unknown node {node!r}", allowed=first_few(self.nodes))
