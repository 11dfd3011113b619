"""Follows a packet through computed tables, as switches would forward it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from mptcplab.controller.network import Network, Port
from mptcplab.controller.tables import IN_PORT, Action, Match, Output, SetEthernetSource, Table, ToGroup

HOST_MAC = "02:00:00:00:00:00"
MOST_HOPS = 50


class Lost(Exception):
    """No entry matches, a link on the way is down, or the packet circles."""


def over(
    network: Network, tables: Mapping[str, Table], packet: Match, interface: str, down: Collection[str] = ()
) -> list[str]:
    """Returns the links that a packet takes from an interface of a host to one of another host."""
    return list(_followed(network, tables, replace(packet, ethernet_source=HOST_MAC), interface, down))


def _followed(
    network: Network, tables: Mapping[str, Table], packet: Match, interface: str, down: Collection[str]
) -> Iterator[str]:
    for _ in range(MOST_HOPS):
        link = network.interfaces[interface]["link"]
        if link in down:
            raise Lost(f"{link} is down")
        yield link
        arrival = network.far_end(interface)
        if network.is_host(network.node(arrival)):
            return
        port = network.ports[arrival]
        table = tables[port.switch]
        entry = table.look_up(packet)
        if entry is None:
            raise Lost(f"no entry at {port.switch}")
        packet, number = _acted(network, table, port, packet, entry.actions, down)
        interface = network.port_by_number[port.switch, number].interface
    raise Lost("the packet circles")


def _acted(
    network: Network, table: Table, port: Port, packet: Match, actions: tuple[Action, ...], down: Collection[str]
) -> tuple[Match, int]:
    """Returns the packet after some actions, and the port by which it leaves."""
    for action in actions:
        match action:
            case SetEthernetSource(address):
                packet = replace(packet, ethernet_source=address)
            case ToGroup(number):
                up = [
                    bucket
                    for bucket in table.groups[number].buckets
                    if network.port_by_number[port.switch, bucket.watch_port].link not in down
                ]
                if not up:
                    raise Lost(f"no bucket of group {number} at {port.switch}")
                return _acted(network, table, port, packet, up[0].actions, down)
            case Output(number):
                if number == port.number:
                    raise Lost(f"{port.switch} sends nothing back by the port of its arrival")
                return packet, port.number if number == IN_PORT else number
    raise Lost("nothing sends the packet")
