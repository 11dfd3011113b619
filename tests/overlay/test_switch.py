"""Tests of the switches of sites: where their entries lead a packet, and how a switch gets them, with
os-ken at both ends of the connection.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

pytest.importorskip("os_ken")
from mptcplab.controller import openflow
from mptcplab.controller.tables import (
    COOKIE,
    IN_PORT,
    IPV4,
    LOCAL,
    DecrementTtl,
    Match,
    Output,
    SetEthernetDestination,
    SetEthernetSource,
    Table,
)
from mptcplab.overlay.addresses import inside, mac
from mptcplab.overlay.entries import PORT_OF_MESH, PORT_OF_TUNNELS
from mptcplab.overlay.passages import passages
from mptcplab.overlay.switch import Datapath, Switch
from mptcplab.overlay.switch_entries import table
from os_ken.ofproto import ofproto_parser
from os_ken.ofproto import ofproto_v1_3 as protocol

HOST, OTHER_HOST, SERVER = "198.19.128.1", "198.19.128.2", "192.0.2.1"
SITES = range(4)


def tables_of(*routes: tuple[str, list[int]]) -> list[Table]:
    """Returns the tables of all sites, for routes that begin at these addresses of hosts."""
    parts = [passages(number, IPv4Address(address), route) for number, (address, route) in enumerate(routes)]
    others = [[other for other in SITES if other != site] for site in SITES]
    return [table(site, others[site], [part[site] for part in parts if site in part]) for site in SITES]


def way(tables: list[Table], packet: Match, site: int) -> tuple[list[int], int | None, int]:
    """Returns the sites that a packet passes, the port by which it leaves the last one, or None if that
    has no entry, and how often its time to live is decremented.
    """
    passed, decremented, target = [site], 0, ""
    while (entry := tables[site].look_up(packet)) is not None:
        assert len(passed) <= 2 * len(SITES), "the packet circles"
        decremented += DecrementTtl() in entry.actions
        target = next((one.address for one in entry.actions if isinstance(one, SetEthernetDestination)), target)
        [port] = [one.port for one in entry.actions if isinstance(one, Output)]
        assert port != packet.in_port, "a switch sends nothing back by the port of its arrival"
        if port in (LOCAL, PORT_OF_TUNNELS):
            # The kernel takes only what is for it.
            assert target == mac(site)
            return passed, port, decremented
        assert (port == IN_PORT) == (packet.in_port == PORT_OF_MESH)
        # The kernel's own frames have that source already.
        assert packet.in_port == LOCAL or SetEthernetSource(mac(site)) in entry.actions
        packet = replace(packet, in_port=PORT_OF_MESH, ethernet_source=mac(site))
        [site] = [one for one in SITES if mac(one) == target]
        passed.append(site)
    return passed, None, decremented


def packet(source: object, destination: object, port: int) -> Match:
    return Match(IPV4, str(source), str(destination), in_port=port)


@pytest.mark.parametrize("route", [[0], [0, 1], [0, 2, 1], [3, 0, 2, 1]])
def test_packets_of_a_host_follow_its_route_both_ways(route: list[int]) -> None:
    tables = tables_of((HOST, route))
    there = way(tables, packet(HOST, SERVER, PORT_OF_TUNNELS), route[0])
    assert there == (route, LOCAL, len(route) - 1)
    back = way(tables, packet(SERVER, HOST, LOCAL), route[-1])
    assert back == (route[::-1], PORT_OF_TUNNELS, len(route) - 1)
    # The exit itself answers echoes of the host.
    assert way(tables, packet(inside(route[-1]), HOST, LOCAL), route[-1]) == back


def test_packets_without_an_entry_go_nowhere() -> None:
    tables = tables_of((HOST, [0, 2, 1]))
    for site, wrong in (
        (0, packet(OTHER_HOST, SERVER, PORT_OF_TUNNELS)),
        (3, packet(HOST, SERVER, PORT_OF_TUNNELS)),
        (2, packet(HOST, SERVER, PORT_OF_TUNNELS)),
        (2, replace(packet(HOST, SERVER, PORT_OF_MESH), ethernet_source=mac(3))),
        (1, packet(HOST, inside(0), LOCAL)),
        (1, replace(packet(SERVER, HOST, PORT_OF_MESH), ethernet_source=mac(2))),
    ):
        assert way(tables, wrong, site) == ([site], None, 0)


@pytest.mark.parametrize("routes", [([0, 1], [0, 1]), ([0, 2, 1], [2, 1]), ([2, 1], [0, 2, 1]), ([0, 1], [1])])
def test_hosts_reach_each_other_through_their_exit(routes: tuple[list[int], list[int]]) -> None:
    tables = tables_of((HOST, routes[0]), (OTHER_HOST, routes[1]))
    assert way(tables, packet(HOST, OTHER_HOST, PORT_OF_TUNNELS), routes[0][0])[:2] == (routes[0], LOCAL)
    assert way(tables, packet(HOST, OTHER_HOST, LOCAL), routes[1][-1])[:2] == (routes[1][::-1], PORT_OF_TUNNELS)


def test_sites_send_echoes_to_each_other() -> None:
    tables = tables_of()
    for near in SITES:
        for far in SITES:
            if near != far:
                assert way(tables, packet(inside(near), inside(far), LOCAL), near) == ([near, far], LOCAL, 0)


class Peer:
    """The end of the connection at the switch. It keeps the entries that it is given, as rows of the
    reply to a request for them, and splits replies into parts.
    """

    def __init__(self) -> None:
        self.switch = Switch("site", self._take)
        self.rows: dict[bytes, bytes] = {}
        self.commands: list[int] = []
        self._number = 0
        self._waiting = b""
        self._datapath = Datapath()

    def connect(self) -> None:
        self._number += 1
        self.switch.receive(self._number, b"")
        self._answer()

    def count(self) -> int | None:
        self.switch.count_entries()
        self._answer()
        return self.switch.entries

    def table(self) -> Table:
        """Returns what the switch has."""
        body = self._reply(protocol.OFPMP_FLOW, b"".join(self.rows.values()), 0, 0)
        version, kind, length, number = ofproto_parser.header(body)
        read = ofproto_parser.msg(self._datapath, version, kind, length, number, body)
        return openflow.read_table(read.body, ())

    def _take(self, connection: int, data: bytes) -> None:
        assert connection == self._number
        while data:
            version, kind, length, number = ofproto_parser.header(data)
            assert version == protocol.OFP_VERSION
            self._obey(kind, number, data[:length])
            data = data[length:]

    def _obey(self, kind: int, number: int, data: bytes) -> None:
        match kind:
            case protocol.OFPT_HELLO:
                self._say(protocol.OFPT_HELLO, number, b"")
            case protocol.OFPT_FEATURES_REQUEST:
                self._say(protocol.OFPT_FEATURES_REPLY, number, struct.pack("!QIBBxxII", 1, 0, 1, 0, 0, 0))
            case protocol.OFPT_ECHO_REPLY:
                self.commands.append(number)
            case protocol.OFPT_FLOW_MOD:
                self._change(ofproto_parser.msg(self._datapath, protocol.OFP_VERSION, kind, len(data), number, data))
            case protocol.OFPT_MULTIPART_REQUEST:
                self._tell(struct.unpack_from("!H", data, 8)[0], number)

    def _change(self, change: Any) -> None:
        assert change.cookie == COOKIE
        self.commands.append(change.command)
        key = struct.pack("!H", change.priority) + bytes(change.buf[48 : 48 + change.match.length])
        if change.command == protocol.OFPFC_DELETE_STRICT:
            del self.rows[key]
            return
        rest = bytes(change.buf[48:])
        head = (48 + len(rest), 0, 0, 0, change.priority, 0, 0, 0, COOKIE, 0, 0)
        self.rows[key] = struct.pack(protocol.OFP_FLOW_STATS_0_PACK_STR, *head) + rest

    def _tell(self, kind: int, number: int) -> None:
        if kind == protocol.OFPMP_AGGREGATE:
            self._waiting += self._reply(kind, struct.pack("!QQI4x", 0, 0, len(self.rows)), number, 0)
        elif kind == protocol.OFPMP_FLOW:
            for row in self.rows.values():
                self._waiting += self._reply(kind, row, number, protocol.OFPMPF_REPLY_MORE)
            self._waiting += self._reply(kind, b"", number, 0)

    def _reply(self, kind: int, body: bytes, number: int, flags: int) -> bytes:
        return _message(protocol.OFPT_MULTIPART_REPLY, number, struct.pack("!HH4x", kind, flags) + body)

    def _say(self, kind: int, number: int, body: bytes) -> None:
        self._waiting += _message(kind, number, body)

    def ask_for_echo(self, number: int) -> None:
        self._say(protocol.OFPT_ECHO_REQUEST, number, b"")
        self._answer()

    def _answer(self) -> None:
        """Sends what waits, in pieces that do not end with a message."""
        while self._waiting:
            piece, self._waiting = self._waiting[:7], self._waiting[7:]
            self.switch.receive(self._number, piece)


def _message(kind: int, number: int, body: bytes) -> bytes:
    return struct.pack(protocol.OFP_HEADER_PACK_STR, protocol.OFP_VERSION, kind, 8 + len(body), number) + body


def test_a_switch_gets_its_entries_when_it_connects_and_when_they_change() -> None:
    peer = Peer()
    [before, *_] = tables_of((HOST, [0, 1]))
    peer.switch.put(before)
    assert peer.rows == {}
    peer.connect()
    assert peer.table() == before
    assert peer.switch.entries == peer.count() == len(before.entries) == 8
    # Only what differs is sent.
    peer.commands.clear()
    [after, *_] = tables_of((HOST, [0, 1]), (OTHER_HOST, [0, 2, 1]))
    peer.switch.put(after)
    assert peer.table() == after
    assert peer.commands == [protocol.OFPFC_ADD] * 2
    peer.switch.put(before)
    assert peer.table() == before
    assert peer.commands[2:] == [protocol.OFPFC_DELETE_STRICT] * 2
    assert peer.count() == len(before.entries)


def test_a_switch_that_connects_again_is_given_what_it_lacks() -> None:
    peer = Peer()
    [before, *_] = tables_of((HOST, [0, 1]))
    [after, *_] = tables_of((OTHER_HOST, [0, 2, 1]))
    peer.switch.put(before)
    peer.connect()
    peer.switch.lose()
    assert peer.switch.entries is None
    peer.switch.put(after)
    assert peer.table() == before
    del peer.rows[next(iter(peer.rows))]
    peer.connect()
    assert peer.table() == after
    # Bytes of the connection before are no part of this one.
    peer.switch.receive(1, b"\x00" * 7)
    peer.commands.clear()
    peer.ask_for_echo(77)
    assert peer.commands == [77]
