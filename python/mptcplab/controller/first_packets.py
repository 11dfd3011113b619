"""Handles the packets that switches have no entry for: gives them their entries,
and sends them on.
"""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.controller.connections import Pin
from mptcplab.controller.installation import Installation
from mptcplab.controller.messages import Outlet, PacketOut
from mptcplab.controller.packets import Packet, read
from mptcplab.controller.responders import Responders
from mptcplab.controller.state import State
from mptcplab.controller.statistics import Exchanged
from mptcplab.controller.streams import Stream
from mptcplab.controller.tables import TCP, Output


class FirstPackets:
    """The frames that switches hand over."""

    def __init__(
        self, state: State, installation: Installation, outlet: Outlet, exchanged: Mapping[str, Exchanged]
    ) -> None:
        self._state = state
        self._installation = installation
        self._outlet = outlet
        self._exchanged = exchanged
        self._responders = Responders(state.network)

    def on_frame(self, switch: str, in_port: int, frame: bytes, *, is_miss: bool) -> None:
        """Handles a frame. `is_miss`: no entry of a flow was there for it."""
        packet = read(frame)
        answer = self._responders.answer(frame, packet) if self._state.roles.answers_programs else None
        if answer is not None:
            self._send_out(switch, PacketOut(answer, 0, (Output(in_port),)))
        elif packet is not None and packet.protocol == TCP:
            self._on_segment(switch, in_port, frame, packet, is_miss=is_miss)
        elif packet is not None and self._state.roles.is_reactive:
            self._on_other(switch, in_port, frame, packet)

    def _on_segment(self, switch: str, in_port: int, frame: bytes, packet: Packet, *, is_miss: bool) -> None:
        pin = self._state.connections.pin_of(packet)
        if pin is None:
            self._open(switch, in_port, frame, packet)
            return
        stream = next(one for one in pin.streams if one.match.source_port == packet.source_port)
        # For some milliseconds after the barrier, Open vSwitch may still miss the entry.
        if not pin.is_installed or is_miss:
            self._forward(switch, in_port, frame, stream)
        if pin.awaited and stream == pin.streams[0] and not packet.is_opening:
            self._learn(pin, packet)

    def _open(self, switch: str, in_port: int, frame: bytes, packet: Packet) -> None:
        """Gives a subflow its entries, and then sends its first segment on."""
        opened = self._state.open(packet)
        if opened is None:
            return
        pin, changes = opened

        def done() -> None:
            pin.is_installed = True
            self._forward(switch, in_port, frame, pin.streams[0])

        self._installation.at_once([changes], done)

    def _learn(self, pin: Pin, packet: Packet) -> None:
        """Reads a segment of an opener. The first switch makes no more of them once they are not
        needed.
        """
        if self._state.connections.learn(pin, packet):
            self._installation.at_once([self._state.forget_copies(pin)], lambda: None)

    def _on_other(self, switch: str, in_port: int, frame: bytes, packet: Packet) -> None:
        found = self._state.pair(packet)
        if found is not None:
            stream, changes = found
            self._installation.at_once([changes], lambda: self._forward(switch, in_port, frame, stream))

    def _forward(self, switch: str, in_port: int, frame: bytes, stream: Stream) -> None:
        """Sends a frame on from the switch that handed it over."""
        port = next((step.out_port for step in stream.steps if step.switch == switch), None)
        if port is not None:
            self._send_out(switch, PacketOut(frame, in_port, (Output(port),)))

    def _send_out(self, switch: str, packet: PacketOut) -> None:
        self._exchanged[switch].packet_outs += 1
        self._outlet.send(switch, [packet])
