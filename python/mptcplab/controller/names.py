"""Answers DNS for the hosts of the description: A and AAAA of hosts and of their interfaces."""

from __future__ import annotations

import struct
from ipaddress import ip_address

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype
import dns.rrset

from mptcplab.controller.network import Network
from mptcplab.controller.packets import ETHERNET_BYTES, IPV6_HEADER_BYTES, UDP_HEADER_BYTES, Packet
from mptcplab.controller.tables import IPV4, UDP

#: Seconds for which an answer may be kept: shorter than any event lasts.
_TIME_TO_LIVE_S = 0
_FAMILIES = {dns.rdatatype.A: 4, dns.rdatatype.AAAA: 6}


class Names:
    """The addresses of hosts, by the names `HOST` and `HOST.INTERFACE`."""

    def __init__(self, network: Network) -> None:
        self._addresses: dict[dns.name.Name, list[str]] = {}
        for address, interface in network.interface_by_address.items():
            for name in (network.node(interface), interface):
                self._addresses.setdefault(dns.name.from_text(name.lower()), []).append(address)

    def answer(self, question: bytes) -> bytes | None:
        """Returns the answer to a query; None if it is none."""
        try:
            query = dns.message.from_wire(question)
        except dns.exception.DNSException:
            return None
        if query.flags & dns.flags.QR or not query.question:
            return None
        return self._answered(query).to_wire()

    def _answered(self, query: dns.message.Message) -> dns.message.Message:
        asked = query.question[0]
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.AA
        known = self._addresses.get(asked.name.canonicalize())
        if known is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
            return answer
        family = _FAMILIES.get(asked.rdtype)
        found = [address for address in known if ip_address(address).version == family]
        if found:
            answer.answer.append(dns.rrset.from_text_list(asked.name, _TIME_TO_LIVE_S, "IN", asked.rdtype, found))
        return answer


def reply_frame(frame: bytes, question: Packet, answer: bytes) -> bytes:
    """Returns the frame that carries an answer back to where a question came from."""
    length = UDP_HEADER_BYTES + len(answer)
    ends = [ip_address(end).packed for end in (question.destination, question.source)]
    ports = question.destination_port, question.source_port
    pseudo = b"".join(ends) + struct.pack("!IHH", length, 0, UDP)
    without = struct.pack("!HHHH", *ports, length, 0) + answer
    udp = struct.pack("!HHHH", *ports, length, checksum(pseudo + without) or 0xFFFF) + answer
    ip = _ipv4(ends, length) if question.ethernet_type == IPV4 else _ipv6(ends, length)
    return frame[6:12] + frame[0:6] + frame[12:ETHERNET_BYTES] + ip + udp


def _ipv4(ends: list[bytes], length: int) -> bytes:
    fields = (0x45, 0, 20 + length, 0, 0, 64, UDP)
    unsummed = struct.pack("!BBHHHBBH", *fields, 0) + b"".join(ends)
    return struct.pack("!BBHHHBBH", *fields, checksum(unsummed)) + b"".join(ends)


def _ipv6(ends: list[bytes], length: int) -> bytes:
    header = struct.pack("!IHBB", 6 << 28, length, UDP, 64) + b"".join(ends)
    assert len(header) == IPV6_HEADER_BYTES
    return header


def checksum(covered: bytes) -> int:
    """Returns the Internet checksum (RFC 1071)."""
    padded = covered + bytes(len(covered) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
