"""Finds the links between switches by LLDP (IEEE 802.1AB), and compares them with the described
ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from mptcplab.controller.network import Network, Port
from mptcplab.controller.tables import LLDP

#: Time within which all links must be found.
WITHIN_NS = 5_000_000_000
#: Interval at which frames are repeated, because links can lose them.
EVERY_NS = 200_000_000

_TO_NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
_CHASSIS, _PORT, _TIME_TO_LIVE = 1, 2, 3
_LOCALLY_ASSIGNED = 7
_SECONDS_TO_LIVE = 120

PortNumber = tuple[int, int]
"""Datapath id and number of a port."""


def frame(sender: PortNumber, mac: str) -> bytes:
    """Returns the frame by which a port tells its number."""
    switch, port = sender
    return b"".join(
        (
            _TO_NEAREST_BRIDGE,
            bytes.fromhex(mac.replace(":", "")),
            LLDP.to_bytes(2, "big"),
            _part(_CHASSIS, struct.pack("!BQ", _LOCALLY_ASSIGNED, switch)),
            _part(_PORT, struct.pack("!BI", _LOCALLY_ASSIGNED, port)),
            _part(_TIME_TO_LIVE, _SECONDS_TO_LIVE.to_bytes(2, "big")),
            bytes(2),
        )
    )


def _part(kind: int, value: bytes) -> bytes:
    return (kind << 9 | len(value)).to_bytes(2, "big") + value


def sender_of(frame: bytes) -> PortNumber | None:
    """Returns the port that a frame names; None for frames of others."""
    values = dict(_parts(frame[14:]))
    try:
        _, switch = struct.unpack("!BQ", values[_CHASSIS])
        _, port = struct.unpack("!BI", values[_PORT])
    except (KeyError, struct.error):
        return None
    return switch, port


def _parts(rest: bytes) -> Iterator[tuple[int, bytes]]:
    while len(rest) >= 2:
        head = int.from_bytes(rest[:2], "big")
        yield head >> 9, rest[2 : 2 + (head & 0x1FF)]
        rest = rest[2 + (head & 0x1FF) :]


class Discovery:
    """The links found so far, as pairs of ports."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._described = set(_described(network))
        self._found: set[frozenset[Port]] = set()

    def on_frame(self, switch: str, in_port: int, frame: bytes) -> None:
        """Records the link over which a frame arrived."""
        sender = sender_of(frame)
        if sender is None:
            return
        here = self._network.port_by_number.get((switch, in_port))
        there = self._network.port_by_number.get((self._network.switch_by_number.get(sender[0], ""), sender[1]))
        if here is not None and there is not None:
            self._found.add(frozenset((here, there)))

    @property
    def is_complete(self) -> bool:
        """Whether all described links were found."""
        return self._described <= self._found

    def difference(self) -> str | None:
        """Returns how the links found differ from the described ones."""
        missing = sorted(_words(pair) for pair in self._described - self._found)
        further = sorted(_words(pair) for pair in self._found - self._described)
        parts = [f"not found: {', '.join(missing)}"] if missing else []
        parts += [f"not described: {', '.join(further)}"] if further else []
        return "; ".join(parts) or None


def _described(network: Network) -> Iterator[frozenset[Port]]:
    for link in network.links.values():
        if link["a"] in network.ports and link["b"] in network.ports:
            yield frozenset((network.ports[link["a"]], network.ports[link["b"]]))


def _words(pair: frozenset[Port]) -> str:
    return " - ".join(sorted(port.interface for port in pair))
