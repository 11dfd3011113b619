"""Tests the policies of paths on random multigraphs, beside a search through all ways.

`make test` takes a hundred multigraphs for each policy, `make soak` ten thousand.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import combinations, combinations_with_replacement
from typing import Any, NamedTuple

import networkx
import pytest
from documentation import ROOT, blocks
from hypothesis import example, given
from hypothesis import strategies as st
from mptcplab.errors import SpecError
from mptcplab.paths import (
    POLICIES,
    Edge,
    Graph,
    NoWaysError,
    Way,
    ecmp,
    edge_disjoint,
    explicit,
    k_shortest,
    maximally_disjoint,
    node_disjoint,
    shortest,
    srlg_disjoint,
    weighted,
)
from random_graphs import all_ways, graphs, total


class Case(NamedTuple):
    graph: Graph
    source: str
    target: str
    count: int


@st.composite
def cases(draw: st.DrawFn, most: int = 3) -> Case:
    return Case(*draw(graphs()), draw(st.integers(1, most)))


def share_nothing(parts: Iterable[Iterable[str]]) -> bool:
    counts = Counter(member for part in parts for member in set(part))
    return not counts or max(counts.values()) == 1


def inner_nodes(case: Case, way: Way) -> tuple[str, ...]:
    """Returns what node-disjoint ways must not share: the nodes between the ends, and an edge
    without any.
    """
    return case.graph.nodes_of(way, case.source)[1:-1] or way


def risks(case: Case, way: Way) -> set[str]:
    return {*way, *case.graph.groups_of(way)}


def cheapest_set(case: Case, count: int, parts: Callable[[Case, Way], Iterable[str]]) -> int | None:
    """Returns the least total cost of ways that share no part; None if there are no such ways."""
    sets = combinations(all_ways(case.graph, case.source, case.target), count)
    costs = [total(case.graph, ways) for ways in sets if share_nothing(parts(case, way) for way in ways)]
    return min(costs, default=None)


def minimum_cut_size(case: Case, parts: Callable[[Case, Way], Iterable[str]]) -> int:
    """Returns how many parts meet every way at least."""
    ways = [set(parts(case, way)) for way in all_ways(case.graph, case.source, case.target)]
    members = sorted(set().union(*ways))
    sizes = range(len(members) + 1)
    return next(size for size in sizes for cut in combinations(members, size) if all(way & set(cut) for way in ways))


def assert_is_minimum_cut(case: Case, cut: tuple[str, ...], parts: Callable[[Case, Way], Iterable[str]]) -> None:
    assert all(set(parts(case, way)) & set(cut) for way in all_ways(case.graph, case.source, case.target))
    assert len(set(cut)) == len(cut) == minimum_cut_size(case, parts)


def only_edges(_case: Case, way: Way) -> Way:
    return way


def assert_in_order(case: Case, ways: list[Way]) -> None:
    order = all_ways(case.graph, case.source, case.target)
    assert ways == sorted(ways, key=order.index)


def assert_cheapest_disjoint(
    case: Case, function: Callable[[Graph, str, str, int], list[Way]], parts: Callable[[Case, Way], Iterable[str]]
) -> None:
    """Checks ways against all sets of ways, and a refusal against all cuts."""
    expected = cheapest_set(case, case.count, parts)
    if expected is None:
        with pytest.raises(NoWaysError) as refused:
            function(*case)
        ways, cut = refused.value.found, refused.value.cut
        most = max(count for count in range(case.count) if cheapest_set(case, count, parts) is not None)
        assert_is_minimum_cut(case, cut, only_edges if parts is risks else parts)
        # Ways that share groups can cross a minimum cut of edges in different places.
        assert len(cut) == most or (parts is risks and len(cut) > most)
    else:
        ways, most = function(*case), case.count
    assert len(ways) == most
    assert total(case.graph, ways) == cheapest_set(case, most, parts)
    assert share_nothing(parts(case, way) for way in ways)
    assert_in_order(case, ways)


@given(cases(most=40))
def test_k_shortest_has_all_ways_in_order(case: Case) -> None:
    expected = all_ways(case.graph, case.source, case.target)
    if len(expected) >= case.count:
        assert k_shortest(*case) == expected[: case.count]
        return
    with pytest.raises(NoWaysError) as refused:
        k_shortest(*case)
    assert refused.value.found == expected
    assert_is_minimum_cut(case, refused.value.cut, only_edges)


@given(cases())
def test_edge_disjoint_ways_cost_the_least(case: Case) -> None:
    assert_cheapest_disjoint(case, edge_disjoint, only_edges)


@given(cases())
def test_node_disjoint_ways_cost_the_least(case: Case) -> None:
    assert_cheapest_disjoint(case, node_disjoint, inner_nodes)


@given(cases())
def test_group_disjoint_ways_cost_the_least(case: Case) -> None:
    assert_cheapest_disjoint(case, srlg_disjoint, risks)


@given(cases())
def test_maximally_disjoint_ways_share_the_least_and_then_cost_the_least(case: Case) -> None:
    def judged(ways: Iterable[Way]) -> tuple[int, int]:
        uses = Counter(edge for way in ways for edge in way)
        return sum(uses.values()) - len(uses), total(case.graph, ways)

    expected = all_ways(case.graph, case.source, case.target)
    if not expected:
        with pytest.raises(NoWaysError) as refused:
            maximally_disjoint(*case)
        assert (refused.value.found, refused.value.cut) == ([], ())
        return
    ways = maximally_disjoint(*case)
    assert set(ways) <= set(expected)
    assert judged(ways) == min(map(judged, combinations_with_replacement(expected, case.count)))
    assert_in_order(case, ways)


# A flow with a loop that costs nothing, and a route that passes an edge in both directions.
@example(6)
@example(529)
@given(st.integers(0, 10**9))
def test_disjoint_ways_in_larger_networks_cost_what_the_flows_of_networkx_cost(seed: int) -> None:
    draws = random.Random(seed)
    nodes = [f"s{index}" for index in range(draws.randint(6, 30))]
    dearest = draws.choice([0, 1, 3, 20])
    edges = [
        Edge(f"e{index}", tuple(draws.sample(nodes, 2)), draws.randint(0, dearest))
        for index in range(draws.randint(len(nodes), 3 * len(nodes)))
    ]
    case = Case(Graph(edges, nodes), nodes[0], nodes[1], draws.randint(2, 5))
    for function, units_of_nodes in ((edge_disjoint, case.count), (node_disjoint, 1)):
        try:
            ways, cut = function(*case), None
        except NoWaysError as error:
            ways, cut = error.found, error.cut
        assert (len(ways), total(case.graph, ways)) == flow_of_networkx(case, units_of_nodes)
        assert all(share_nothing([node] for node in case.graph.nodes_of(way, case.source)) for way in ways)
        assert cut is None or (len(cut) == len(ways) and separates(cut, case))


def separates(cut: tuple[str, ...], case: Case) -> bool:
    """Returns whether no way is left without the edges and nodes of a cut."""
    edges = case.graph.edges.values()
    try:
        shortest(case.graph.without({edge.id for edge in edges if {edge.id, *edge.ends} & set(cut)}), *case[1:3], 1)
    except NoWaysError:
        return True
    return False


def flow_of_networkx(case: Case, units_of_nodes: int) -> tuple[int, int]:
    """Returns the largest flow up to the count of a case, and its least cost. Nodes have a side in
    and a side out.
    """
    flow: Any = networkx.DiGraph()

    def add(start: object, end: object, units: int, cost: int) -> None:
        # A node in between, because the network has parallel edges.
        middle = len(flow)
        flow.add_edge(start, middle, capacity=units, weight=cost)
        flow.add_edge(middle, end, capacity=units, weight=0)

    for node in case.graph.nodes:
        is_end = node in (case.source, case.target)
        add((node, "in"), (node, "out"), case.count if is_end else units_of_nodes, 0)
    for edge in case.graph.edges.values():
        for near, far in (edge.ends, edge.ends[::-1]):
            add((near, "out"), (far, "in"), 1, edge.cost)
    add("source", (case.source, "out"), case.count, 0)
    found = networkx.max_flow_min_cost(flow, "source", (case.target, "in"))
    return sum(found["source"].values()), networkx.cost_of_flow(flow, found)


@given(cases())
def test_shortest_is_the_first_of_all_ways(case: Case) -> None:
    expected = all_ways(case.graph, case.source, case.target)
    if expected:
        assert shortest(*case) == expected[:1] * case.count
        return
    with pytest.raises(NoWaysError, match=f"^{case.source} to {case.target}: no route exists$") as refused:
        shortest(*case)
    assert (refused.value.found, refused.value.cut) == ([], ())


@given(cases(most=12))
def test_ecmp_takes_all_equal_ways_in_turn(case: Case) -> None:
    expected = all_ways(case.graph, case.source, case.target)
    equal = [way for way in expected if total(case.graph, [way]) == total(case.graph, expected[:1])]
    if not expected:
        with pytest.raises(NoWaysError):
            ecmp(*case)
        return
    assert ecmp(*case) == (equal * case.count)[: case.count]


@given(cases(most=12))
def test_weighted_ways_come_as_often_as_their_inverse_costs_say(case: Case) -> None:
    expected = all_ways(case.graph, case.source, case.target)
    if not expected:
        with pytest.raises(NoWaysError):
            weighted(*case)
        return
    # D'Hondt: the entries are the greatest of the quotients of each weight by 1, 2, 3 and so on.
    quotients = [
        (Fraction(total(case.graph, [way])) * taken, rank)
        for rank, way in enumerate(expected)
        for taken in range(1, case.count + 1)
    ]
    assert weighted(*case) == [expected[rank] for _, rank in sorted(quotients)[: case.count]]


@given(cases(), st.sampled_from(sorted(POLICIES)), st.randoms(use_true_random=False))
def test_the_order_of_edges_changes_nothing(case: Case, policy: str, order: random.Random) -> None:
    edges = list(case.graph.edges.values())
    order.shuffle(edges)
    shuffled = Graph([Edge(edge.id, edge.ends[::-1], edge.cost, edge.groups) for edge in edges], case.graph.nodes[::-1])

    def result(graph: Graph) -> object:
        try:
            return POLICIES[policy].function(graph, case.source, case.target, case.count)
        except NoWaysError as error:
            return str(error), error.found, error.cut

    assert result(shuffled) == result(case.graph)


@given(cases())
def test_explicit_finds_every_way_by_its_nodes(case: Case) -> None:
    for way in all_ways(case.graph, case.source, case.target):
        nodes = case.graph.nodes_of(way, case.source)
        found = explicit(case.graph, case.source, case.target, list(nodes))
        assert case.graph.nodes_of(found, case.source) == nodes
        assert total(case.graph, [found]) <= total(case.graph, [way])
        assert explicit(case.graph, case.source, case.target, list(nodes[1:-1])) == found or len(nodes) == 2


#: Ways from s to t over a, over b, and over a and b; c is a neighbour of s alone.
SQUARE = Graph(
    [
        Edge("sa", ("s", "a"), 1, frozenset({"tunnel"})),
        Edge("sb", ("s", "b"), 3, frozenset({"tunnel"})),
        Edge("ab", ("a", "b"), 1),
        Edge("at", ("a", "t"), 3),
        Edge("bt", ("b", "t"), 1),
        Edge("sc", ("s", "c"), 1),
    ],
    ["alone"],
)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (["s", "b", "c", "t"], "no link joins b and c; allowed: after b: a, s, t"),
        (["a", "b", "a"], "the route over s, a, b, a, t passes a twice; allowed: each node once"),
        (["s", "z"], "unknown node 'z'; allowed: a, alone, b, c, and 2 more"),
        ([], "no link joins s and t; allowed: after s: a, b, c"),
    ],
)
def test_explicit_says_why_it_refuses_a_way(nodes: list[str], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        explicit(SQUARE, "s", "t", nodes)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("policy", "target", "count", "message", "cut"),
    [
        (
            "edge_disjoint",
            "t",
            3,
            "s to t: 2 edge-disjoint routes found, 3 requested; the minimum cut is sa, sb",
            ("sa", "sb"),
        ),
        (
            "node_disjoint",
            "t",
            3,
            "s to t: 2 node-disjoint routes found, 3 requested; the minimum cut is a, b",
            ("a", "b"),
        ),
        ("edge_disjoint", "c", 2, "s to c: 1 edge-disjoint route found, 2 requested; the minimum cut is sc", ("sc",)),
        ("node_disjoint", "c", 2, "s to c: 1 node-disjoint route found, 2 requested; the minimum cut is sc", ("sc",)),
        (
            "srlg_disjoint",
            "t",
            2,
            "s to t: 1 group-disjoint route found, 2 requested; every route passes the group tunnel",
            ("sa", "sb"),
        ),
        ("srlg_disjoint", "c", 2, "s to c: 1 group-disjoint route found, 2 requested; the minimum cut is sc", ("sc",)),
        ("k_shortest", "t", 5, "s to t: 4 routes found, 5 requested; the minimum cut is sa, sb", ("sa", "sb")),
        ("maximally_disjoint", "alone", 2, "s to alone: no route exists", ()),
    ],
)
def test_a_refusal_names_what_was_found_and_the_cut(
    policy: str, target: str, count: int, message: str, cut: tuple[str, ...]
) -> None:
    with pytest.raises(NoWaysError) as refused:
        POLICIES[policy].function(SQUARE, "s", target, count)
    assert str(refused.value) == message
    assert refused.value.cut == cut


@pytest.mark.parametrize("policy", POLICIES)
def test_hosts_at_one_switch_need_no_edge(policy: str) -> None:
    assert POLICIES[policy].function(SQUARE, "s", "s", 2) == [(), ()]


@pytest.mark.parametrize("policy", POLICIES)
def test_an_unknown_node_is_refused(policy: str) -> None:
    with pytest.raises(SpecError, match="unknown node 'z'; allowed: a, alone, b, c, and 2 more"):
        POLICIES[policy].function(SQUARE, "s", "z", 1)


def test_given_weights_are_those_of_the_cheapest_ways() -> None:
    over_both, over_a = ("sa", "ab", "bt"), ("sa", "at")
    assert weighted(SQUARE, "s", "t", 4, [1, 3]) == [over_a, over_a, over_both, over_a]
    with pytest.raises(NoWaysError, match="4 routes found, 5 requested"):
        weighted(SQUARE, "s", "t", 1, [1] * 5)
    with pytest.raises(SpecError, match=r"found the weights \[1, 0\]; allowed: one or more whole numbers above 0"):
        weighted(SQUARE, "s", "t", 1, [1, 0])


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([Edge("x", ("a", "b"), 1), Edge("x", ("b", "c"), 1)], "edge x: the id occurs twice"),
        ([Edge("x", ("a", "a"), 1)], "edge x: both ends are a"),
        ([Edge("x", ("a", "b"), -1)], "edge x: found cost -1, allowed is 0 or more"),
    ],
)
def test_a_graph_refuses_edges_that_no_way_can_use(edges: list[Edge], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Graph(edges)


def test_the_example_of_the_documentation_runs() -> None:
    exec(next(block.text for block in blocks(ROOT / "docs" / "internals" / "paths.md") if block.language == "python"))


#: Each two of the three ways share a group, but no group is on all of them.
TRIPLE = Graph(
    [
        Edge("x", ("s", "t"), 1, frozenset({"tunnel", "bridge"})),
        Edge("y", ("s", "t"), 2, frozenset({"bridge", "channel"})),
        Edge("z", ("s", "t"), 3, frozenset({"channel", "tunnel"})),
    ]
)


def test_the_first_ways_that_share_no_group_need_not_be_the_cheapest() -> None:
    # The cheapest way is over a and b, and then only the direct one is left.
    edges = [*SQUARE.edges.values(), Edge("st", ("s", "t"), 100)]
    without_groups = Graph(Edge(edge.id, edge.ends, edge.cost) for edge in edges)
    assert srlg_disjoint(without_groups, "s", "t", 2) == [("sa", "at"), ("sb", "bt")]
    assert srlg_disjoint(Graph(edges), "s", "t", 2) == [("sa", "ab", "bt"), ("st",)]


def test_ways_that_share_groups_in_pairs_are_refused() -> None:
    with pytest.raises(NoWaysError) as refused:
        srlg_disjoint(TRIPLE, "s", "t", 2)
    assert str(refused.value) == "s to t: 1 group-disjoint route found, 2 requested; edge-disjoint routes share bridge"
    assert (refused.value.found, refused.value.cut) == ([("x",)], ("x", "y", "z"))


def test_a_network_too_large_for_a_proof_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mptcplab.paths.policies._MOST_EDGES_LOOKED_AT", len(TRIPLE.edges))
    with pytest.raises(NoWaysError, match="share bridge, and the network has too many routes to compare all"):
        srlg_disjoint(TRIPLE, "s", "t", 2)
