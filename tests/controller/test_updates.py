"""Tests of changes of tables: on the way from one state to another, no packet
is lost or circles.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace

import pytest
from controlled import experiment, hops, reversed_hops
from forwarding import over
from hypothesis import given, settings
from hypothesis import strategies as st
from mptcplab.controller.network import Network
from mptcplab.controller.state import State
from mptcplab.controller.streams import pair_match
from mptcplab.controller.tables import TCP, Bucket, Group, Output, Table
from mptcplab.controller.updates import Change, PutEntry, PutGroup, RemoveEntry, RemoveGroup, Round, difference
from mptcplab.recovery import Strategy
from mptcplab.recovery.ip_preinstalled import IpPreinstalled

THERE, BACK = pair_match("10.0.0.1", "10.0.0.2"), pair_match("10.0.0.2", "10.0.0.1")
#: Packets of the flow that moves, and of one that stays.
PACKETS = (
    (THERE, "h1.eth0"),
    (BACK, "h2.eth0"),
    (replace(THERE, protocol=TCP, source_port=40000, destination_port=5002), "h1.eth0"),
    (replace(BACK, protocol=TCP, source_port=5002, destination_port=40000), "h2.eth0"),
)
SWITCHES = 6


def apply(table: Table, change: Change) -> None:
    match change:
        case PutEntry(entry):
            table.add(entry)
        case RemoveEntry(entry):
            del table.entries[entry.key]
        case PutGroup(group, is_there):
            assert is_there == (group.id in table.groups)
            table.groups[group.id] = group
        case RemoveGroup(group):
            del table.groups[group.id]


def tables_between(before: dict[str, Table], rounds: list[Round], order: random.Random) -> Iterator[dict[str, Table]]:
    """Yields the tables after each switch has made its changes, in a random
    order within a round.
    """
    for each in rounds:
        for switch in order.sample(sorted(each), len(each)):
            for change in each[switch]:
                apply(before[switch], change)
            yield before


ways = st.permutations(range(3, SWITCHES + 1)).flatmap(
    lambda between: st.integers(0, len(between)).map(lambda count: (1, *between[:count], 2))
)


@pytest.mark.parametrize("strategy", [Strategy(), IpPreinstalled()])
@given(ways, ways, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_a_path_moves_without_a_lost_packet(
    strategy: Strategy, old: tuple[int, ...], new: tuple[int, ...], order: random.Random
) -> None:
    described = experiment(SWITCHES, ways=(old,), flows=({}, {}))
    state = State(Network(described), strategy)
    path = described["flows"][0]["paths"][0]["hops"]
    there = [path[0], *hops(*new), path[-1]]
    before = deepcopy(dict(state.tables))
    state.ways.reroute(("f0", 0), there, reversed_hops(there))
    state.prepare_anew()
    rounds = state.renew()
    for tables in tables_between(before, rounds, order):
        for packet, interface in PACKETS:
            over(state.network, tables, packet, interface)
    assert before == state.tables
    for (packet, interface), way in zip(PACKETS, (new, new[::-1], old, old[::-1]), strict=True):
        assert over(state.network, state.tables, packet, interface)[1:-1] == [hop["link"] for hop in hops(*way)]


def test_what_is_right_is_not_touched() -> None:
    state = State(Network(experiment(4)), Strategy())
    table = state.tables["s1"]
    assert difference("s1", deepcopy(table), table) == []
    torn = deepcopy(table)
    gone = next(iter(torn.entries))
    del torn.entries[gone]
    assert difference("s1", torn, table) == [PutEntry(table.entries[gone])]


def test_what_is_not_wanted_goes_last() -> None:
    state = State(Network(experiment(4)), Strategy())
    found = Table(groups={7: Group(7, (Bucket(1, (Output(1),)),))})
    changes = difference("s1", found, state.tables["s1"])
    assert [type(change) for change in changes] == [PutEntry] * 4 + [RemoveGroup]
