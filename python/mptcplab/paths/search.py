"""The cheapest way, and all ways in order of cost.

Ways of equal cost are in lexicographic order of their nodes, then of their edges. No result depends
on the order in which a graph lists its edges.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heappop, heappush
from typing import Generic, NamedTuple, TypeVar

from mptcplab.paths.graph import Graph, Way

#: A node, or a side of a node.
Vertex = TypeVar("Vertex", bound="str | tuple[str, int]")


class Route(NamedTuple, Generic[Vertex]):
    """A way with its vertices. Routes compare by cost, then vertices, then edges."""

    cost: int
    vertices: tuple[Vertex, ...]
    edges: Way


def search(
    arcs: Callable[[Vertex], Iterable[tuple[int, Vertex, str]]], source: Vertex, target: Vertex
) -> tuple[Route[Vertex] | None, dict[Vertex, int]]:
    """Returns the least route, None without one, and the costs of the vertices that were reached
    before the target.

    `arcs` yields the cost, the far vertex and the edge of each arc of a vertex. Costs are not
    negative. A route is final when it leaves the heap, even over arcs of cost 0, because every
    extension of a route is greater than it.
    """
    first: Route[Vertex] = Route(0, (source,), ())
    heap, least = [first], {source: first}
    costs: dict[Vertex, int] = {}
    while heap:
        route = heappop(heap)
        cost, vertices, edges = route
        vertex = vertices[-1]
        if vertex in costs:
            continue
        costs[vertex] = cost
        if vertex == target:
            return route, costs
        for step, far, edge in arcs(vertex):
            known = least.get(far)
            if far in costs or (known is not None and known.cost < cost + step):
                continue
            extended = Route(cost + step, (*vertices, far), (*edges, edge))
            if known is None or extended < known:
                least[far] = extended
                heappush(heap, extended)
    return None, costs


def costs_to(graph: Graph, target: str) -> dict[str, int]:
    """Returns the cost of the cheapest way to `target`, for every node that has one."""
    heap, costs = [(0, target)], {}
    while heap:
        cost, node = heappop(heap)
        if node not in costs:
            costs[node] = cost
            for edge in graph.edges_at(node):
                far = edge.far_end(node)
                if far not in costs:
                    heappush(heap, (cost + edge.cost, far))
    return costs


def ways_in_order(graph: Graph, source: str, target: str) -> Iterator[Way]:
    """Yields all ways without a loop, the cheapest first (Yen 1971, with Lawler's rule against
    repetitions).

    Parallel edges make different ways. The searches aim at the target by `costs_to`, so each visits
    few nodes.
    """
    ahead = costs_to(graph, target)
    #: The edges that follow each beginning of the ways so far.
    followed: dict[Way, set[str]] = {}

    def detour(root: Route[str]) -> Route[str] | None:
        """Returns the least way that begins as `root` does and goes on as no way so far."""
        spur, closed = root.vertices[-1], root.vertices[:-1]

        def arcs(node: str) -> Iterator[tuple[int, str, str]]:
            barred: Collection[str] = followed.get(root.edges, ()) if node == spur else ()
            here = ahead[node]
            for edge in graph.edges_at(node):
                far = edge.far_end(node)
                if far in ahead and far not in closed and edge.id not in barred:
                    yield edge.cost + ahead[far] - here, far, edge.id

        found, _ = search(arcs, spur, target)
        if found is None:
            return None
        edges = root.edges + found.edges
        return Route(graph.cost_of(edges), closed + found.vertices, edges)

    if source not in ahead:
        return
    first = detour(Route(0, (source,), ()))
    candidates = [(first, 0)] if first else []
    while candidates:
        way, parted = heappop(candidates)
        yield way.edges
        for index in range(len(way.edges)):
            followed.setdefault(way.edges[:index], set()).add(way.edges[index])
        for index in range(parted, len(way.edges)):
            other = detour(Route(0, way.vertices[: index + 1], way.edges[:index]))
            if other:
                heappush(candidates, (other, index))
