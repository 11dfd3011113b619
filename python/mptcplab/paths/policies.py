"""The policies by which a flow gets its ways through the network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from itertools import islice, pairwise, takewhile
from math import lcm
from typing import Concatenate, ParamSpec

from mptcplab.errors import SpecError, first_few
from mptcplab.paths.flow import EdgeFlow, NodeFlow
from mptcplab.paths.graph import Graph, Way
from mptcplab.paths.search import costs_to, ways_in_order

Others = ParamSpec("Others")


class NoWaysError(SpecError):
    """The network has fewer ways than a policy was asked for.

    `found` has the ways that exist. `cut` is a minimum cut between source and target. It consists
    of edges, or, for `node_disjoint`, of nodes and of the edges that join source and target
    directly. It proves that no more disjoint ways exist, because each of them crosses the cut in
    another place.
    """

    def __init__(self, problem: str, found: list[Way], cut: tuple[str, ...]) -> None:
        super().__init__(problem)
        self.found = found
        self.cut = cut


@dataclass(frozen=True)
class Policy:
    """A row of the table. `function` returns as many ways as it is asked for, or raises
    NoWaysError.
    """

    summary: str
    least: int
    """The number of ways from which on the policy differs from `shortest`."""
    most: int | None
    """The largest number of different ways that it gives; None without a limit."""
    function: Callable[[Graph, str, str, int], list[Way]]


def _between_nodes(
    function: Callable[Concatenate[Graph, str, str, int, Others], list[Way]],
) -> Callable[Concatenate[Graph, str, str, int, Others], list[Way]]:
    """Checks the arguments, and answers for a target that is the source: each way to it has no
    edge.
    """

    @wraps(function)
    def checked(
        graph: Graph, source: str, target: str, count: int, /, *others: Others.args, **named: Others.kwargs
    ) -> list[Way]:
        graph.require(source, target)
        if count < 1:
            raise ValueError(f"found a count of {count} ways, allowed is 1 or more")
        return [()] * count if source == target else function(graph, source, target, count, *others, **named)

    return checked


@_between_nodes
def shortest(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    """Returns the cheapest way, `count` times."""
    return _cheapest(graph, source, target, 1) * count


@_between_nodes
def k_shortest(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    """Returns the cheapest ways without a loop, in order of cost, then nodes, then edges."""
    return _cheapest(graph, source, target, count)


@_between_nodes
def edge_disjoint(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    """Returns ways that share no edge, with the least total cost."""
    flow = EdgeFlow(graph, source, target)
    if not flow.grow(count):
        raise _too_few(source, target, "edge-disjoint", count, flow.ways(), flow.cut())
    return flow.ways()


@_between_nodes
def node_disjoint(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    """Returns ways that share no node except the ends, with the least total cost."""
    flow = NodeFlow(graph, source, target)
    if not flow.grow(count):
        raise _too_few(source, target, "node-disjoint", count, flow.ways(), flow.cut())
    return flow.ways()


@_between_nodes
def maximally_disjoint(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    """Returns ways that share as few edges as possible, and among those the ways with the least
    total cost.

    An edge of n ways counts n - 1 times. Two ways can be the same where all their edges have to be
    shared.
    """
    above_all_costs = count * sum(edge.cost for edge in graph.edges.values()) + 1
    flow = EdgeFlow(graph, source, target, penalty=above_all_costs)
    if not flow.grow(count):
        raise _too_few(source, target, "", count, [], ())
    return flow.ways()


#: How many edges `srlg_disjoint` may look at, all its searches together.
_MOST_EDGES_LOOKED_AT = 1_000_000


@_between_nodes
def srlg_disjoint(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    """Returns ways that share neither an edge nor a shared-risk group, with the least total cost.

    The problem is NP-hard. The function takes each way in order of cost, and looks for the others
    in the network without the edges and groups of that way, until no cheaper set can follow. It
    stops after looking at a million edges, which takes some two seconds. Before that, the result is
    exact: the cheapest set, or a refusal because there is none. After that, the ways are disjoint,
    but cheaper ones may exist, and a refusal says that ways may exist.
    """
    comparison = _Comparison(_MOST_EDGES_LOOKED_AT)
    group = _unavoidable_group(graph, source, target) if count > 1 else None
    ways = None if group else comparison.disjoint(graph, source, target, count)
    if ways is None:
        raise _too_few_for_groups(graph, source, target, count, group, comparison.is_complete)
    return ways


@_between_nodes
def ecmp(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    """Returns the ways that cost as little as the cheapest, in lexicographic order, and starts over
    after the last.
    """
    least = graph.cost_of(_cheapest(graph, source, target, 1)[0])
    equal = takewhile(lambda way: graph.cost_of(way) == least, ways_in_order(graph, source, target))
    ways = list(islice(equal, count))
    return [ways[index % len(ways)] for index in range(count)]


@_between_nodes
def weighted(graph: Graph, source: str, target: str, count: int, weights: Sequence[int] | None = None) -> list[Way]:
    """Returns the cheapest ways, each as often as its part of all weights (D'Hondt's method).

    `weights` are those of the cheapest ways in their order. Without them, a way weighs the inverse
    of its cost.
    """
    if weights is None:
        ways = list(islice(ways_in_order(graph, source, target), count)) or _cheapest(graph, source, target, 1)
        prices = [graph.cost_of(way) for way in ways]
    elif not weights or min(weights) < 1:
        raise SpecError(f"found the weights {list(weights)}", allowed="one or more whole numbers above 0")
    else:
        ways = _cheapest(graph, source, target, len(weights))
        prices = [lcm(*weights) // weight for weight in weights]
    taken: list[int] = []
    for _ in range(count):
        taken.append(min(range(len(ways)), key=lambda index: prices[index] * (taken.count(index) + 1)))
    return [ways[index] for index in taken]


def explicit(graph: Graph, source: str, target: str, nodes: Sequence[str]) -> Way:
    """Returns the way over the listed nodes, by the cheapest of parallel edges. The list may leave
    out the ends.

    Raises SpecError for an unknown node, for one that occurs twice, and for neighbours in the list
    that no edge joins.
    """
    graph.require(source, target, *nodes)
    passed = [*([source] if nodes[:1] != [source] else []), *nodes, *([target] if nodes[-1:] != [target] else [])]
    twice = next((node for index, node in enumerate(passed) if node in passed[:index]), None)
    if twice is not None:
        raise SpecError(f"the route over {', '.join(passed)} passes {twice} twice", allowed="each node once")
    return tuple(_joining(graph, near, far) for near, far in pairwise(passed))


def _joining(graph: Graph, near: str, far: str) -> str:
    """Returns the cheapest edge between two nodes."""
    edges = [edge for edge in graph.edges_at(near) if edge.far_end(near) == far]
    if not edges:
        neighbours = sorted({edge.far_end(near) for edge in graph.edges_at(near)})
        raise SpecError(
            f"no link joins {near} and {far}", allowed=f"after {near}: {first_few(neighbours) or 'nothing'}"
        )
    return min(edges, key=lambda edge: (edge.cost, edge.id)).id


#: The policies by their names in descriptions. `explicit` is none of them, because it takes a list
#: of nodes.
POLICIES: Mapping[str, Policy] = {
    "shortest": Policy("uses the cheapest route for all paths of a flow", 1, 1, shortest),
    "k_shortest": Policy("uses the cheapest routes, which may share links", 2, None, k_shortest),
    "edge_disjoint": Policy("uses the routes with the lowest total cost that share no link", 2, None, edge_disjoint),
    "node_disjoint": Policy("uses the routes with the lowest total cost that share no node", 2, None, node_disjoint),
    "srlg_disjoint": Policy("uses routes that share no link and no shared-risk group", 2, None, srlg_disjoint),
    "maximally_disjoint": Policy("uses routes that share as few links as possible", 2, None, maximally_disjoint),
    "ecmp": Policy("uses all routes that are as cheap as the cheapest, in turn", 2, None, ecmp),
    "weighted": Policy("uses the cheapest routes in inverse proportion to their costs", 2, None, weighted),
}


def _cheapest(graph: Graph, source: str, target: str, count: int) -> list[Way]:
    ways = list(islice(ways_in_order(graph, source, target), count))
    if len(ways) < count:
        raise _too_few(source, target, "", count, ways, _edge_cut(graph, source, target))
    return ways


def _edge_cut(graph: Graph, source: str, target: str) -> tuple[str, ...]:
    flow = EdgeFlow(graph, source, target)
    flow.grow(len(graph.edges) + 1)
    return flow.cut()


def _too_few(
    source: str, target: str, kind: str, count: int, found: list[Way], cut: tuple[str, ...], why: str = ""
) -> NoWaysError:
    if not cut:
        return NoWaysError(f"{source} to {target}: no route exists", found, cut)
    ways = " ".join(filter(None, (str(len(found)), kind, "route" if len(found) == 1 else "routes")))
    why = why or f"the minimum cut is {first_few(cut)}"
    return NoWaysError(f"{source} to {target}: {ways} found, {count} requested; {why}", found, cut)


def _too_few_for_groups(
    graph: Graph, source: str, target: str, count: int, group: str | None, is_complete: bool
) -> NoWaysError:
    """Names the cut if there are not even edge-disjoint ways, else the groups
    that the ways share.
    """
    sets = (_Comparison(_MOST_EDGES_LOOKED_AT).disjoint(graph, source, target, n) for n in range(count - 1, 0, -1))
    found = _cheapest(graph, source, target, 1) if group else next(filter(None, sets), [])
    cut, why = _edge_cut(graph, source, target), ""
    if len(cut) >= count and group:
        why = f"every route passes the group {group}"
    elif len(cut) >= count:
        ways = edge_disjoint(graph, source, target, count)
        shared = {
            group for index, way in enumerate(ways) for group in graph.groups_of(way) & _groups(graph, ways[:index])
        }
        why = f"edge-disjoint routes share {first_few(sorted(shared))}"
        why += "" if is_complete else ", and the network has too many routes to compare all"
    return _too_few(source, target, "group-disjoint", count, found, cut, why)


def _unavoidable_group(graph: Graph, source: str, target: str) -> str | None:
    """Returns a shared-risk group that every way passes; None without one."""
    for group in sorted(_groups(graph, list(islice(ways_in_order(graph, source, target), 1)))):
        members = {edge.id for edge in graph.edges.values() if group in edge.groups}
        if source not in costs_to(graph.without(members), target):
            return group
    return None


def _groups(graph: Graph, ways: Sequence[Way]) -> frozenset[str]:
    return frozenset().union(*(graph.groups_of(way) for way in ways))


class _Comparison:
    """The comparison of sets of ways that share no edge and no group, within a limit of work."""

    def __init__(self, most_edges: int) -> None:
        self.is_complete = True
        """Whether the limit left nothing out."""
        self._edges_left = most_edges

    def disjoint(self, graph: Graph, source: str, target: str, count: int) -> list[Way] | None:
        """Returns the cheapest set, the cheapest way first; None if none was found."""
        if count == 1:
            return list(islice(ways_in_order(graph, source, target), 1)) or None
        best: list[Way] | None = None
        least = 0
        for way in self._ways(graph, source, target):
            # No later way is cheaper, so it is the cheapest of its set.
            if best is not None and count * graph.cost_of(way) >= least:
                break
            others = self.disjoint(graph.without(self._sharing(graph, way)), source, target, count - 1)
            cost = sum(map(graph.cost_of, others or [])) + graph.cost_of(way)
            if others is not None and (best is None or cost < least):
                best, least = [way, *others], cost
        return best

    def _ways(self, graph: Graph, source: str, target: str) -> Iterator[Way]:
        for way in ways_in_order(graph, source, target):
            self._edges_left -= len(graph.edges)
            if self._edges_left < 0:
                self.is_complete = False
                return
            yield way

    def _sharing(self, graph: Graph, way: Way) -> set[str]:
        """Returns the edges of a way and those that share a group with it."""
        groups = graph.groups_of(way)
        return {*way, *(edge.id for edge in graph.edges.values() if edge.groups & groups)}
