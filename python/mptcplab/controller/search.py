"""The course of a discovery: frames are repeated until all described links are found or the time is
over.
"""

from __future__ import annotations

from mptcplab.controller.discovery import EVERY_NS, WITHIN_NS, Discovery, frame
from mptcplab.controller.messages import Outlet, PacketOut
from mptcplab.controller.network import Network
from mptcplab.controller.tables import CONTROLLER, Output
from mptcplab.errors import RunFailed


class Search:
    """Sends the frames of a discovery."""

    def __init__(self, network: Network, outlet: Outlet) -> None:
        self._network = network
        self._outlet = outlet
        self._discovery = Discovery(network)
        self._began_ns: int | None = None
        self._sent_ns = 0

    @property
    def is_over(self) -> bool:
        """Whether the links found are the described ones."""
        return self._began_ns is not None and self._discovery.difference() is None

    def begin(self) -> None:
        """Sends the first frames."""
        self._began_ns = self._outlet.now_ns()
        self._send()

    def on_frame(self, switch: str, in_port: int, received: bytes) -> None:
        """Handles a frame that arrived over a link."""
        self._discovery.on_frame(switch, in_port, received)

    def on_time(self) -> None:
        """Repeats the frames. Raises RunFailed with the difference once the time is over."""
        now_ns = self._outlet.now_ns()
        if self._began_ns is None or self.is_over:
            return
        if now_ns - self._began_ns > WITHIN_NS:
            raise RunFailed(f"the links between switches are not the described ones: {self._discovery.difference()}")
        if now_ns - self._sent_ns >= EVERY_NS:
            self._send()

    def _send(self) -> None:
        self._sent_ns = self._outlet.now_ns()
        for interface, port in self._network.ports.items():
            if self._network.far_end(interface) in self._network.ports:
                number = self._network.switches[port.switch], port.number
                sent = frame(number, self._network.mac(interface))
                self._outlet.send(port.switch, [PacketOut(sent, CONTROLLER, (Output(port.number),))])
