"""Tests of subflows: each gets its path when it opens, and keeps it."""

from __future__ import annotations

from typing import Any

from controlled import experiment, hops, reversed_hops
from forwarding import over
from frames import ACK, SYN, capable_keys, capable_syn, join_syn, tcp
from mptcplab.controller.connections import Pin
from mptcplab.controller.network import Network
from mptcplab.controller.packets import Packet, read, token_of
from mptcplab.controller.state import State
from mptcplab.recovery import Strategy

OPENER, ACCEPTOR = "10.0.0.1", "10.0.0.2"
DIRECT, OVER_S3, OVER_S4 = (1, 2), (1, 3, 2), (1, 4, 2)


def state_of(**given: Any) -> State:
    return State(Network(experiment(4, **{"install": "reactive", **given})), Strategy())


def segment(
    ports: tuple[int, int], flags: int, options: bytes = b"", ends: tuple[str, str] = (OPENER, ACCEPTOR)
) -> Packet:
    packet = read(tcp(*ends, ports, flags, options))
    assert packet is not None
    return packet


def opened(state: State, packet: Packet) -> Pin:
    found = state.open(packet)
    assert found is not None
    return found[0]


def path_of(state: State, packet: Packet) -> int:
    return opened(state, packet).key[1]


def connect(state: State, source_port: int, keys: tuple[bytes, bytes], port: int = 5001) -> Pin:
    """Opens a connection, and shows the controller the third segment of its handshake."""
    pin = opened(state, segment((source_port, port), SYN, capable_syn()))
    assert state.connections.learn(pin, segment((source_port, port), ACK, capable_keys(*keys)))
    return pin


def test_subflows_between_the_same_addresses_take_the_paths_in_order() -> None:
    state = state_of(ways=(DIRECT, OVER_S3, OVER_S4))
    first = connect(state, 40000, (b"A" * 8, b"B" * 8))
    joins = [path_of(state, segment((port, 5001), SYN, join_syn(token_of(b"B" * 8)))) for port in (40001, 40002, 40003)]
    assert (first.key, joins) == (("f0", 0), [1, 2, 0])


def test_the_paths_of_one_connection_do_not_count_for_another() -> None:
    state = state_of(ways=(DIRECT, OVER_S3))
    connect(state, 40000, (b"A" * 8, b"B" * 8))
    connect(state, 41000, (b"C" * 8, b"D" * 8))
    assert path_of(state, segment((40001, 5001), SYN, join_syn(token_of(b"B" * 8)))) == 1
    assert path_of(state, segment((41001, 5001), SYN, join_syn(token_of(b"D" * 8)))) == 1


def test_the_acceptor_joins_by_the_key_of_the_opener() -> None:
    state = state_of(ways=(DIRECT, OVER_S3))
    connect(state, 40000, (b"A" * 8, b"B" * 8))
    join = segment((42000, 43000), SYN, join_syn(token_of(b"A" * 8)), (ACCEPTOR, OPENER))
    pin = opened(state, join)
    assert pin.key == ("f0", 1)
    assert [stream.side for stream in pin.streams] == ["back", "there"]


def test_other_interfaces_take_their_own_path_or_the_next_unused_one() -> None:
    state = state_of(attach=2, ways=(DIRECT, OVER_S3))
    connect(state, 40000, (b"A" * 8, b"B" * 8))
    crossed = segment((40001, 5001), SYN, join_syn(token_of(b"B" * 8)), ("10.0.1.1", ACCEPTOR))
    pin = opened(state, crossed)
    assert pin.key == ("f0", 1)
    links = over(state.network, state.tables, pin.streams[0].match, "h1.eth1")
    assert links == ["h1-1", "s1-s3", "s2-s3", "h2-0"]
    back = over(state.network, state.tables, pin.streams[1].match, "h2.eth0")
    assert back == ["h2-0", "s2-s3", "s1-s3", "h1-1"]


def test_flows_are_told_apart_by_the_port_of_the_first_subflow() -> None:
    state = state_of(flows=({}, {"ways": (OVER_S3, OVER_S4)}))
    second = connect(state, 40000, (b"A" * 8, b"B" * 8), port=5002)
    assert second.key == ("f1", 0)
    assert opened(state, segment((40001, 5002), SYN, join_syn(token_of(b"B" * 8)))).key == ("f1", 1)


def test_plain_tcp_takes_the_path_of_its_addresses() -> None:
    state = state_of(ways=(OVER_S3, DIRECT), flows=({"transport": "tcp"},))
    assert path_of(state, segment((40000, 5001), SYN)) == 0
    assert path_of(state, segment((40001, 5001), SYN)) == 0
    assert path_of(state, segment((40002, 9999), SYN)) == 0


def test_an_unknown_token_counts_as_a_connection_of_its_flow() -> None:
    state = state_of(ways=(DIRECT, OVER_S3))
    assert path_of(state, segment((40001, 5001), SYN, join_syn(0xDEADBEEF))) == 0


def test_addresses_of_no_host_are_not_forwarded() -> None:
    state = state_of()
    connect(state, 40000, (b"A" * 8, b"B" * 8))
    join = join_syn(token_of(b"B" * 8))
    for ends in (("192.0.2.1", ACCEPTOR), (OPENER, "192.0.2.1")):
        assert state.open(segment((40001, 5001), SYN, b"", ends)) is None
        assert state.open(segment((40001, 5001), SYN, join, ends)) is None


def test_copies_of_the_openers_segments_end_with_the_keys_or_after_some_without() -> None:
    state = state_of()
    pin = opened(state, segment((40000, 5001), SYN, capable_syn()))
    learned = [state.connections.learn(pin, segment((40000, 5001), ACK)) for _ in range(8)]
    assert learned == [False] * 7 + [True]


def test_a_subflow_moves_with_its_path() -> None:
    state = state_of(ways=(DIRECT,))
    pin = connect(state, 40000, (b"A" * 8, b"B" * 8))
    path = state.network.experiment["flows"][0]["paths"][0]["hops"]
    there = [path[0], *hops(*OVER_S4), path[-1]]
    state.ways.reroute(("f0", 0), there, reversed_hops(there))
    state.renew()
    assert over(state.network, state.tables, pin.streams[0].match, "h1.eth0") == ["h1-0", "s1-s4", "s2-s4", "h2-0"]


def test_a_new_controller_knows_the_subflows_of_the_tables() -> None:
    given = {"ways": (DIRECT, OVER_S3)}
    state = state_of(**given)
    connect(state, 40000, (b"A" * 8, b"B" * 8))
    opened(state, segment((42000, 43000), SYN, join_syn(token_of(b"A" * 8)), (ACCEPTOR, OPENER)))
    again = state_of(**given)
    again.adopt(state.tables, ())
    pinned = {entry.key for table in again.tables.values() for entry in table.entries.values() if entry.priority == 300}
    assert len(pinned) == 4
    assert {pin.key for pin in again.connections.pins()} == {("f0", 0), ("f0", 1)}


def test_proactive_entries_hand_over_openings_where_addresses_do_not_tell_paths_apart() -> None:
    state = state_of(install="proactive", ways=(DIRECT, OVER_S3))
    openings = {
        switch: [one for one in table.entries.values() if one.match.opening] for switch, table in state.tables.items()
    }
    assert {switch: len(found) for switch, found in openings.items()} == {"s1": 2, "s2": 2, "s3": 0, "s4": 0}
    assert (
        state_of(install="proactive", attach=2, ways=(DIRECT, OVER_S3))
        .tables["s1"]
        .entries.keys()
        .isdisjoint(one.key for one in openings["s1"])
    )
