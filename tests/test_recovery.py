"""Tests the recovery strategies: their ways around failed links, and the refusal of ways with
loops.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation import ROOT, blocks
from hypothesis import given
from hypothesis import strategies as st
from mptcplab import consent
from mptcplab.errors import NotAllowed, SpecError
from mptcplab.paths import Edge, Graph, Way
from mptcplab.recovery import PORT_STATUS_NS, STRATEGIES, Detour, Network, PathKey, Reaction, strategy
from random_graphs import all_ways, graphs, total

PAGE = ROOT / "docs" / "internals" / "paths.md"
BULK = ("bulk", 0)
GRAPH = Graph(
    [
        Edge("uk-de", ("uk", "de"), 10),
        Edge("uk-nl", ("uk", "nl"), 5),
        Edge("nl-de", ("nl", "de"), 6),
        Edge("de-hr", ("de", "hr"), 9),
        Edge("nl-hr", ("nl", "hr"), 20),
    ]
)


def network(*down: str, way: Way = ("uk-de", "de-hr"), graph: Graph = GRAPH) -> Network:
    return Network(graph, {BULK: way}, {BULK: ("uk", "hr")}, frozenset(down))


def both(*way: str) -> Detour:
    return Detour(way, way[::-1])


# ---- the strategies ----


def test_preinstalled_detours_begin_at_the_node_before_the_failed_link_in_each_direction() -> None:
    assert strategy("ip_preinstalled").prepare(network()) == {
        (BULK, "uk-de"): both("uk-nl", "nl-de", "de-hr"),
        # There, packets have come to de; back, they are still at hr.
        (BULK, "de-hr"): Detour(("uk-de", "nl-de", "nl-hr"), ("nl-hr", "uk-nl")),
    }


def test_preinstalled_detours_take_effect_with_the_failure_and_end_with_the_repair() -> None:
    preinstalled = strategy("ip_preinstalled")
    prepared = preinstalled.prepare(network())
    assert preinstalled.failed(network("de-hr"), "de-hr") == Reaction({BULK: prepared[BULK, "de-hr"]}, 1_100_000)
    assert preinstalled.repaired(network(), "de-hr") == Reaction({BULK: both("uk-de", "de-hr")}, 1_100_000)


def test_a_link_whose_detour_would_turn_back_is_not_protected() -> None:
    line = Graph([Edge("s-a", ("s", "a"), 1), Edge("a-b", ("a", "b"), 1), Edge("s-b", ("s", "b"), 1)])
    turned = Network(line, {BULK: ("s-a", "a-b")}, {BULK: ("s", "b")}, frozenset({"a-b"}))
    assert strategy("ip_preinstalled").failed(turned, "a-b").detours == {}
    assert strategy("ip_reactive").failed(turned, "a-b").detours == {BULK: both("s-b")}


def test_two_detours_over_one_node_are_not_taken_one_after_the_other() -> None:
    edges = [("s", "m", 1), ("m", "t", 1), ("s", "x", 1), ("x", "m", 1), ("x", "t", 3)]
    graph = Graph(Edge(f"{near}-{far}", (near, far), cost) for near, far, cost in edges)
    start = Network(graph, {BULK: ("s-m", "m-t")}, {BULK: ("s", "t")})
    preinstalled = strategy("ip_preinstalled")
    detours = preinstalled.prepare(start)
    assert detours[BULK, "s-m"].there == ("s-x", "x-m", "m-t")
    assert detours[BULK, "m-t"].there == ("s-m", "x-m", "x-t")
    both_down = Network(graph, start.ways, start.ends, frozenset({"s-m", "m-t"}))
    assert preinstalled.failed(both_down, "m-t").detours == {}


def test_reactive_takes_the_shortest_way_without_failed_links_and_returns() -> None:
    reactive = strategy("ip_reactive")
    assert reactive.prepare(network()) == {}
    assert reactive.failed(network("de-hr"), "de-hr") == Reaction({BULK: both("uk-nl", "nl-hr")}, 5_300_000)
    assert reactive.repaired(network(), "de-hr") == Reaction({BULK: both("uk-de", "de-hr")}, 5_300_000)


@pytest.mark.parametrize("name", ["ip_reactive", "ip_preinstalled"])
def test_a_failure_elsewhere_and_one_without_a_way_around_change_nothing(name: str) -> None:
    assert strategy(name).failed(network("uk-nl"), "uk-nl").detours == {}
    assert strategy(name).failed(network("de-hr", "nl-hr"), "nl-hr").detours == {}


@pytest.mark.parametrize("name", ["ip_reactive", "ip_preinstalled"])
def test_a_second_failure_on_the_detour_moves_the_path_again(name: str) -> None:
    wide = Graph([*GRAPH.edges.values(), Edge("uk-bme", ("uk", "bme"), 30), Edge("bme-de", ("bme", "de"), 30)])
    after_one = strategy(name).failed(network("uk-de", graph=wide), "uk-de").detours[BULK]
    assert after_one.there[0] == "uk-nl"
    second = strategy(name).failed(network("uk-de", "uk-nl", graph=wide), "uk-nl").detours
    assert second == ({BULK: both("uk-bme", "bme-de", "de-hr")} if name == "ip_reactive" else {})


def test_optical_brings_the_link_back_and_reserves_a_way_around_each_link() -> None:
    optical = strategy("optical")
    assert optical.link_returns_after_ns == 50_000_000
    assert optical.reserves(network()) == {"uk-nl": 1, "nl-de": 2, "nl-hr": 1}
    assert optical.failed(network("de-hr"), "de-hr") == Reaction()


@pytest.mark.parametrize("name", ["none", "transport"])
def test_the_network_does_nothing(name: str) -> None:
    idle = strategy(name)
    assert (idle.link_returns_after_ns, idle.reserves(network()), idle.prepare(network())) == (None, {}, {})
    assert idle.failed(network("de-hr"), "de-hr") == idle.repaired(network(), "de-hr") == Reaction()


def test_the_times_of_the_models_are_parameters() -> None:
    assert strategy("optical", {"link_returns_after_ns": 10}).link_returns_after_ns == 10
    assert strategy("ip_reactive", {"install_ns": 20}).failed(network("de-hr"), "de-hr").after_ns == 20
    assert strategy("ip_preinstalled", {"forward_ns": 30}).failed(network("de-hr"), "de-hr").after_ns == 30
    # As measured from the failure to the first packet on the other way: by new entries, and by a
    # fast-failover group.
    assert PORT_STATUS_NS + strategy("ip_reactive").failed(network("de-hr"), "de-hr").after_ns == 7_800_000
    assert PORT_STATUS_NS + strategy("ip_preinstalled").failed(network("de-hr"), "de-hr").after_ns == 3_600_000


# ---- random networks ----


@st.composite
def failures(draw: st.DrawFn) -> tuple[Network, list[str]]:
    """Draws a network with up to three paths between the same ends, and links that fail or return
    in turn.
    """
    graph, source, target = draw(graphs())
    ways = all_ways(graph, source, target)
    chosen = draw(st.lists(st.sampled_from(ways), max_size=3)) if ways else []
    keys: list[PathKey] = [("bulk", index) for index in range(len(chosen))]
    turns = draw(st.lists(st.sampled_from(sorted(graph.edges)), max_size=6)) if graph.edges else []
    paths = dict(zip(keys, chosen, strict=True))
    return Network(graph, paths, dict.fromkeys(keys, (source, target))), turns


def played(name: str, start: Network, turns: list[str]) -> tuple[dict[PathKey, Detour], frozenset[str]]:
    """Returns the ways after links have failed and returned. Each answer is checked for loops and
    failed links.
    """
    recovery, down = strategy(name), frozenset[str]()
    ways = {key: both(*way) for key, way in start.ways.items()}
    for link in turns:
        down ^= {link}
        now = Network(start.graph, start.ways, start.ends, down)
        ways |= (recovery.failed if link in down else recovery.repaired)(now, link).detours
    return ways, down


@given(failures())
def test_reactive_paths_are_the_shortest_that_work(drawn: tuple[Network, list[str]]) -> None:
    start, turns = drawn
    ways, down = played("ip_reactive", start, turns)
    for key, way in ways.items():
        own = start.ways[key]
        working = [way for way in all_ways(start.graph, *start.ends[key]) if not down & set(way)]
        if working:
            assert way == both(*(own if own in working else working[0]))


@given(failures())
def test_preinstalled_paths_are_the_cheapest_local_detours(drawn: tuple[Network, list[str]]) -> None:
    start, _ = drawn
    prepared = strategy("ip_preinstalled").prepare(start)
    for key, way in start.ways.items():
        source, target = start.ends[key]
        for link in way:
            there = cheapest_local_detour(start.graph, source, target, way, link)
            back = cheapest_local_detour(start.graph, target, source, way[::-1], link)
            expected = None if there is None or back is None else Detour(there, back)
            assert prepared.get((key, link)) == expected


def cheapest_local_detour(graph: Graph, source: str, target: str, way: Way, link: str) -> Way | None:
    """Looks through all ways that leave `way` right before `link` and follow it from where they
    meet it again.
    """
    index, nodes = way.index(link), graph.nodes_of(way, source)

    def is_detour(other: Way) -> bool:
        if other[:index] != way[:index] or link in other:
            return False
        passed = graph.nodes_of(other, source)
        joined = next(place for place in range(index + 1, len(passed)) if passed[place] in nodes)
        return other[joined:] == way[nodes.index(passed[joined]) :]

    return next(filter(is_detour, all_ways(graph, source, target)), None)


@given(failures())
def test_preinstalled_paths_return_when_all_works(drawn: tuple[Network, list[str]]) -> None:
    start, turns = drawn
    _, down = played("ip_preinstalled", start, turns)
    ways, _ = played("ip_preinstalled", start, [*turns, *sorted(down)])
    assert ways == {key: both(*way) for key, way in start.ways.items()}


@given(failures())
def test_optical_reserves_the_cheapest_way_around_each_link(drawn: tuple[Network, list[str]]) -> None:
    start, _ = drawn
    around = []
    for way in start.ways.values():
        for link in way:
            others = [other for other in all_ways(start.graph, *start.graph.edges[link].ends) if link not in other]
            around += others[:1]
    reserved = strategy("optical").reserves(start)
    assert sum(start.graph.edges[link].cost * units for link, units in reserved.items()) == total(start.graph, around)


# ---- classes of the user ----

OWN = """\
from mptcplab.recovery import Detour, Reaction, Strategy

