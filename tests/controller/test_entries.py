"""Tests of the computed tables: packets of each path arrive over its links, also around failed
ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from itertools import combinations, pairwise
from typing import Any

import pytest
from controlled import experiment, recovery
from forwarding import Lost, over
from hypothesis import given, settings
from hypothesis import strategies as st
from mptcplab.controller.network import Network
from mptcplab.controller.state import State
from mptcplab.controller.streams import pair_match
from mptcplab.controller.tables import TCP, UDP, Match
from mptcplab.errors import SpecError
from mptcplab.paths import NoWaysError, shortest
from mptcplab.recovery import Detour, PathKey, Strategy, strategy_of
from mptcplab.recovery import Network as RecoveryNetwork
from mptcplab.recovery.ip_preinstalled import IpPreinstalled

FIRST = pair_match("10.0.0.1", "10.0.0.2")


def state_under(described: dict[str, Any]) -> State:
    return State(Network(described), strategy_of(described, described["control"]["recovery"]["strategy"]))


def state_of(**given: object) -> State:
    described = experiment(**given)  # type: ignore[arg-type]
    return state_under(described)


def links(state: State, packet: Match, interface: str = "h1.eth0", down: Collection[str] = ()) -> list[str]:
    return over(state.network, state.tables, packet, interface, down)


def segment(source: str, destination: str, source_port: int, destination_port: int, protocol: int = TCP) -> Match:
    match = pair_match(source, destination)
    return Match(match.ethernet_type, source, destination, protocol, source_port, destination_port)


def test_both_families_take_the_links_of_their_path_both_ways() -> None:
    state = state_of(switches=4, attach=2, ways=((1, 2), (1, 3, 4, 2)))
    assert links(state, FIRST) == ["h1-0", "s1-s2", "h2-0"]
    assert links(state, pair_match("10.0.0.2", "10.0.0.1"), "h2.eth0") == ["h2-0", "s1-s2", "h1-0"]
    assert links(state, pair_match("fd00::1:1", "fd00::1:2"), "h1.eth1") == ["h1-1", "s1-s3", "s3-s4", "s2-s4", "h2-1"]
    back = links(state, pair_match("fd00::1:2", "fd00::1:1"), "h2.eth1")
    assert back == ["h2-1", "s2-s4", "s3-s4", "s1-s3", "h1-1"]


def test_addresses_without_a_path_are_forwarded_nowhere() -> None:
    state = state_of(attach=2, ways=((1, 2), (1, 3, 2)))
    with pytest.raises(Lost):
        links(state, pair_match("10.0.0.1", "10.0.1.2"))


def test_flows_between_the_same_addresses_are_told_apart_by_their_ports() -> None:
    state = state_of(flows=({}, {"ways": ((1, 3, 2),), "transport": "udp"}, {"ways": ((1, 3, 2),)}, {}))
    assert links(state, segment("10.0.0.1", "10.0.0.2", 40000, 5001)) == ["h1-0", "s1-s2", "h2-0"]
    assert links(state, segment("10.0.0.1", "10.0.0.2", 40000, 5002, UDP)) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]
    assert links(state, segment("10.0.0.1", "10.0.0.2", 40000, 5003)) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]
    back = segment("10.0.0.2", "10.0.0.1", 5003, 40000)
    assert links(state, back, "h2.eth0") == ["h2-0", "s2-s3", "s1-s3", "h1-0"]
    assert links(state, segment("10.0.0.1", "10.0.0.2", 40000, 5004)) == ["h1-0", "s1-s2", "h2-0"]
    assert {entry.priority for entry in state.tables["s1"].entries.values()} == {100, 200}


def test_a_flow_that_the_receiver_opens_has_its_port_at_the_sender() -> None:
    state = state_of(flows=({}, {"ways": ((1, 3, 2),), "opened_by": "to"}))
    assert links(state, segment("10.0.0.1", "10.0.0.2", 5002, 40000)) == ["h1-0", "s1-s3", "s2-s3", "h2-0"]


def test_a_command_cannot_be_told_apart_from_another_flow() -> None:
    with pytest.raises(SpecError, match=r"^flows.f1: a command can use any port"):
        state_of(flows=({}, {"ways": ((1, 3, 2),), "app": {"kind": "command", "argv": []}}))


def test_a_way_that_passes_a_switch_twice_is_refused() -> None:
    with pytest.raises(SpecError, match=r"^flows.f0.paths.0: the route passes s1 twice; allowed: each switch once$"):
        state_of(switches=4, ways=((1, 3, 4, 1, 3, 2),))


def test_a_torn_way_is_refused() -> None:
    described = experiment(4, ways=((1, 3, 2),))
    del described["flows"][0]["paths"][0]["hops"][1]
    with pytest.raises(SpecError, match=r"^flows.f0.paths.0: h1-0 ends at s1, and s2-s3 begins elsewhere"):
        state_under(described)


def test_links_that_routers_choose_are_refused() -> None:
    described = experiment()
    described["flows"][0]["paths"][0]["routed"] = True
    with pytest.raises(SpecError, match=r"^flows.f0: routers choose the links of this path"):
        state_under(described)


def test_addresses_behind_a_nat_have_entries_too() -> None:
    described = experiment()
    nat = {"kind": "nat", "ipv4": "198.51.100.1", "ipv6": "2001:db8::1"}
    described["middleboxes"] = [{"at": "h1.eth0", "direction": "both", "element": nat}]
    state = state_under(described)
    assert links(state, pair_match("198.51.100.1", "10.0.0.2")) == ["h1-0", "s1-s2", "h2-0"]
    assert links(state, pair_match("10.0.0.2", "198.51.100.1"), "h2.eth0") == ["h2-0", "s1-s2", "h1-0"]


def test_the_port_of_a_flow_that_shares_all_links_needs_no_entry() -> None:
    state = state_of(flows=({}, {}))
    assert {entry.priority for entry in state.tables["s1"].entries.values()} == {100}


# ---- detours ----


def test_a_detour_is_left_where_the_path_goes_on_so_the_next_failure_is_met_as_well() -> None:
    around = [(1, 3), (3, 4), (2, 4), (1, 5), (3, 5), (3, 6), (4, 6)]
    state = state_of(switches=6, links=around, ways=((1, 3, 4, 2),), recovery=recovery("ip_preinstalled"))
    assert links(state, FIRST, down={"s1-s3"}) == ["h1-0", "s1-s5", "s3-s5", "s3-s4", "s2-s4", "h2-0"]
    both = ["h1-0", "s1-s5", "s3-s5", "s3-s6", "s4-s6", "s2-s4", "h2-0"]
    assert links(state, FIRST, down={"s1-s3", "s3-s4"}) == both


def test_failures_that_are_detected_by_order_leave_switches_without_groups() -> None:
    state = state_of(recovery=recovery("ip_preinstalled", detect_ns=1))
    assert not any(table.groups for table in state.tables.values())


class FromTheStart(Strategy):
    """Detours that part from the path wherever the shortest way does, so packets have to come back
    over the path.
    """

    def prepare(self, network: RecoveryNetwork) -> Mapping[tuple[PathKey, str], Detour]:
        found = {}
        for key, way in network.ways.items():
            for link in way:
                with suppress(NoWaysError):
                    [around] = shortest(network.graph.without({link}), *network.ends[key], 1)
                    found[key, link] = Detour(around, around[::-1])
        return found


def test_packets_come_back_over_the_path_to_where_a_detour_begins() -> None:
    described = experiment(4, links=[(1, 3), (3, 4), (2, 4), (1, 2)], ways=((1, 3, 4, 2),))
    state = State(Network(described), FromTheStart())
    assert links(state, FIRST, down={"s2-s4"}) == ["h1-0", "s1-s3", "s3-s4", "s3-s4", "s1-s3", "s1-s2", "h2-0"]


def test_a_detour_can_begin_with_the_link_by_which_the_packets_came() -> None:
    around = [(1, 3), (1, 4), (2, 3), (2, 5), (3, 4), (4, 5)]
    described = experiment(5, links=around, ways=((1, 3, 4, 5, 2),))
    described["control"]["costs"][5]["cost"] = 9  # the detour goes by s3, not by s5
    state = State(Network(described), FromTheStart())
    back = links(state, pair_match("10.0.0.2", "10.0.0.1"), "h2.eth0", {"s1-s3"})
    assert back == ["h2-0", "s2-s5", "s4-s5", "s3-s4", "s3-s4", "s1-s4", "h1-0"]


@st.composite
def networks(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]], list[int]]:
    """Draws a connected network, and a way from its first switch to the second."""
    count = draw(st.integers(3, 6))
    between = draw(st.permutations(range(3, count + 1)))
    way = [1, *between[: draw(st.integers(0, len(between)))], 2]
    further = draw(st.sets(st.sampled_from(list(combinations(range(1, count + 1), 2)))))
    needed = {tuple(sorted(ends)) for ends in (*pairwise((1, *between, 2)), *pairwise(way))}
    return count, sorted(needed | further), way  # type: ignore[arg-type]


@pytest.mark.parametrize("strategy", [IpPreinstalled(), FromTheStart()])
@given(networks(), st.data())
@settings(deadline=None)
def test_packets_of_a_protected_path_survive_the_failure_of_any_link(
    strategy: Strategy, network: tuple[int, list[tuple[int, int]], list[int]], data: st.DataObject
) -> None:
    count, between, way = network
    described = experiment(count, links=between, ways=(way,))
    state = State(Network(described), strategy)
    a, b = data.draw(st.sampled_from(list(pairwise(way))))
    failed = f"s{min(a, b)}-s{max(a, b)}"
    for packet, interface in ((FIRST, "h1.eth0"), (pair_match("10.0.0.2", "10.0.0.1"), "h2.eth0")):
        if ("f0", 0) in state.protected(failed):
            assert failed not in links(state, packet, interface, {failed})
        else:
            with pytest.raises(Lost):
                links(state, packet, interface, {failed})
