"""The switches of a resolved experiment: their numbers, ports and links, and the addresses of
hosts.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address, ip_interface
from typing import Any

from mptcplab.errors import SpecError, Where

Experiment = Mapping[str, Any]
#: Links of a way in order, with the direction in which each is used.
Hops = Sequence[Mapping[str, str]]

#: The port at which the first flow is accepted; others follow (crates/experiment/src/addressing).
FIRST_PORT = 5001


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a controlled switch."""

    switch: str
    number: int
    interface: str
    link: str


@dataclass(frozen=True, slots=True)
class Step:
    """What a switch does with the packets of a way: those that arrive at one
    port leave by another.
    """

    switch: str
    in_port: int
    out_port: int


class Network:
    """The parts of a resolved experiment that the controller needs, by their ids.

    The numbers are those with which the fabric is built: the datapath id of a node is its index
    among nodes plus 1, a port is the index of its interface plus 1, and the index of an interface
    is in its link-layer address.
    """

    def __init__(self, experiment: Experiment) -> None:
        self.experiment = experiment
        self.switches = {
            node["id"]: index for index, node in enumerate(experiment["nodes"], start=1) if node["kind"] == "openflow"
        }
        self.links: dict[str, Any] = {link["id"]: link for link in experiment["links"]}
        self.interfaces: dict[str, Any] = {one["id"]: one for one in experiment["interfaces"]}
        self.ports = {
            one["id"]: Port(one["node"], number, one["id"], one["link"])
            for number, one in enumerate(experiment["interfaces"], start=1)
            if one["node"] in self.switches
        }
        self._index_of_interface = {one["id"]: index for index, one in enumerate(experiment["interfaces"])}
        self.index_of_link = {link: index for index, link in enumerate(self.links)}
        self._hosts = {host["id"] for host in experiment["hosts"]}

    @cached_property
    def switch_by_number(self) -> dict[int, str]:
        """The names of switches by their datapath ids."""
        return {number: name for name, number in self.switches.items()}

    @cached_property
    def port_by_number(self) -> dict[tuple[str, int], Port]:
        """The ports by switch and number."""
        return {(port.switch, port.number): port for port in self.ports.values()}

    def ends(self, hop: Mapping[str, str]) -> tuple[str, str]:
        """Returns the interfaces at which a hop begins and ends."""
        link = self.links[hop["link"]]
        return (link["a"], link["b"]) if hop["direction"] == "forward" else (link["b"], link["a"])

    def node(self, interface: str) -> str:
        """Returns the host or node of an interface."""
        return str(self.interfaces[interface]["node"])

    def is_host(self, node: str) -> bool:
        """Returns whether a node is a host."""
        return node in self._hosts

    def steps(self, hops: Hops, place: str) -> tuple[Step, ...]:
        """Returns what the switches of a way do. Raises SpecError if it is torn or passes a switch
        twice.
        """
        found = tuple(self._steps(hops, place))
        passed = [step.switch for step in found]
        for switch in passed:
            if passed.count(switch) > 1:
                raise SpecError(f"the route passes {switch} twice", Where(field=place), allowed="each switch once")
        return found

    def _steps(self, hops: Hops, place: str) -> Iterator[Step]:
        for hop, following in itertools.pairwise(hops):
            arrival, departure = self.ends(hop)[1], self.ends(following)[0]
            if self.node(arrival) != self.node(departure):
                problem = f"{hop['link']} ends at {self.node(arrival)}, and {following['link']} begins elsewhere"
                raise SpecError(problem, Where(field=place), allowed="links that follow each other")
            if arrival in self.ports:
                yield Step(self.node(arrival), self.ports[arrival].number, self.ports[departure].number)

    def addresses(self, interface: str) -> list[str]:
        """Returns the addresses that packets of an interface carry: its own, and those of NATs that
        hide it.
        """
        own = self.interfaces[interface]
        given = [str(ip_interface(own[family]).ip) for family in ("ipv4", "ipv6") if own[family]]
        return [*given, *self._outside.get(interface, ())]

    @cached_property
    def interface_by_address(self) -> dict[str, str]:
        """The interfaces of hosts by the addresses that their packets carry."""
        mine = (one for one in self.interfaces if self.is_host(self.node(one)))
        return {address: interface for interface in mine for address in self.addresses(interface)}

    @cached_property
    def _outside(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for box in self.experiment["middleboxes"]:
            if box["element"]["kind"] == "nat":
                hidden = self.far_end(box["at"]) if box["direction"] == "arriving" else box["at"]
                outside = [str(ip_address(box["element"][family])) for family in ("ipv4", "ipv6")]
                found.setdefault(hidden, []).extend(outside)
        return found

    def far_end(self, interface: str) -> str:
        """Returns the interface at the other end of the link."""
        link = self.links[self.interfaces[interface]["link"]]
        return str(link["b"] if link["a"] == interface else link["a"])

    def mac(self, interface: str) -> str:
        """Returns the link-layer address of an interface."""
        octets = self._index_of_interface[interface].to_bytes(4, "big")
        return "02:00:" + ":".join(f"{octet:02x}" for octet in octets)


def port_of_flow(index: int) -> int:
    """Returns the port at which the flow with this index is accepted."""
    return FIRST_PORT + index


def turned(hops: Hops) -> list[dict[str, str]]:
    """Returns the same links in the opposite direction."""
    other = {"forward": "backward", "backward": "forward"}
    return [{"link": hop["link"], "direction": other[hop["direction"]]} for hop in reversed(hops)]
