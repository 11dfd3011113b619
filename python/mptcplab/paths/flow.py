"""Ways that share as little as possible: flows of least cost, and minimum cuts.

A flow grows by one unit along the cheapest route of what it leaves, which may lead back along units
that are there (Bhandari 1999; Suurballe and Tarjan 1984 for the potentials). The flow of n units is
the cheapest of all with n units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic

from mptcplab.paths.graph import Edge, Graph, Way
from mptcplab.paths.search import Route, Vertex, search


class _Flow(Generic[Vertex]):
    """A flow that grows unit by unit."""

    def __init__(self, source: Vertex, target: Vertex) -> None:
        self.units = 0
        self.reached: frozenset[Vertex] = frozenset()
        """The vertices on the source's side of a minimum cut, once the flow cannot grow."""
        self._source, self._target = source, target
        #: Keep the costs of all arcs from being negative, also of those that lead back.
        self._potentials: dict[Vertex, int] = {}

    def grow(self, units: int) -> bool:
        """Grows by `units`. Returns False if the flow reaches its maximum before."""
        return all(self._grow_by_one() for _ in range(units))

    def _grow_by_one(self) -> bool:
        route, costs = search(self._reduced_arcs, self._source, self._target)
        if route is None:
            self.reached = frozenset(costs)
            return False
        for vertex, cost in costs.items():
            self._potentials[vertex] = self._potentials.get(vertex, 0) + cost - route.cost
        self._carry(route)
        self.units += 1
        return True

    def _reduced_arcs(self, vertex: Vertex) -> Iterator[tuple[int, Vertex, str]]:
        here = self._potentials.get(vertex, 0)
        for cost, far, edge in self._arcs(vertex):
            yield cost + here - self._potentials.get(far, 0), far, edge

    def _arcs(self, vertex: Vertex) -> Iterator[tuple[int, Vertex, str]]:
        """Yields cost, far vertex and edge of each arc that has room, back along the flow too."""
        raise NotImplementedError

    def _carry(self, route: Route[Vertex]) -> None:
        """Adds a unit to each edge of a route, or takes one away that flows in the opposite
        direction.
        """
        raise NotImplementedError


class EdgeFlow(_Flow[str]):
    """A flow over edges that each carry one unit.

    With a `penalty`, an edge carries more: each unit but the first costs the penalty in addition.
    Both directions of an edge are one, because a unit in each direction would cancel the other.
    """

    def __init__(self, graph: Graph, source: str, target: str, penalty: int | None = None) -> None:
        super().__init__(source, target)
        self._graph = graph
        self._penalty = penalty
        #: For each edge that carries something the node that its units come from, and their number.
        self._carried: dict[str, tuple[str, int]] = {}

    def _arcs(self, vertex: str) -> Iterator[tuple[int, str, str]]:
        for edge in self._graph.edges_at(vertex):
            far = edge.far_end(vertex)
            start, units = self._carried.get(edge.id, (vertex, 0))
            if start == far:
                yield -(edge.cost if units == 1 else edge.cost + (self._penalty or 0)), far, edge.id
            elif units == 0:
                yield edge.cost, far, edge.id
            elif self._penalty is not None:
                yield edge.cost + self._penalty, far, edge.id

    def _carry(self, route: Route[str]) -> None:
        for near, edge in zip(route.vertices, route.edges, strict=False):
            start, units = self._carried.pop(edge, (near, 0))
            units += 1 if start == near else -1
            if units:
                self._carried[edge] = (start, units)

    def ways(self) -> list[Way]:
        """Returns the flow as ways without loops, the cheapest first."""
        left = dict(self._carried)
        leaving: dict[str, list[str]] = {}
        for edge in sorted(left, key=lambda edge: (self._graph.edges[edge].far_end(left[edge][0]), edge)):
            leaving.setdefault(left[edge][0], []).append(edge)
        return in_order(self._graph, self._source, [self._unit(left, leaving) for _ in range(self.units)])

    def _unit(self, left: dict[str, tuple[str, int]], leaving: dict[str, list[str]]) -> Way:
        """Takes the way of a unit out of what is left. It leaves out loops, which cost nothing in a
        cheapest flow.
        """
        nodes, way = [self._source], list[str]()
        while nodes[-1] != self._target:
            edge = next(edge for edge in leaving[nodes[-1]] if left[edge][1])
            left[edge] = (left[edge][0], left[edge][1] - 1)
            far = self._graph.edges[edge].far_end(nodes[-1])
            nodes.append(far)
            way.append(edge)
            start = nodes.index(far)
            del nodes[start + 1 :], way[start:]
        return tuple(way)

    def cut(self) -> tuple[str, ...]:
        """Returns the edges of a minimum cut, once the flow cannot grow."""
        edges = self._graph.edges.values()
        return tuple(sorted(edge.id for edge in edges if len(self.reached & set(edge.ends)) == 1))


