"""Answers ARP (RFC 826) for the addresses of the description, for programs whose hosts ask."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv4Network

from mptcplab.controller.network import Network
from mptcplab.controller.tables import ARP, IPV4

#: The link-layer address of the name server that the controller plays.
MAC_OF_NAME_SERVER = "02:6d:70:00:00:35"

_ETHERNET = 1
_REQUEST, _REPLY = 1, 2
_FORM = struct.Struct("!HHBBH6s4s6s4s")


def name_servers(network: Network) -> dict[str, str]:
    """Returns the address at which each IPv4 subnet reaches the name server: its last one for
    hosts.
    """
    subnets = {subnet["id"]: IPv4Network(subnet["ipv4"]) for subnet in network.experiment["subnets"]}
    last = {number: str(subnet[-2]) for number, subnet in subnets.items() if subnet.num_addresses > 2}
    return {
        interface["id"]: last[interface["subnet"]]
        for interface in network.interfaces.values()
        if interface["ipv4"] and interface["subnet"] in last
    }


class Neighbours:
    """The link-layer addresses of the description."""

    def __init__(self, network: Network) -> None:
        servers = dict.fromkeys(name_servers(network).values(), MAC_OF_NAME_SERVER)
        hosts = {address: network.mac(interface) for address, interface in network.interface_by_address.items()}
        self._mac = {**servers, **hosts}

    def answer(self, frame: bytes) -> bytes | None:
        """Returns the answer to a request; None if the frame is none, or its address is not
        described.
        """
        if len(frame) < 14 + _FORM.size or int.from_bytes(frame[12:14], "big") != ARP:
            return None
        *form, operation, asker_mac, asker, _, asked = _FORM.unpack_from(frame, 14)
        mac = self._mac.get(str(IPv4Address(asked)))
        if form != [_ETHERNET, IPV4, 6, 4] or operation != _REQUEST or mac is None or asker == asked:
            return None
        mine = bytes.fromhex(mac.replace(":", ""))
        head: bytes = asker_mac + mine + ARP.to_bytes(2, "big")
        return head + _FORM.pack(_ETHERNET, IPV4, 6, 4, _REPLY, mine, asked, asker_mac, asker)
