"""A site: a router in a network namespace, and the program on it.

The program answers echoes, sends heartbeats, measures round-trip times to other sites, and is the
site's end of the tunnels of hosts. It uses nothing but Python's library, because it also runs on
machines without mptcplab (`elsewhere.py`).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import count
from time import monotonic, monotonic_ns

from mptcplab import iproute
from mptcplab.overlay import entries
from mptcplab.overlay.addresses import MACHINE, PORT, inside
from mptcplab.overlay.membership import BEAT_S
from mptcplab.overlay.messages import Address, Kind, Message, echoed, packed, received, send, udp_socket
from mptcplab.overlay.namespaces import NetworkNamespace, tun
from mptcplab.overlay.passages import Passage

_LARGEST_PACKET = 1 << 16
_BATCH = 32
#: Each tunnel is measured once in so many heartbeats, and with each one while an answer is missing.
_BEATS_OF_MEASUREMENT = 2
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


def missing(measured: Mapping[tuple[int, bool], Measured], other: int) -> int:
    """Returns how many echoes in a row through the tunnel to another site are without an answer."""
    found = measured.get((other, True))
    return found.missing if found is not None else 0


class Site:
    """A site. `number` counts from 0. Classes of it set up its devices and sockets.

    `header` comes before each packet at the device of hosts' tunnels.
    """

    def __init__(self, number: int, *, is_exit: bool, header: bytes = b"") -> None:
        self.number = number
        self.is_exit = is_exit
        #: Where messages of each site go, by its number.
        self.addresses: Sequence[str] = ()
        #: By the other site and whether the echoes go through the tunnel.
        self.measured: dict[tuple[int, bool], Measured] = {}
        self.namespace = NetworkNamespace()
        self.namespace.set(entries.SETTINGS)
        with self.namespace.entered():
            self.tunnels_fd = tun(entries.TUNNELS, in_frames=bool(header))
        self._header = header
        #: The sockets for messages outside of tunnels, and through those to other sites.
        self.socket: socket.socket
        self.inside_socket: socket.socket
        self.tunnels: dict[int, HostTunnel] = {}
        self._by_address: dict[bytes, HostTunnel] = {}
        #: Echoes without an answer so far, the oldest first.
        self._asked: dict[int, tuple[int, bool, int]] = {}

    def beat(self) -> None:
        """Tells the coordinator that the site operates."""
        raise NotImplementedError

    def set_up_router(self) -> None:
        """Sets up what each site has, and its socket inside."""
        with self.namespace.entered():
            iproute.batch(self.router_lines())
            if self.is_exit:
                iproute.run("nft", "-f", "-", given=entries.EXIT_LINES)
            self.inside_socket = udp_socket("0.0.0.0", PORT)

    def join_mesh(self, others: Sequence[int]) -> None:
        """Sets up the tunnels to other sites."""
        with self.namespace.entered():
            iproute.batch([line for other in others for line in self.tunnel_lines(other)])
            iproute.batch([entries.far_end_line(other, self.addresses[other]) for other in others], "bridge")

    def router_lines(self) -> list[str]:
        """Returns the lines for ip(8) that make the site a router."""
        return entries.router_lines(self.number)

    def tunnel_lines(self, other: int) -> list[str]:
        """Returns the lines for ip(8) that set up the tunnel to another site."""
        return entries.tunnel_lines(other)

    def configure(self, lines: Sequence[str]) -> None:
        """Carries out lines of ip(8). Those that fail do not stop the others."""
        with self.namespace.entered():
            problems = iproute.batch_of_all(lines)
        if problems:
            print(f"site {self.number}: {problems}", file=sys.stderr, flush=True)

    # ---- the program ----

    async def live(self, others: Sequence[int], after_s: float = 0.0) -> None:
        """Sends heartbeats and measures the tunnels to `others`, from `after_s` on, without end."""
        await asyncio.sleep(after_s)
        for beats in count():
            begun = monotonic()
            self.beat()
            for other in others:
                if beats % _BEATS_OF_MEASUREMENT == 0 or missing(self.measured, other):
                    self.ask(other, through_tunnel=True)
            await asyncio.sleep(max(BEAT_S - (monotonic() - begun), 0.01))

    def ask(self, other: int, *, through_tunnel: bool, size: int = 0) -> None:
        """Sends an echo with `size` further bytes to another site, outside or through the tunnel to
        it.
        """
        now_ns = monotonic_ns()
        while self._asked and now_ns - next(iter(self._asked.values()))[2] > _LOST_AFTER_NS:
            del self._asked[next(iter(self._asked))]
        nonce = secrets.randbits(64)
        self._asked[nonce] = other, through_tunnel, now_ns
        measured = self.measured.setdefault((other, through_tunnel), Measured())
        measured.sent += 1
        measured.missing += 1
        by = self.inside_socket if through_tunnel else self.socket
        to = str(inside(other)) if through_tunnel else self.addresses[other]
        send(by, packed(Kind.ECHO, 0, nonce, bytes(size)), (to, PORT))

    def open_tunnel(self, tunnel: HostTunnel) -> None:
        """Expects messages of a host."""
        self.tunnels[tunnel.number] = tunnel
        self._by_address[tunnel.address.packed] = tunnel

    def close_tunnel(self, tunnel: HostTunnel) -> None:
        """Knows the tunnel of a host no longer."""
        self.tunnels.pop(tunnel.number, None)
        self._by_address.pop(tunnel.address.packed, None)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """Handles what arrives, in this loop from now on."""
        for one in {self.socket, self.inside_socket}:
            loop.add_reader(one, self._on_datagrams, one)
        loop.add_reader(self.tunnels_fd, self._on_packets)

    def _on_datagrams(self, at: socket.socket) -> None:
        for message in received(at):
            match message.kind:
                case Kind.ECHO:
                    send(at, echoed(message), message.source)
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
        tunnel = self.tunnels.get(message.number)
        if tunnel is None or tunnel.key != message.key:
            return
        tunnel.peer, tunnel.heard_s = message.source, monotonic()
        if message.kind == Kind.ALIVE:
            send(self.socket, packed(Kind.ALIVE_TOO, tunnel.number, tunnel.key, message.body), message.source)
        elif message.body[12:16] == tunnel.address.packed:
            # The source of the packet is the address that the host was given, and no other.
            try:
                os.write(self.tunnels_fd, self._header + message.body)
            except OSError:
                return

    def _on_packets(self) -> None:
        """Sends packets to the hosts that they are for."""
        for _ in range(_BATCH):
            try:
                packet = os.read(self.tunnels_fd, _LARGEST_PACKET)[len(self._header) :]
            except OSError:
                return
            tunnel = self._by_address.get(packet[16:20])
            if tunnel is not None and tunnel.peer is not None:
                send(self.socket, packed(Kind.DATA, tunnel.number, tunnel.key, packet), tunnel.peer)


class LocalSite(Site):
    """A site on the coordinator's machine, in the network between local sites."""

    def __init__(self, number: int, *, is_exit: bool) -> None:
        super().__init__(number, is_exit=is_exit)
        #: Proves that a heartbeat is the site's.
        self.key = secrets.randbits(64)
        with self.namespace.entered():
            #: The other end of the access link, which the network between sites holds.
            self.access_fd = tun(entries.ACCESS)

    def set_up(self) -> None:
        """Gives the devices their addresses and the site its socket."""
        with self.namespace.entered():
            iproute.batch(entries.access_lines(self.number))
        self.set_up_router()
        self.socket = self.inside_socket

    def change(self, removed: Sequence[Passage], added: Sequence[Passage]) -> None:
        """Forwards some passages no longer, and others from now on."""
        self.configure(entries.changes(removed, added))

    def beat(self) -> None:
        send(self.socket, packed(Kind.BEAT, self.number, self.key), (str(MACHINE), PORT))