class Mine(Strategy):
    def __init__(self, after_ms=1):
        self.after_ms = after_ms

    def failed(self, network, link):
        ANSWER

class Stranger:
    pass
"""


def own(answer: str, name: str = "Mine", **parameters: object) -> Reaction:
    code = [{"file": "./mine.py", "source": OWN.replace("ANSWER", answer)}]
    return strategy(f"./mine.py:{name}", parameters, code).failed(network("de-hr"), "de-hr")


def test_a_class_of_the_user_answers() -> None:
    answer = 'return Reaction({("bulk", 0): Detour(("uk-nl", "nl-hr"), ("nl-hr", "uk-nl"))}, self.after_ms * 1_000_000)'
    assert own(answer, after_ms=2) == Reaction({BULK: both("uk-nl", "nl-hr")}, 2_000_000)


@pytest.mark.parametrize(
    ("there", "back", "message"),
    [
        (
            ("uk-de", "nl-de", "uk-nl", "uk-nl", "nl-hr"),
            ("nl-hr", "uk-nl"),
            "there: uk-de nl-de uk-nl uk-nl nl-hr: passes uk twice; allowed: a way without a loop",
        ),
        (
            ("uk-nl", "nl-hr"),
            ("nl-hr", "nl-de", "uk-de", "uk-nl", "uk-nl"),
            "back: nl-hr nl-de uk-de uk-nl uk-nl: passes nl twice; allowed: a way without a loop",
        ),
        (("uk-nl", "nl-de"), ("nl-hr", "uk-nl"), "there: uk-nl nl-de: ends at de; allowed: a way to hr"),
        (
            ("uk-nl", "de-hr"),
            ("nl-hr", "uk-nl"),
            "there: uk-nl de-hr: edge de-hr: does not begin at nl; allowed: links that follow each other from uk",
        ),
        (
            ("uk-de", "de-hr"),
            ("nl-hr", "uk-nl"),
            "there: uk-de de-hr: de-hr is down; allowed: a way over links that work",
        ),
        (("uk-fr",), (), "there: unknown link 'uk-fr'; allowed: uk-de, uk-nl, nl-de, de-hr, and 1 more"),
        (["uk-nl"], (), "there: found ['uk-nl']; allowed: a tuple of links"),
    ],
)
def test_a_way_with_a_loop_or_without_an_end_is_refused(there: object, back: object, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        own(f'return Reaction({{("bulk", 0): Detour({there!r}, {back!r})}})')
    assert str(refused.value) == f"./mine.py:Mine: failed: de-hr: flows.bulk path 0: {message}"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("return 5", "./mine.py:Mine: failed: de-hr: the answer is 5; allowed: a Reaction with a mapping"),
        (
            "return Reaction({}, -1)",
            "./mine.py:Mine: failed: de-hr: after_ns is -1; allowed: a whole number from 0",
        ),
        (
            'return Reaction({("bulk", 1): None})',
            "./mine.py:Mine: failed: de-hr: unknown path ('bulk', 1); allowed: ('bulk', 0)",
        ),
        (
            'return Reaction({("bulk", 0): None})',
            "./mine.py:Mine: failed: de-hr: flows.bulk path 0: the answer is None; allowed: a Detour",
        ),
        ("return 1 / 0", "./mine.py:Mine: failed: ./mine.py, line 8: ZeroDivisionError: division by zero"),
    ],
)
def test_a_wrong_answer_names_the_hook_and_what_is_allowed(answer: str, message: str) -> None:
    with pytest.raises(SpecError) as refused:
        own(answer)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("Other", {}, "control.recovery: ./mine.py:Other: the file has no class Other; allowed: Mine, Stranger"),
        (
            "Stranger",
            {},
            "control.recovery: ./mine.py:Stranger inherits from something else; allowed: a class that inherits from mptcplab.recovery.Strategy",
        ),
        (
            "Mine",
            {"speed": 1},
            "control.recovery: ./mine.py:Mine: got an unexpected keyword argument 'speed'; allowed: Mine(after_ms=1)",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(name: str, parameters: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError) as refused:
        own("return Reaction()", name, **parameters)
    assert str(refused.value) == message


def test_the_class_of_the_documentation_answers() -> None:
    source = next(block.text for block in blocks(PAGE) if block.title == "mine.py")
    documented = strategy("./mine.py:Second", {}, [{"file": "./mine.py", "source": source}])
    over_nl = network("uk-de", way=("uk-de", "nl-de", "nl-hr"))
    assert documented.failed(over_nl, "uk-de") == Reaction({BULK: both("uk-nl", "nl-hr")}, 5_000_000)
    assert documented.repaired(network(), "uk-de") == Reaction({BULK: both("uk-de", "de-hr")})


def test_an_unknown_name_and_a_wrong_time_are_refused() -> None:
    with pytest.raises(SpecError) as refused:
        strategy("frr")
    names = "none, optical, ip_preinstalled, ip_reactive, transport, ./FILE.py:CLASS"
    assert str(refused.value) == f"control.recovery: unknown name 'frr'; allowed: {names}"
    assert list(STRATEGIES) == names.split(", ")[:-1]
    with pytest.raises(SpecError, match=r"control.recovery: optical.link_returns_after_ns: found -1; allowed: a whole"):
        strategy("optical", {"link_returns_after_ns": -1})


def test_a_class_is_not_loaded_without_consent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(consent.ALLOW)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    trace = tmp_path / "loaded"
    code = [{"file": "./mine.py", "source": f"from pathlib import Path\nPath({str(trace)!r}).touch()\n"}]
    with pytest.raises(NotAllowed, match=r"\./mine\.py: classes in Python \(2 lines\).*--allow-programs"):
        strategy("./mine.py:Mine", {}, code)
    assert not trace.exists()
