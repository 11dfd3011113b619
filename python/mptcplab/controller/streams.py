"""Streams: the packets of one direction of a path, by which match entries forward them and over
which switches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from mptcplab.controller.network import Experiment, Hops, Network, Step, port_of_flow, turned
from mptcplab.controller.tables import IPV4, IPV6, TCP, UDP, Match
from mptcplab.errors import SpecError, Where

#: Flow id and index of the path.
PathKey = tuple[str, int]
Side = Literal["there", "back"]

PRIORITY_OF_PAIR = 100
PRIORITY_OF_FLOW = 200
PRIORITY_OF_PIN = 300


@dataclass(frozen=True, slots=True)
class Way:
    """The links of a path from the sender to the receiver, and from the receiver back."""

    there: tuple[tuple[str, str], ...]
    back: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, there: Hops, back: Hops | None = None) -> Way:
        """Makes a way of hops, back over the same links unless others are given."""
        return cls(_frozen(there), _frozen(turned(there) if back is None else back))

    def hops(self, side: Side) -> list[dict[str, str]]:
        """Returns the hops of one direction."""
        return [{"link": link, "direction": direction} for link, direction in getattr(self, side)]


def _frozen(hops: Hops) -> tuple[tuple[str, str], ...]:
    return tuple((hop["link"], hop["direction"]) for hop in hops)


@dataclass(frozen=True, slots=True)
class Stream:
    """Packets that the same entries forward."""

    key: PathKey
    side: Side
    priority: int
    match: Match
    steps: tuple[Step, ...]


def described_ways(experiment: Experiment) -> dict[PathKey, Way]:
    """Returns the ways of all paths as described. Raises SpecError where
    routers choose the links.
    """
    ways = {}
    for flow in experiment["flows"]:
        for index, path in enumerate(flow["paths"]):
            if path["routed"]:
                raise SpecError(
                    "routers choose the links of this path, so no entries can be computed",
                    Where(field=f"flows.{flow['id']}"),
                    allowed="routers without next_hop between controlled switches",
                )
            ways[flow["id"], index] = Way.of(path["hops"])
    return ways


class Streams:
    """Computes the streams of all paths, for any ways that they have."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._flows: Sequence[Mapping[str, Any]] = network.experiment["flows"]
        self._indices = {flow["id"]: index for index, flow in enumerate(self._flows)}
        #: The streams of each path on its last way, because a failure changes few of them.
        self._latest: dict[PathKey, tuple[Way, list[Stream]]] = {}
        self._pairs: dict[PathKey, list[tuple[str, str]]] = {}

    def of_ways(self, ways: Mapping[PathKey, Way]) -> list[Stream]:
        """Returns the streams that entries can tell apart beforehand.

        The first path between two addresses has entries for the addresses alone. A flow whose first
        path between the same addresses takes other links has entries for its port as well. Further
        paths of one flow between the same addresses differ only in the ports of their subflows
        (`connections`).
        """
        by_match: dict[Match, Stream] = {}
        first: dict[tuple[str, Match], Stream] = {}
        for stream in self._of_all_paths(ways):
            owner = by_match.setdefault(stream.match, stream)
            is_first = first.setdefault((stream.key[0], stream.match), stream) is stream
            if is_first and owner.steps != stream.steps:
                own = self._of_flow(stream)
                by_match[own.match] = own
        return list(by_match.values())

    def _of_all_paths(self, ways: Mapping[PathKey, Way]) -> Iterator[Stream]:
        for key, way in ways.items():
            yield from self.of_path(key, way)

    def of_path(self, key: PathKey, way: Way) -> list[Stream]:
        """Returns the streams of the address pairs of a path, in both families and directions."""
        way_before, found = self._latest.get(key, (None, []))
        if way_before != way:
            found = self._of_path(key, way)
            self._latest[key] = way, found
        return found

    def _of_path(self, key: PathKey, way: Way) -> list[Stream]:
        place = f"flows.{key[0]}.paths.{key[1]}"
        steps = {side: self._network.steps(way.hops(side), place) for side in ("there", "back")}
        found = []
        for local, remote in self.pairs(key):
            found.append(Stream(key, "there", PRIORITY_OF_PAIR, pair_match(local, remote), steps["there"]))
            found.append(Stream(key, "back", PRIORITY_OF_PAIR, pair_match(remote, local), steps["back"]))
        return found

    def pairs(self, key: PathKey) -> list[tuple[str, str]]:
        """Returns the address pairs of a path, seen from the sender."""
        if key not in self._pairs:
            self._pairs[key] = self._pairs_of(key)
        return self._pairs[key]

    def _pairs_of(self, key: PathKey) -> list[tuple[str, str]]:
        path = self._flows[self.index(key[0])]["paths"][key[1]]
        ends = [self._network.addresses(path[end]) for end in ("local", "remote")]
        return [(local, remote) for local in ends[0] for remote in ends[1] if (":" in local) == (":" in remote)]

    def index(self, flow: str) -> int:
        """Returns the index of a flow."""
        return self._indices[flow]

    def is_to_acceptor(self, flow: Mapping[str, Any], side: Side) -> bool:
        """Returns whether packets of this direction go to the port at which
        the flow is accepted.
        """
        is_opened_by_sender: bool = flow["transport"] == "udp" or flow["opened_by"] == "from"
        return is_opened_by_sender == (side == "there")

    def _of_flow(self, stream: Stream) -> Stream:
        """Returns the same stream for the packets of its flow alone."""
        index = self.index(stream.key[0])
        flow = self._flows[index]
        if flow["app"]["kind"] == "command":
            raise SpecError(
                "a command can use any port, so its packets cannot be told apart from those of another flow between "
                "the same addresses over other links",
                Where(field=f"flows.{flow['id']}"),
                allowed="the same links, or other interfaces",
            )
        port = port_of_flow(index)
        is_there = self.is_to_acceptor(flow, stream.side)
        match = replace(
            stream.match,
            protocol=UDP if flow["transport"] == "udp" else TCP,
            source_port=None if is_there else port,
            destination_port=port if is_there else None,
        )
        return Stream(stream.key, stream.side, PRIORITY_OF_FLOW, match, stream.steps)

    def undistinguished(self, ways: Mapping[PathKey, Way]) -> list[Stream]:
        """Returns the streams of paths that share their addresses, but not their links, with an
        earlier path of the same flow. Their subflows can be told apart only when they open.
        """
        first: dict[tuple[str, Match], Stream] = {}
        found = []
        for stream in self._of_all_paths(ways):
            owner = first.setdefault((stream.key[0], stream.match), stream)
            if owner.steps != stream.steps:
                found.append(stream)
        return found


def pair_match(source: str, destination: str) -> Match:
    """Returns the match of the packets from one address to another."""
    return Match(IPV6 if ":" in source else IPV4, source, destination)
