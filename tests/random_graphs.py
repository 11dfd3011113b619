"""Random multigraphs for tests, and all ways through them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

from hypothesis import strategies as st
from mptcplab.paths import Edge, Graph, Way


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Graph, str, str]:
    """Draws a small multigraph, with edges of cost 0 and of equal cost, and two of its nodes."""
    nodes = draw(st.permutations("abcdef"))[: draw(st.integers(2, 6))]
    pairs = list(combinations(nodes, 2))
    groups = st.frozensets(st.sampled_from(["channel", "tunnel", "bridge"]), max_size=2)
    drawn = draw(st.lists(st.tuples(st.sampled_from(pairs), st.integers(0, 4), groups), max_size=9))
    edges = [Edge(f"e{index}", ends, cost, shared) for index, (ends, cost, shared) in enumerate(drawn)]
    return Graph(edges, nodes), nodes[0], nodes[-1]


def all_ways(graph: Graph, source: str, target: str) -> list[Way]:
    """Returns all ways without a loop, in order of cost, then nodes, then edges."""

    def onward(nodes: tuple[str, ...], way: Way) -> Iterator[tuple[int, tuple[str, ...], Way]]:
        if nodes[-1] == target:
            yield total(graph, [way]), nodes, way
            return
        for edge in graph.edges.values():
            if nodes[-1] in edge.ends and edge.far_end(nodes[-1]) not in nodes:
                yield from onward((*nodes, edge.far_end(nodes[-1])), (*way, edge.id))

    return [way for _, _, way in sorted(onward((source,), ()))]


def total(graph: Graph, ways: Iterable[Way]) -> int:
    """Returns the sum of the costs of some ways."""
    return sum(graph.edges[edge].cost for way in ways for edge in way)
