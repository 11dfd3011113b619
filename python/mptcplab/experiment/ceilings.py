"""The most payload a flow can carry: its links' rates, less the headers of its transport."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

IPV4_HEADER = 20
IPV6_HEADER = 40
UDP_HEADER = 8
TCP_HEADER = 20
TIMESTAMP_OPTION = 12
# DSS with data sequence number, subflow offset, length and data acknowledgment: what full segments of Linux carry.
DSS_OPTION = 24


@dataclass(frozen=True)
class Packets:
    """The full packets of a flow: payload and headers in bytes."""

    payload: int
    headers: int

    def ceiling(self, rate_bps: int, overhead_bytes: int) -> int:
        """Payload bits per second at a rate that counts `overhead_bytes` beyond IP."""
        return rate_bps * self.payload // (self.payload + self.headers + overhead_bytes)


def full_packets(transport: str, mtu_bytes: int, datagram_bytes: int | None, *, is_ipv6: bool) -> Packets:
    """The packets of a transport: of 1500 bytes IPv4, TCP carries 1448, MPTCP 1424, UDP what the application sends."""
    ip_header = IPV6_HEADER if is_ipv6 else IPV4_HEADER
    if transport == "udp":
        headers = ip_header + UDP_HEADER
        return Packets(datagram_bytes or mtu_bytes - headers, headers)
    headers = ip_header + TCP_HEADER + TIMESTAMP_OPTION + (DSS_OPTION if transport == "mptcp" else 0)
    return Packets(mtu_bytes - headers, headers)


@dataclass(frozen=True)
class Capacity:
    """What a path needs of one serializer: a direction of a link, or a medium."""

    resource: str
    payload_bps: int


def path_ceiling(capacities: Iterable[Capacity]) -> int | None:
    """The tightest on a path; a medium that is crossed twice has half for each. None without any limit."""
    listed = list(capacities)
    crossings = Counter(capacity.resource for capacity in listed)
    return min((capacity.payload_bps // crossings[capacity.resource] for capacity in listed), default=None)


def flow_ceiling(paths: Sequence[Sequence[Capacity]]) -> int | None:
    """The most that all paths carry together; what two paths share counts once. None if some path has no limit."""
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
    """Maximum flow with every serializer as a vertex that holds its rate."""
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
