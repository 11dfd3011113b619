"""Capacity of flows: the largest rate of payload, from the rates of links and the headers of the
transport.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

IPV4_HEADER = 20
IPV6_HEADER = 40
UDP_HEADER = 8
TCP_HEADER = 20
TIMESTAMP_OPTION = 12
# DSS with data sequence number, subflow sequence number, length and DATA_ACK, as in full segments
# of Linux.
DSS_OPTION = 24


@dataclass(frozen=True)
class Packets:
    """The full packets of a flow: bytes of payload and headers."""

    payload: int
    headers: int

    def ceiling(self, rate_bps: int, overhead_bytes: int) -> int:
        """Returns the payload bits per second at a rate that counts `overhead_bytes` beyond IP."""
        return rate_bps * self.payload // (self.payload + self.headers + overhead_bytes)


def full_packets(transport: str, mtu_bytes: int, datagram_bytes: int | None, *, is_ipv6: bool) -> Packets:
    """Returns the full packets of a transport. Of 1500 bytes with IPv4, TCP carries 1448 and MPTCP
    1424; UDP carries the datagrams of the application.
    """
    ip_header = IPV6_HEADER if is_ipv6 else IPV4_HEADER
    if transport == "udp":
        headers = ip_header + UDP_HEADER
        return Packets(datagram_bytes or mtu_bytes - headers, headers)
    headers = ip_header + TCP_HEADER + TIMESTAMP_OPTION + (DSS_OPTION if transport == "mptcp" else 0)
    return Packets(mtu_bytes - headers, headers)


@dataclass(frozen=True)
class Capacity:
    """The capacity of one serializer for a path: of a direction of a link, or of a medium."""

    resource: str
    payload_bps: int


def path_ceiling(capacities: Iterable[Capacity]) -> int | None:
    """Returns the smallest capacity on a path, or None without a limit. A medium that a path
    crosses twice counts half.
    """
    listed = list(capacities)
    crossings = Counter(capacity.resource for capacity in listed)
    return min((capacity.payload_bps // crossings[capacity.resource] for capacity in listed), default=None)


def flow_ceiling(paths: Sequence[Sequence[Capacity]]) -> int | None:
    """Returns the capacity of all paths together, or None if some path has no limit. Serializers
    that paths share count once.
    """
    ceilings = [path_ceiling(path) for path in paths]
    limits = [ceiling for ceiling in ceilings if ceiling is not None]
    if len(limits) < len(ceilings):
        return None
    used = Counter(resource for path in paths for resource in {capacity.resource for capacity in path})
    if max(used.values(), default=0) <= 1:
        return sum(limits)
    if len({frozenset(capacity.resource for capacity in path) for path in paths}) == 1:
        return limits[0]
    return _maximum_flow(paths, limits)


def _maximum_flow(paths: Sequence[Sequence[Capacity]], limits: Sequence[int]) -> int:
    """Returns the maximum flow through a graph in which each serializer is an edge with its
    capacity.
    """
    import networkx  # only where paths share links

    graph: networkx.DiGraph[str] = networkx.DiGraph()
    for number, (path, limit) in enumerate(zip(paths, limits, strict=True)):
        graph.add_edge("source", f"path {number}", capacity=limit)
        before = f"path {number}"
        for capacity in path:
            graph.add_edge(f"{capacity.resource} in", f"{capacity.resource} out", capacity=capacity.payload_bps)
            graph.add_edge(before, f"{capacity.resource} in")
            before = f"{capacity.resource} out"
        graph.add_edge(before, "sink")
    return int(networkx.maximum_flow_value(graph, "source", "sink"))
