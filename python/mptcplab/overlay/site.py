"""A local site: a router in a network namespace, and the program on it.

The program answers echoes, sends heartbeats, measures round-trip times to other sites, and is the
site's end of the tunnels of hosts.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address
from time import monotonic, monotonic_ns

from mptcplab.overlay import entries
from mptcplab.overlay.addresses import MACHINE, PORT, inside, outside
from mptcplab.overlay.messages import Address, Kind, Message, echoed, packed, received, send, udp_socket
from mptcplab.overlay.namespaces import NetworkNamespace, tun

_LARGEST_PACKET = 1 << 16
_BATCH = 32
#: Echoes without an answer after this time are lost.
_LOST_AFTER_NS = 2_000_000_000


@dataclass
class HostTunnel:
    """A site's end of the tunnel of a host."""

    number: int
    key: int
    address: IPv4Address
    #: Where the host's last message came from. It changes if a NAT on the way changes its mind.
    peer: Address | None = None
    heard_s: float = field(default_factory=monotonic)


@dataclass
class Measured:
    """What echoes to another site found."""

    rtt_s: float | None = None
    """The smallest round-trip time of the last echoes."""
    sent: int = 0
    answered: int = 0
    missing: int = 0
    """The last echoes, as far as none of them was answered."""

    def record(self, rtt_s: float) -> None:
        """Records an answer. A longer time replaces the smallest one slowly."""
        self.answered += 1
        self.missing = 0
        self.rtt_s = rtt_s if self.rtt_s is None or rtt_s < self.rtt_s else self.rtt_s + (rtt_s - self.rtt_s) / 8


class Site:
    """A site on this machine. `number` counts from 0."""

    def __init__(self, name: str, number: int, *, is_exit: bool) -> None:
        self.name = name
        self.number = number
        self.is_exit = is_exit
        #: Proves that a heartbeat is the site's.
        self.key = secrets.randbits(64)
        #: By the other site and whether the echoes go through the tunnel.
        self.measured: dict[tuple[int, bool], Measured] = {}
        self.namespace = NetworkNamespace()
        self.namespace.set(entries.SETTINGS)
        with self.namespace.entered():
            #: The other end of the access link, which the network between sites holds.
            self.access_fd = tun(entries.ACCESS)
            self.tunnels_fd = tun(entries.TUNNELS)
        self.socket: socket.socket
        self._tunnels: dict[int, HostTunnel] = {}
        self._by_address: dict[bytes, HostTunnel] = {}
        #: Echoes without an answer so far, the oldest first.
        self._asked: dict[int, tuple[int, bool, int]] = {}

    def set_up(self) -> None:
        """Gives the devices their addresses and the site its socket."""
        self.namespace.run(["ip", "-batch", "-"], _text(entries.site_lines(self.number, is_exit=self.is_exit)))
        if self.is_exit:
            self.namespace.run(["nft", "-f", "-"], entries.EXIT_LINES)
        with self.namespace.entered():
            self.socket = udp_socket("0.0.0.0", PORT)

    def join_mesh(self, others: Sequence[int]) -> None:
        """Sets up the tunnels to other sites."""
        lines = [entries.tunnel_lines(other) for other in others]
        self.namespace.run(["ip", "-batch", "-"], _text([one for ip, _ in lines for one in ip]))
        self.namespace.run(["bridge", "-batch", "-"], _text([one for _, bridge in lines for one in bridge]))

    def configure(self, lines: Sequence[str]) -> None:
        """Carries out lines of ip(8). Those that fail do not stop the others."""
        self.namespace.run(["ip", "-batch", "-"], _text(lines))

    # ---- the program ----

    def beat(self) -> None:
        """Tells the coordinator that the site operates."""
        send(self.socket, packed(Kind.BEAT, self.number, self.key), (str(MACHINE), PORT))

    def ask(self, other: int, *, through_tunnel: bool) -> None:
        """Sends an echo to another site, outside or through the tunnel to it."""
        now_ns = monotonic_ns()
        while self._asked and now_ns - next(iter(self._asked.values()))[2] > _LOST_AFTER_NS:
            del self._asked[next(iter(self._asked))]
        nonce = secrets.randbits(64)
        self._asked[nonce] = other, through_tunnel, now_ns
        measured = self.measured.setdefault((other, through_tunnel), Measured())
        measured.sent += 1
        measured.missing += 1
        send(self.socket, packed(Kind.ECHO, 0, nonce), _address(other, through_tunnel))

    def open_tunnel(self, tunnel: HostTunnel) -> None:
        """Expects messages of a host."""
        self._tunnels[tunnel.number] = tunnel
        self._by_address[tunnel.address.packed] = tunnel

    def close_tunnel(self, tunnel: HostTunnel) -> None:
        """Knows the tunnel of a host no longer."""
        self._tunnels.pop(tunnel.number, None)
        self._by_address.pop(tunnel.address.packed, None)

    def on_datagrams(self) -> None:
        """Handles what has arrived at the socket."""
        for message in received(self.socket):
            match message.kind:
                case Kind.ECHO:
                    send(self.socket, echoed(message), message.source)
                case Kind.ECHOED:
                    self._record(message)
                case Kind.DATA | Kind.ALIVE:
                    self._handle_host(message)

    def _record(self, answer: Message) -> None:
        asked = self._asked.pop(answer.key, None)
        if asked is not None:
            other, through_tunnel, sent_ns = asked
            rtt_ns = answer.arrived_ns - sent_ns - answer.number
            self.measured[other, through_tunnel].record(max(rtt_ns, 0) / 1e9)

    def _handle_host(self, message: Message) -> None:
        tunnel = self._tunnels.get(message.number)
        if tunnel is None or tunnel.key != message.key:
            return
        tunnel.peer, tunnel.heard_s = message.source, monotonic()
        if message.kind == Kind.ALIVE:
            send(self.socket, packed(Kind.ALIVE_TOO, tunnel.number, tunnel.key, message.body), message.source)
        elif message.body[12:16] == tunnel.address.packed:
            # The source of the packet is the address that the host was given, and no other.
            try:
                os.write(self.tunnels_fd, message.body)
            except OSError:
                return

    def on_packets(self) -> None:
        """Sends packets to the hosts that they are for."""
        for _ in range(_BATCH):
            try:
                packet = os.read(self.tunnels_fd, _LARGEST_PACKET)
            except OSError:
                return
            tunnel = self._by_address.get(packet[16:20])
            if tunnel is not None and tunnel.peer is not None:
                send(self.socket, packed(Kind.DATA, tunnel.number, tunnel.key, packet), tunnel.peer)


@cache
def _address(site: int, is_inside: bool) -> Address:
    return str(inside(site) if is_inside else outside(site)), PORT


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
