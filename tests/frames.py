"""Makes Ethernet frames as hosts send them."""

from __future__ import annotations

import struct
from ipaddress import ip_address

SYN, ACK = 0x02, 0x10
HEADS = {4: 0x0800, 6: 0x86DD}


def ethernet(kind: int, content: bytes) -> bytes:
    """Returns a frame from one host to another."""
    return bytes.fromhex("020000000001") + bytes.fromhex("020000000000") + kind.to_bytes(2, "big") + content


def ip(source: str, destination: str, protocol: int, content: bytes) -> bytes:
    """Returns the frame of an IP packet."""
    ends = [ip_address(end) for end in (source, destination)]
    packed = b"".join(end.packed for end in ends)
    if ends[0].version == 4:
        header = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(content), 0, 0, 64, protocol, 0)
    else:
        header = struct.pack("!IHBB", 6 << 28, len(content), protocol, 64)
    return ethernet(HEADS[ends[0].version], header + packed + content)


def udp(source: str, destination: str, ports: tuple[int, int], payload: bytes = b"") -> bytes:
    """Returns the frame of a datagram."""
    return ip(source, destination, 17, struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload)


def tcp(source: str, destination: str, ports: tuple[int, int], flags: int, options: bytes = b"") -> bytes:
    """Returns the frame of a segment. Options of other kinds stand before the given ones."""
    padded = b"\x02\x04\x05\xb4\x01" + options
    padded += bytes(-len(padded) % 4)
    header = struct.pack("!HHIIBBHHH", *ports, 1, 1, (20 + len(padded)) << 2, flags, 1000, 0, 0)
    return ip(source, destination, 6, header + padded)


def capable_syn() -> bytes:
    """Returns MP_CAPABLE of a SYN (RFC 8684, figure 4)."""
    return bytes((30, 4, 0x01, 0x01))


def capable_keys(opener: bytes, acceptor: bytes) -> bytes:
    """Returns MP_CAPABLE of the third segment of the handshake."""
    return bytes((30, 20, 0x01, 0x01)) + opener + acceptor


def join_syn(token: int) -> bytes:
    """Returns MP_JOIN of a SYN (RFC 8684, figure 5)."""
    return bytes((30, 12, 0x10, 1)) + token.to_bytes(4, "big") + bytes(4)


def join_syn_ack() -> bytes:
    """Returns MP_JOIN of a SYN/ACK, which is longer and has no token."""
    return bytes((30, 16, 0x10, 1)) + bytes(12)


def arp_request(asker: str, asked: str) -> bytes:
    """Returns the question for a link-layer address."""
    ends = [ip_address(end).packed for end in (asker, asked)]
    mac = bytes.fromhex("020000000000")
    return ethernet(0x0806, struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + ends[0] + bytes(6) + ends[1])
