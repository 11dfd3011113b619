"""Which sites have a tunnel between them, and the routes of hosts through these tunnels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from mptcplab.errors import SpecError
from mptcplab.overlay.plan import Plan
from mptcplab.paths import POLICIES, Edge, Graph

#: Two sites, the smaller number first.
Pair = tuple[int, int]
#: The node of the graph that stands for a host. No site has a name with a space.
_HOST = "the host"
#: The cost of a tunnel whose round-trip time is not measured yet, in microseconds.
_UNMEASURED_US = 1_000_000


def full(count: int) -> list[Pair]:
    """Returns a tunnel between each two of `count` sites."""
    return list(combinations(range(count), 2))


def planned(plan: Plan, rtt_s: Mapping[Pair, float]) -> list[Pair]:
    """Returns the tunnels of a plan. `rtt_s` has the round-trip times, unless all tunnels are given."""
    count = len(plan.sites)
    if plan.pairs is not None:
        return plan.pairs
    if plan.needs_distances:
        assert plan.neighbours is not None
        return nearest(count, plan.neighbours, rtt_s)
    return full(count)


def nearest(count: int, neighbours: int, rtt_s: Mapping[Pair, float]) -> list[Pair]:
    """Returns tunnels from each of `count` sites to its nearest neighbours, and the shortest
    further ones by which all sites reach each other. Pairs that were not measured are far away.
    """
    of_site: list[list[tuple[float, int]]] = [[] for _ in range(count)]
    for (a, b), rtt in rtt_s.items():
        of_site[a].append((rtt, b))
        of_site[b].append((rtt, a))
    chosen = {
        (min(site, other), max(site, other))
        for site, others in enumerate(of_site)
        for _, other in sorted(others)[:neighbours]
    }
    groups = list(range(count))
    for pair in [*sorted(chosen), *sorted(rtt_s, key=lambda pair: (rtt_s[pair], pair))]:
        a, b = (_group(groups, site) for site in pair)
        if a != b:
            groups[b] = a
            chosen.add(pair)
    return sorted(chosen)


def _group(groups: list[int], site: int) -> int:
    """Returns the site that stands for all sites that `site` reaches."""
    while groups[site] != site:
        groups[site] = site = groups[groups[site]]
    return site


def routes(
    policy: str,
    mesh: Mapping[Pair, float | None],
    nodes: Sequence[int],
    exits: Collection[int],
    names: Sequence[str],
) -> dict[int, list[int]]:
    """Returns for each of the nodes a route of sites from it to one exit, the one with the lowest
    total round-trip time.

    `mesh` has the round-trip time of each tunnel that can be used, and `names` the name of each
    site. Raises SpecError if the policy finds no such routes to any exit.
    """
    found: list[tuple[int, dict[int, list[int]]]] = []
    refused: SpecError | None = None
    for target in sorted(exits):
        try:
            found.append(_routes_to(policy, mesh, nodes, target, names))
        except SpecError as error:
            refused = error
    if found:
        return min(found, key=lambda one: one[0])[1]
    raise refused or SpecError("no site that operates is an exit", allowed="sites with `exit: true`")


def _routes_to(
    policy: str, mesh: Mapping[Pair, float | None], nodes: Sequence[int], target: int, names: Sequence[str]
) -> tuple[int, dict[int, list[int]]]:
    """Returns the total cost in microseconds, and a route for each node."""
    numbers = {name: number for number, name in enumerate(names)}
    edges = [
        Edge(f"{names[a]} - {names[b]}", (names[a], names[b]), _UNMEASURED_US if rtt is None else round(rtt * 1e6))
        for (a, b), rtt in mesh.items()
    ]
    function = POLICIES[policy].function
    if policy == "shortest":
        graph = Graph(edges, [names[node] for node in (*nodes, target)])
        ways = {node: function(graph, names[node], names[target], 1)[0] for node in nodes}
        cost = sum(graph.cost_of(way) for way in ways.values())
        return cost, {node: [numbers[one] for one in graph.nodes_of(way, names[node])] for node, way in ways.items()}
    # Routes from the host share no tunnel, and each begins with another tunnel of the host.
    graph = Graph(
        [*edges, *(Edge(f"{_HOST} - {names[node]}", (_HOST, names[node]), 0) for node in nodes)], [names[target]]
    )
    ways_of_host = function(graph, _HOST, names[target], len(nodes))
    passed = [[numbers[one] for one in graph.nodes_of(way, _HOST)[1:]] for way in ways_of_host]
    return sum(map(graph.cost_of, ways_of_host)), {sites[0]: sites for sites in passed}