#: The sides of a node that carries a unit: units come in at one and go out at the other.
_IN, _OUT = 0, 1
_Side = tuple[str, int]


class NodeFlow(_Flow[_Side]):
    """A flow over nodes that each carry one unit, except the source and the target.

    A node that carries nothing is one vertex, the side where units go out, because to come in is to
    go out there.
    """

    def __init__(self, graph: Graph, source: str, target: str) -> None:
        super().__init__((source, _OUT), (target, _IN))
        self._graph = graph
        self._ends = {source, target}
        #: The node that the unit of an edge comes from.
        self._carried: dict[str, str] = {}
        #: The nodes that carry a unit, and the target.
        self._occupied = {target}

    def _arcs(self, vertex: _Side) -> Iterator[tuple[int, _Side, str]]:
        node, side = vertex
        if side == _OUT and node in self._occupied:
            yield 0, (node, _IN), ""
        for edge in self._graph.edges_at(node):
            far, start = edge.far_end(node), self._carried.get(edge.id)
            if side == _IN:
                if start == far:
                    yield -edge.cost, (far, _OUT), edge.id
            elif far != self._source[0] and (start is None or self._is_wide(edge, start, node)):
                yield edge.cost, (far, _IN if far in self._occupied else _OUT), edge.id

    def _is_wide(self, edge: Edge, start: str, node: str) -> bool:
        """Returns whether an edge that carries a unit has room for more, so that a minimum cut is
        of nodes.
        """
        return start == node and set(edge.ends) != self._ends

    def _carry(self, route: Route[_Side]) -> None:
        for (node, side), edge in zip(route.vertices, route.edges, strict=False):
            # A route can pass an edge of cost 0 in both directions, which cancels.
            if side == _IN or edge in self._carried:
                del self._carried[edge]
            elif edge:
                self._carried[edge] = node
        before = self._occupied
        self._occupied = {self._target[0], *self._carried.values()} - {self._source[0]}
        for node in self._occupied - before:
            self._potentials[node, _IN] = self._potentials.get((node, _OUT), 0)

    def ways(self) -> list[Way]:
        """Returns the flow as ways, the cheapest first."""
        leaving = {start: edge for edge, start in self._carried.items() if start != self._source[0]}
        ways = []
        for edge in sorted(edge for edge, start in self._carried.items() if start == self._source[0]):
            way, node = [edge], self._graph.edges[edge].far_end(self._source[0])
            while node != self._target[0]:
                way.append(leaving[node])
                node = self._graph.edges[way[-1]].far_end(node)
            ways.append(tuple(way))
        return in_order(self._graph, self._source[0], ways)

    def cut(self) -> tuple[str, ...]:
        """Returns the nodes of a minimum cut, once the flow cannot grow, and edges from the source
        to the target.
        """
        nodes = {node for node, side in self.reached if side == _IN and (node, _OUT) not in self.reached}
        direct = [edge.id for edge in self._graph.edges_at(self._source[0]) if set(edge.ends) == self._ends]
        return (*sorted(nodes), *sorted(direct))


def in_order(graph: Graph, source: str, ways: list[Way]) -> list[Way]:
    """Returns ways in order of cost, then nodes, then edges."""
    return sorted(ways, key=lambda way: (graph.cost_of(way), graph.nodes_of(way, source), way))
