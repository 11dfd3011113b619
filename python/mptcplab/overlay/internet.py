"""The network between local sites, as a process: a star of access links with delays and rates.

It reads packets from the TUN devices of its ends and writes each to the end with its destination.
An access link serializes packets at its rate, drops what would wait longer than `LONGEST_QUEUE_NS`,
and delays them. It is not the kernel's netem, because not every kernel has it.
"""

from __future__ import annotations

import gc
import os
import select
import struct
from dataclasses import dataclass, field
from heapq import heappop, heappush
from ipaddress import IPv4Address
from time import monotonic_ns

#: The longest queue of an access link.
LONGEST_QUEUE_NS = 100_000_000
_LARGEST_PACKET = 1 << 16
#: Packets that are read from an end before the others get their turn.
_BATCH = 32
#: An order: the number of an end, that of the end from which it is cut off, its own for all of
#: them, and whether it is.
ORDER = struct.Struct("!II?")


@dataclass
class End:
    """An end of the network: a TUN device and its access link."""

    fd: int
    address: IPv4Address
    delay_ns: int
    rate_bps: int | None
    is_cut: bool = False
    #: The addresses from which it is cut off.
    cut_off: set[bytes] = field(default_factory=set)
    #: When the access link has sent all packets so far, upwards and downwards.
    up_free_ns: int = 0
    down_free_ns: int = 0

    def sent_ns(self, free_ns: int, now_ns: int, size: int) -> int | None:
        """Returns when the access link has sent a packet that it gets now; None if it drops the
        packet.
        """
        if self.rate_bps is None:
            return now_ns
        begun = max(free_ns, now_ns)
        return None if begun - now_ns > LONGEST_QUEUE_NS else begun + size * 8_000_000_000 // self.rate_bps


class Internet:
    """Carries packets between its ends. The first end also takes packets to all other addresses."""

    def __init__(self, ends: list[End], orders: int) -> None:
        self._ends = ends
        self._orders = orders
        self._by_address = {end.address.packed: end for end in ends}
        #: Packets on their way: when they arrive, a number for the order of packets of one
        #: instant, the packet, where it goes, and whether it is past the access link of that end.
        self._moving: list[tuple[int, int, bytes, End, bool]] = []
        self._count = 0

    def run(self) -> None:
        """Carries packets until the pipe of orders is closed."""
        # Nothing here makes cycles, and a collection would hold up all packets.
        gc.disable()
        poll = select.epoll()
        poll.register(self._orders, select.EPOLLIN)
        by_fd = {end.fd: end for end in self._ends}
        for fd in by_fd:
            poll.register(fd, select.EPOLLIN)
        while True:
            # epoll itself counts in milliseconds.
            select.select([poll], [], [], self._wait_s())
            for fd, _ in poll.poll(0):
                if fd in by_fd:
                    self._take(by_fd[fd])
                elif not self._obey():
                    # The device in the namespace of others is gone first.
                    os.close(self._ends[0].fd)
                    return
            self._deliver()

    def _wait_s(self) -> float | None:
        return max(self._moving[0][0] - monotonic_ns(), 0) / 1e9 if self._moving else None

    def _obey(self) -> bool:
        """Carries out an order. Returns whether there will be others."""
        order = os.read(self._orders, ORDER.size)
        if len(order) < ORDER.size:
            return False
        number, other, is_cut = ORDER.unpack(order)
        if number == other:
            self._ends[number].is_cut = is_cut
            return True
        for near, far in ((self._ends[number], self._ends[other]), (self._ends[other], self._ends[number])):
            (near.cut_off.add if is_cut else near.cut_off.discard)(far.address.packed)
        return True

    def _take(self, end: End) -> None:
        """Takes packets that an end sends."""
        for _ in range(_BATCH):
            try:
                packet = os.read(end.fd, _LARGEST_PACKET)
            except OSError:
                return
            # RFC 791, section 3.1: the version, and the destination.
            if packet[0] >> 4 != 4 or end.is_cut or packet[16:20] in end.cut_off:
                continue
            target = self._by_address.get(packet[16:20], self._ends[0])
            sent = end.sent_ns(end.up_free_ns, monotonic_ns(), len(packet))
            if sent is not None and target is not end:
                end.up_free_ns = sent
                self._push(sent + end.delay_ns, packet, target, is_through=target.rate_bps is None)

    def _push(self, at_ns: int, packet: bytes, target: End, *, is_through: bool) -> None:
        self._count += 1
        heappush(self._moving, (at_ns + is_through * target.delay_ns, self._count, packet, target, is_through))

    def _deliver(self) -> None:
        """Delivers the packets that are due."""
        while self._moving and self._moving[0][0] <= monotonic_ns():
            at_ns, _, packet, target, is_through = heappop(self._moving)
            if target.is_cut:
                continue
            if is_through:
                try:
                    os.write(target.fd, packet)
                except OSError:
                    # The device is down.
                    continue
            elif (sent := target.sent_ns(target.down_free_ns, at_ns, len(packet))) is not None:
                target.down_free_ns = sent
                self._push(sent, packet, target, is_through=True)
