"""Answers for programs: the addresses and names of the description."""

from __future__ import annotations

from mptcplab.controller.arp import Neighbours
from mptcplab.controller.entries import DNS_PORT
from mptcplab.controller.names import Names, reply_frame
from mptcplab.controller.network import Network
from mptcplab.controller.packets import Packet
from mptcplab.controller.tables import UDP


class Responders:
    """Answers ARP and DNS."""

    def __init__(self, network: Network) -> None:
        self._neighbours = Neighbours(network)
        self._names = Names(network)

    def answer(self, frame: bytes, packet: Packet | None) -> bytes | None:
        """Returns the frame that answers another; None if it is no question."""
        if packet is None:
            return self._neighbours.answer(frame)
        if packet.protocol != UDP or packet.destination_port != DNS_PORT:
            return None
        answer = self._names.answer(packet.payload)
        return None if answer is None else reply_frame(frame, packet, answer)
