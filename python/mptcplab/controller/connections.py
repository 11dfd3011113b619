"""Decides which path each new subflow takes, and remembers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mptcplab.controller.network import FIRST_PORT, Network, Step
from mptcplab.controller.packets import Packet, token_of
from mptcplab.controller.streams import PRIORITY_OF_PIN, PathKey, Side, Stream, Streams, Way
from mptcplab.controller.tables import TCP, Match
from mptcplab.errors import SpecError

#: Segments after which the keys of a connection are no longer expected: it has fallen back to TCP.
MOST_WITHOUT_KEYS = 8


@dataclass(slots=True)
class Connection:
    """An MPTCP connection: the flow it belongs to, and the paths its subflows take."""

    flow: str
    used: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Pin:
    """A subflow that keeps its path: its streams in the opener's and in the
    acceptor's direction.
    """

    key: PathKey
    connection: Connection | None
    #: From the opener to the acceptor, and back.
    streams: tuple[Stream, Stream]
    #: Segments of the opener that are still read for keys.
    awaited: int = 0
    #: Whether all switches have its entries.
    is_installed: bool = False


class Connections:
    """The subflows that the controller has seen opening."""

    def __init__(self, network: Network, streams: Streams) -> None:
        self._network = network
        self._streams = streams
        self._flows: Sequence[Mapping[str, Any]] = network.experiment["flows"]
        self._by_token: dict[int, Connection] = {}
        #: By the match of each of the two streams.
        self._pins: dict[Match, Pin] = {}

    def pin_of(self, packet: Packet) -> Pin | None:
        """Returns the pin that a segment belongs to."""
        return self._pins.get(five_tuple(packet))

    def pins(self) -> list[Pin]:
        """Returns all pins, each once."""
        return list({id(pin): pin for pin in self._pins.values()}.values())

    def open(self, packet: Packet, ways: Mapping[PathKey, Way]) -> Pin | None:
        """Returns the pin of a new subflow; None if no flow of the experiment
        can send the segment.
        """
        if None in (self._host_of(packet.source), self._host_of(packet.destination)):
            return None
        connection = self._connection(packet)
        flow = connection.flow if connection else self._flow_of(packet)
        if flow is None:
            return None
        index = self._path(flow, packet, connection.used if connection else (), ways)
        if index is None:
            return None
        if connection is not None:
            connection.used.append(index)
        pin = self._pin((flow, index), packet, ways)
        pin.connection = connection
        pin.awaited = MOST_WITHOUT_KEYS if packet.is_capable else 0
        self.remember(pin)
        return pin

    def candidates(self, match: Match, ways: Mapping[PathKey, Way]) -> Iterator[Pin]:
        """Yields the pins that a subflow could have; none if it has one."""
        packet = Packet(
            match.ethernet_type or 0,
            match.source or "",
            match.destination or "",
            match.protocol or 0,
            match.source_port,
            match.destination_port,
        )
        flow = None if self.pin_of(packet) else self._flow_of(packet)
        for index in range(len(self._flow(flow)["paths"]) if flow else 0):
            key = (str(flow), index)
            if self._fits(key, packet, ways):
                yield self._pin(key, packet, ways)

    def _flow(self, flow: str) -> Mapping[str, Any]:
        return self._flows[self._streams.index(flow)]

    def remember(self, pin: Pin) -> None:
        """Records a pin, in place of an earlier one of the same subflow."""
        for stream in pin.streams:
            self._pins[stream.match] = pin

    def move(self, pin: Pin, ways: Mapping[PathKey, Way]) -> None:
        """Leads a subflow over the present way of its path."""
        first, second = (
            replace(stream, steps=self._steps(pin.key, stream.side, stream.match, ways)) for stream in pin.streams
        )
        pin.streams = (first, second)

    def learn(self, pin: Pin, packet: Packet) -> bool:
        """Reads a later segment of the opener for keys. Returns whether no more are needed."""
        pin.awaited = max(pin.awaited - 1, 0)
        if packet.keys is not None and pin.connection is not None:
            pin.awaited = 0
            for key in packet.keys:
                self._by_token[token_of(key)] = pin.connection
        return pin.awaited == 0

    def _connection(self, packet: Packet) -> Connection | None:
        if packet.token is not None and packet.token in self._by_token:
            return self._by_token[packet.token]
        flow = self._flow_of(packet)
        is_multipath = packet.is_capable or packet.token is not None
        return Connection(flow) if flow is not None and is_multipath else None

    def _flow_of(self, packet: Packet) -> str | None:
        """Returns the flow that a segment belongs to by its ports, or else by its addresses."""
        flows = self._flows
        for port in (packet.destination_port, packet.source_port):
            index = (port or 0) - FIRST_PORT
            if 0 <= index < len(flows) and flows[index]["transport"] != "udp" and self._joins(flows[index], packet):
                return str(flows[index]["id"])
        return next((str(flow["id"]) for flow in flows if self._indices(flow, packet)), None)

    def _joins(self, flow: Mapping[str, Any], packet: Packet) -> bool:
        """Returns whether the addresses of a segment are those of the two hosts of a flow."""
        return {self._host_of(packet.source), self._host_of(packet.destination)} == {flow["from"], flow["to"]}

    def _host_of(self, address: str) -> str | None:
        interface = self._network.interface_by_address.get(address)
        return None if interface is None else self._network.node(interface)

    def _path(self, flow: str, packet: Packet, used: Sequence[int], ways: Mapping[PathKey, Way]) -> int | None:
        """Returns the path of a new subflow: the next one between its two addresses, else the next
        unused one from and to the same switches. Once all are used, the paths between the addresses
        begin again.
        """
        described = self._flow(flow)
        between = self._indices(described, packet)
        reachable = [index for index in range(len(described["paths"])) if self._fits((flow, index), packet, ways)]
        for candidates in (between, reachable):
            unused = [index for index in candidates if index not in used]
            if unused:
                return unused[0]
        return min(between or reachable, key=used.count, default=None)

    def _indices(self, flow: Mapping[str, Any], packet: Packet) -> list[int]:
        """Returns the paths of a flow between the addresses of a segment."""
        ends = {(packet.source, packet.destination), (packet.destination, packet.source)}
        indices = range(len(flow["paths"]))
        return [index for index in indices if ends & set(self._streams.pairs((flow["id"], index)))]

    def _fits(self, key: PathKey, packet: Packet, ways: Mapping[PathKey, Way]) -> bool:
        try:
            self._steps(key, self._side(key, packet), five_tuple(packet), ways)
        except SpecError:
            return False
        return True

    def _side(self, key: PathKey, packet: Packet) -> Side:
        return "there" if self._host_of(packet.source) == self._flow(key[0])["from"] else "back"

    def _steps(self, key: PathKey, side: Side, match: Match, ways: Mapping[PathKey, Way]) -> tuple[Step, ...]:
        """Returns the steps of a path for other interfaces of its hosts: the first and the last
        link are theirs.
        """
        hops = ways[key].hops(side)
        first, last = self._link_of(match.source, "leaving"), self._link_of(match.destination, "arriving")
        return self._network.steps([first, *hops[1:-1], last], f"flows.{key[0]}.paths.{key[1]}")

    def _link_of(self, address: str | None, use: Literal["leaving", "arriving"]) -> dict[str, str]:
        """Returns the hop over the link of the interface with an address."""
        interface = self._network.interface_by_address[address or ""]
        link = self._network.interfaces[interface]["link"]
        begins_here = self._network.links[link]["a"] == interface
        return {"link": link, "direction": "forward" if begins_here == (use == "leaving") else "backward"}

    def _pin(self, key: PathKey, packet: Packet, ways: Mapping[PathKey, Way]) -> Pin:
        side = self._side(key, packet)
        other: Side = "back" if side == "there" else "there"
        match = five_tuple(packet)
        opposite = Match(
            match.ethernet_type, match.destination, match.source, TCP, match.destination_port, match.source_port
        )
        streams = [
            Stream(key, way, PRIORITY_OF_PIN, one, self._steps(key, way, one, ways))
            for way, one in ((side, match), (other, opposite))
        ]
        return Pin(key, None, (streams[0], streams[1]))


def five_tuple(packet: Packet) -> Match:
    """Returns the match of the segments of one direction of a subflow."""
    return Match(
        packet.ethernet_type,
        packet.source,
        packet.destination,
        packet.protocol,
        packet.source_port,
        packet.destination_port,
    )
