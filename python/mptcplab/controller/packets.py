"""Reads what the controller needs of a frame: addresses, ports, and the options of MPTCP (RFC 8684,
section 3).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address

from mptcplab.controller.tables import ACK, IPV4, IPV6, SYN, TCP, UDP

ETHERNET_BYTES = 14
IPV6_HEADER_BYTES = 40
TCP_HEADER_BYTES = 20
UDP_HEADER_BYTES = 8

_MPTCP_OPTION = 30
_MP_CAPABLE, _MP_JOIN = 0, 1
_END, _NO_OPERATION = 0, 1
_JOIN_SYN_BYTES = 12
#: Length of MP_CAPABLE with both keys: the third segment of the handshake, without and with data.
_BOTH_KEYS_BYTES = (20, 22, 24)


@dataclass(frozen=True, slots=True)
class Packet:
    """An IP packet, and the ports of TCP and UDP."""

    ethernet_type: int
    source: str
    destination: str
    protocol: int
    source_port: int | None = None
    destination_port: int | None = None
    flags: int = 0
    #: Whether it carries MP_CAPABLE.
    is_capable: bool = False
    #: The keys of opener and acceptor, where it carries both.
    keys: tuple[bytes, bytes] | None = None
    #: The token of the connection that it joins.
    token: int | None = None
    payload: bytes = b""

    @property
    def is_opening(self) -> bool:
        """Whether it is the first segment of a subflow."""
        return self.protocol == TCP and self.flags & (SYN | ACK) == SYN


def token_of(key: bytes) -> int:
    """Returns the token of a key: the first 32 bits of its SHA-256 (RFC 8684, section 3.2)."""
    return int.from_bytes(hashlib.sha256(key).digest()[:4], "big")


def read(frame: bytes) -> Packet | None:
    """Returns the IP packet of a frame; None for other frames and for what is cut off."""
    try:
        return _read_ip(frame)
    except (struct.error, IndexError, ValueError):
        return None


def _read_ip(frame: bytes) -> Packet | None:
    ethernet_type = int.from_bytes(frame[12:14], "big")
    packet = frame[ETHERNET_BYTES:]
    if ethernet_type == IPV4:
        header, protocol = (packet[0] & 0x0F) * 4, packet[9]
        ends = packet[12:16], packet[16:20]
    elif ethernet_type == IPV6:
        header, protocol = IPV6_HEADER_BYTES, packet[6]
        ends = packet[8:24], packet[24:40]
    else:
        return None
    source, destination = (str(ip_address(end)) for end in ends)
    inner = packet[header:]
    if protocol == TCP:
        return _read_tcp(ethernet_type, source, destination, inner)
    if protocol == UDP:
        source_port, destination_port = struct.unpack("!HH", inner[:4])
        payload = inner[UDP_HEADER_BYTES:]
        return Packet(ethernet_type, source, destination, UDP, source_port, destination_port, payload=payload)
    return Packet(ethernet_type, source, destination, protocol)


def _read_tcp(ethernet_type: int, source: str, destination: str, segment: bytes) -> Packet:
    source_port, destination_port = struct.unpack("!HH", segment[:4])
    length, flags = (segment[12] >> 4) * 4, segment[13]
    options = list(_mptcp_options(segment[TCP_HEADER_BYTES:length]))
    capable = next((value for subtype, value in options if subtype == _MP_CAPABLE), None)
    join = next((value for subtype, value in options if subtype == _MP_JOIN), None)
    both = capable is not None and len(capable) in _BOTH_KEYS_BYTES
    is_join = join is not None and flags & (SYN | ACK) == SYN and len(join) == _JOIN_SYN_BYTES
    return Packet(
        ethernet_type,
        source,
        destination,
        TCP,
        source_port,
        destination_port,
        flags,
        is_capable=capable is not None,
        keys=(capable[4:12], capable[12:20]) if capable is not None and both else None,
        token=int.from_bytes(join[4:8], "big") if join is not None and is_join else None,
    )


def _mptcp_options(options: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields the subtype and the bytes of each option of MPTCP. What follows a malformed option is
    left out.
    """
    at = 0
    while at + 1 < len(options) and options[at] != _END:
        if options[at] == _NO_OPERATION:
            at += 1
            continue
        option = options[at : at + options[at + 1]]
        if len(option) < 2 or len(option) < options[at + 1]:
            return
        if option[0] == _MPTCP_OPTION and len(option) > 2:
            yield option[2] >> 4, option
        at += len(option)
