"""Messages between sites, hosts and the coordinator: UDP datagrams with a header of 16 bytes.

| kind | number | key | after the header | |---|---|---|---| | ECHO | 0 | of the sender's choice |
anything, which comes back | | ECHOED | nanoseconds for which the answering side held the request |
that of the request | that of the request | | BEAT | the site | the site's | - | | DATA | the tunnel
| the tunnel's | an IPv4 packet | | ALIVE | the tunnel | the tunnel's | anything, which comes back |
| ALIVE_TOO | the tunnel | the tunnel's | that of the request |
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from enum import IntEnum
from time import monotonic_ns, time_ns
from typing import NamedTuple

HEADER = struct.Struct("!BxxxIQ")
#: The headers of a message: IPv4, UDP and its own.
HEADERS_BYTES = 20 + 8 + HEADER.size
MOST_BYTES = 2048
#: Datagrams that are read from a socket before others get their turn.
_BATCH = 64
#: asm-generic/socket.h: SO_TIMESTAMPNS_OLD, the arrival as the kernel saw it.
_SO_TIMESTAMPNS = 35
#: linux/in.h
_IP_MTU_DISCOVER, _IP_PMTUDISC_DO = 10, 2
_TIMESPEC = struct.Struct("@ll")
#: Arrivals that seem older than this come from a clock that jumped.
_OLDEST_NS = 1_000_000_000
_MOST_HELD_NS = 2**32 - 1

Address = tuple[str, int]


class Kind(IntEnum):
    """What a message is."""

    ECHO = 1
    ECHOED = 2
    BEAT = 3
    DATA = 4
    ALIVE = 5
    ALIVE_TOO = 6


class Message(NamedTuple):
    """A message that arrived."""

    kind: int
    number: int
    key: int
    body: bytes
    source: Address
    #: When it arrived, by the monotonic clock.
    arrived_ns: int


def packed(kind: Kind, number: int, key: int, body: bytes = b"") -> bytes:
    """Returns a message as it is sent."""
    return HEADER.pack(kind, number, key) + body


def udp_socket(address: str, port: int) -> socket.socket:
    """Returns a socket in the namespace of this thread that notes arrivals and does not block."""
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.setblocking(False)
    made.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    # Never in fragments, so that a tunnel carries a packet or does not.
    made.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _IP_PMTUDISC_DO)
    made.bind((address, port))
    return made


def received(from_socket: socket.socket) -> Iterator[Message]:
    """Yields messages that have arrived, at most `_BATCH`. Leaves out what is no message."""
    for _ in range(_BATCH):
        try:
            data, notes, _, source = from_socket.recvmsg(MOST_BYTES, 64)
        except (BlockingIOError, ConnectionRefusedError):
            return
        if len(data) >= HEADER.size:
            kind, number, key = HEADER.unpack_from(data)
            yield Message(kind, number, key, data[HEADER.size :], source, _arrived_ns(notes))


def _arrived_ns(notes: list[tuple[int, int, bytes]]) -> int:
    """Returns the arrival by the monotonic clock, which does not jump."""
    now_ns = monotonic_ns()
    for level, kind, value in notes:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
            seconds, rest = _TIMESPEC.unpack(value)
            age_ns = time_ns() - (seconds * 1_000_000_000 + rest)
            return now_ns - age_ns if 0 <= age_ns < _OLDEST_NS else now_ns
    return now_ns


def echoed(message: Message) -> bytes:
    """Returns the answer to an ECHO, which is as long as the request."""
    held_ns = min(max(monotonic_ns() - message.arrived_ns, 0), _MOST_HELD_NS)
    return packed(Kind.ECHOED, held_ns, message.key, message.body)


def send(by: socket.socket, data: bytes, to: Address) -> None:
    """Sends a message. What the network does not take is lost, as on the way."""
    try:
        by.sendto(data, to)
    except OSError:
        return
