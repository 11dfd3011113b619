"""Networks as graphs: generators of common shapes, subnets and addresses, and the routes between interfaces."""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

NodeKind: TypeAlias = Literal["host", "router", "switch", "ap"]
IPv4: TypeAlias = ipaddress.IPv4Interface
IPv6: TypeAlias = ipaddress.IPv6Interface

_MOST_ROUTES = 64
_MOST_PER_SUBNET = 254


# ---- generators ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PlannedLink:
    """A link to be made; `role` says which of the generator's settings it gets."""

    id: str
    ends: tuple[str, str]
    role: str = "link"


@dataclass
class Blueprint:
    """What a generator makes."""

    hosts: list[str] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    links: list[PlannedLink] = field(default_factory=list)


def parallel_links(n: int, between: Sequence[str]) -> Blueprint:
    """Two hosts joined by links `link1` to `linkN`, from `eth1` to `ethN` of each."""
    left, right = between
    links = [PlannedLink(f"link{i}", (f"{left}.eth{i}", f"{right}.eth{i}")) for i in range(1, n + 1)]
    return Blueprint([left, right], {}, links)


def dumbbell(left: int, right: int) -> Blueprint:
    """Hosts `left1`.. and `right1`.. on routers `west` and `east`; the access links are named like their host, the middle is `bottleneck`."""
    sides = [*((f"left{i}", "west") for i in range(1, left + 1)), *((f"right{i}", "east") for i in range(1, right + 1))]
    access = [PlannedLink(host, (f"{host}.eth0", router), "access") for host, router in sides]
    middle = PlannedLink("bottleneck", ("west", "east"), "bottleneck")
    return Blueprint([host for host, _ in sides], {"west": "router", "east": "router"}, [*access, middle])


def star(n: int) -> Blueprint:
    """Hosts `h1` to `hN` on the switch `hub`, by links `link1` to `linkN`."""
    links = [PlannedLink(f"link{i}", (f"h{i}.eth0", "hub")) for i in range(1, n + 1)]
    return Blueprint([f"h{i}" for i in range(1, n + 1)], {"hub": "switch"}, links)


def full_mesh(n: int) -> Blueprint:
    """Hosts `h1` to `hN`, each pair joined by a link `hA-hB`; `ethB` of host A leads to host B."""
    pairs = itertools.combinations(range(1, n + 1), 2)
    links = [PlannedLink(f"h{a}-h{b}", (f"h{a}.eth{b}", f"h{b}.eth{a}")) for a, b in pairs]
    return Blueprint([f"h{i}" for i in range(1, n + 1)], {}, links)


def fattree(k: int) -> Blueprint:
    """A k-ary fat tree of routers: hosts `h1` to `h(k^3/4)`, `edgeP-I` and `aggP-I` in pod P, `core1` to `core(k^2/4)`.

    Links are named after their two ends, as in `h1-edge1-1`.
    """
    half = k // 2
    plan = Blueprint(nodes={f"core{i}": "router" for i in range(1, half * half + 1)})

    def connect(lower: str, upper: str) -> None:
        plan.links.append(PlannedLink(f"{lower.partition('.')[0]}-{upper}", (lower, upper)))

    for pod, edge in itertools.product(range(1, k + 1), range(1, half + 1)):
        plan.nodes |= {f"edge{pod}-{edge}": "router", f"agg{pod}-{edge}": "router"}
        for _ in range(half):
            plan.hosts.append(f"h{len(plan.hosts) + 1}")
            connect(f"{plan.hosts[-1]}.eth0", f"edge{pod}-{edge}")
    for pod, first, second in itertools.product(range(1, k + 1), range(1, half + 1), range(1, half + 1)):
        connect(f"edge{pod}-{first}", f"agg{pod}-{second}")
        connect(f"agg{pod}-{first}", f"core{(first - 1) * half + second}")
    return plan


# ---- wiring --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Port:
    """An interface of a host, or a port of a node between them."""

    id: str
    node: str
    link: str


@dataclass(frozen=True, slots=True)
class Hop:
    """One link on a path; forward is from the first end of `between` to the second."""

    link: str
    forward: bool


Route: TypeAlias = "tuple[Hop, ...]"


class Network:
    """Which port is on which link of which node: subnets and routes follow from it."""

    def __init__(self, kinds: Mapping[str, NodeKind], links: Mapping[str, tuple[Port, Port]]) -> None:
        self.kinds = kinds
        self.links = links
        self.ports: dict[str, Port] = {port.id: port for ends in links.values() for port in ends}
        self.subnet_of, self.subnet_count = self._subnets()
        self._graphs: dict[bool, Any] = {}
        self._between: dict[tuple[str, str, bool], list[tuple[str, ...]]] = {}

    def is_layer2(self, node: str) -> bool:
        """Whether the node forwards frames: then it joins its links to one subnet."""
        return self.kinds[node] in ("switch", "ap")

    def ports_of(self, node: str) -> list[Port]:
        """The ports of a node in order of declaration."""
        return [port for port in self.ports.values() if port.node == node]

    def _subnets(self) -> tuple[dict[str, int], int]:
        """The subnet of each port; numbered in order of the links."""
        leader: dict[str, str] = {}

        def find(key: str) -> str:
            while leader.setdefault(key, key) != key:
                leader[key] = leader[leader[key]]
                key = leader[key]
            return key

        for link, ends in self.links.items():
            for port in ends:
                # A switch is one vertex, so that all its links end up in one subnet.
                key = f"node {port.node}" if self.is_layer2(port.node) else f"port {port.id}"
                leader[find(key)] = find(f"link {link}")
        numbers: dict[str, int] = {}
        of_link = {link: numbers.setdefault(find(f"link {link}"), len(numbers)) for link in self.links}
        return {port.id: of_link[port.link] for port in self.ports.values()}, len(numbers)

    # ---- routes ----

    def routes(self, start: Port, end: Port) -> list[Route]:
        """The shortest routes from one host's interface to another's, at most 64; empty if there are none. Hosts do not forward."""
        if start.link == end.link:
            return [(self._hop(start.link, start.node),)]
        same_subnet = self.subnet_of[start.id] == self.subnet_of[end.id]
        first, last = self._other_end(start).node, self._other_end(end).node
        if "host" in (self.kinds[first], self.kinds[last]):
            return []
        inner = self._inner_routes(first, last, same_subnet)
        return [self._as_hops(start.node, (start.link, *links, end.link)) for links in inner]

    def route_through(self, start: Port, nodes: Sequence[str], end: Port) -> Route | None:
        """The route over the given nodes, None if two neighbours share no link; parallel links: the first."""
        between = self._chain(nodes)
        if between is None or not nodes:
            return None
        if (self._other_end(start).node, self._other_end(end).node) != (nodes[0], nodes[-1]):
            return None
        return self._as_hops(start.node, (start.link, *between, end.link))

    def _chain(self, nodes: Sequence[str]) -> list[str] | None:
        links = [self._link_between(a, b) for a, b in itertools.pairwise(nodes)]
        return None if None in links else [link for link in links if link is not None]

    def _link_between(self, a: str, b: str) -> str | None:
        return next((link for link, ends in self.links.items() if {ends[0].node, ends[1].node} == {a, b}), None)

    def _other_end(self, port: Port) -> Port:
        a, b = self.links[port.link]
        return b if port.id == a.id else a

    def _hop(self, link: str, leaving: str) -> Hop:
        return Hop(link, self.links[link][0].node == leaving)

    def _as_hops(self, node: str, links: Sequence[str]) -> Route:
        hops = []
        for link in links:
            hops.append(self._hop(link, node))
            a, b = self.links[link]
            node = b.node if a.node == node else a.node
        return tuple(hops)

    def _inner_routes(self, first: str, last: str, layer2_only: bool) -> list[tuple[str, ...]]:
        """The links of the shortest routes between two nodes that are no hosts."""
        key = (first, last, layer2_only)
        if key not in self._between:
            self._between[key] = [()] if first == last else list(self._shortest(*key))
        return self._between[key]

    def _shortest(self, first: str, last: str, layer2_only: bool) -> Iterator[tuple[str, ...]]:
        import networkx  # not before it is needed: its import takes longer than resolving an experiment

        graph = self._graph(layer2_only)
        source, target = f"node {first}", f"node {last}"
        if source not in graph or target not in graph or not networkx.has_path(graph, source, target):
            return
        for path in itertools.islice(networkx.all_shortest_paths(graph, source, target), _MOST_ROUTES):
            yield tuple(vertex.removeprefix("link ") for vertex in path[1::2])

    def _graph(self, layer2_only: bool) -> Any:
        """Nodes and links as vertices, so that parallel links are different routes."""
        import networkx

        if layer2_only not in self._graphs:
            graph: networkx.Graph[str] = networkx.Graph()
            forwards: Callable[[str], bool] = self.is_layer2 if layer2_only else lambda node: self.kinds[node] != "host"
            for link, (a, b) in self.links.items():
                if forwards(a.node) and forwards(b.node):
                    graph.add_edge(f"node {a.node}", f"link {link}")
                    graph.add_edge(f"link {link}", f"node {b.node}")
            self._graphs[layer2_only] = graph
        return self._graphs[layer2_only]


# ---- addresses -----------------------------------------------------------------------------------------------------


class AddressError(Exception):
    """Addresses that cannot be: `port` is where the later one was given."""

    def __init__(self, port: str, problem: str) -> None:
        super().__init__(problem)
        self.port = port
        self.problem = problem


@dataclass(frozen=True)
class Addresses:
    """The addresses of all ports that have some, and the subnets, by number."""

    ipv4: dict[str, IPv4]
    ipv6: dict[str, IPv6]
    networks: list[tuple[ipaddress.IPv4Network, ipaddress.IPv6Network]]


def assign_addresses(network: Network, wanted4: Mapping[str, IPv4], wanted6: Mapping[str, IPv6]) -> Addresses:
    """10.x.y.0/24 and fd00:x:y::/64 per subnet in order of declaration; wanted addresses override. AddressError if they overlap."""
    given4 = _given_networks(network, wanted4)
    given6 = _given_networks(network, wanted6)
    automatic4 = (ipaddress.IPv4Network((f"10.{x}.{y}.0", 24)) for x, y in _numbers())
    automatic6 = (ipaddress.IPv6Network((f"fd00:{x}:{y}::", 64)) for x, y in _numbers())
    networks = [
        (given4.get(number) or _free(automatic4, given4), given6.get(number) or _free(automatic6, given6))
        for number in range(network.subnet_count)
    ]
    ipv4 = _number_ports(network, [net for net, _ in networks], wanted4)
    ipv6 = _number_ports(network, [net for _, net in networks], wanted6)
    return Addresses(ipv4, ipv6, networks)


def _numbers() -> Iterator[tuple[int, int]]:
    return itertools.product(range(1, 255), range(1, 255))


def _free(automatic: Iterator[Any], given: Mapping[int, Any]) -> Any:
    """The next automatic network that overlaps none of the given ones."""
    return next(candidate for candidate in automatic if not any(candidate.overlaps(net) for net in given.values()))


def _given_networks(network: Network, wanted: Mapping[str, Any]) -> dict[int, Any]:
    """The networks that wanted addresses fix, by subnet."""
    fixed: dict[int, tuple[str, Any]] = {}
    for port, address in wanted.items():
        subnet = network.subnet_of[port]
        for other, (other_port, net) in fixed.items():
            if other == subnet and net != address.network:
                raise AddressError(port, f"{address} is not in {net}, the subnet of {other_port} on the same link")
            if other != subnet and net.overlaps(address.network):
                raise AddressError(port, f"{address} overlaps {net}, the subnet of {other_port}")
        fixed[subnet] = (port, address.network)
    return {subnet: net for subnet, (_, net) in fixed.items()}


def _number_ports(network: Network, networks: Sequence[Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The lowest free address of its subnet for every port that has none yet; switches need none."""
    taken: dict[Any, str] = {}
    for name, address in wanted.items():
        if address.ip in taken:
            raise AddressError(name, f"{address} is already the address of {taken[address.ip]}")
        taken[address.ip] = name
    free = [_hosts_of(net) for net in networks]
    numbered: dict[str, Any] = {}
    for port in network.ports.values():
        if network.is_layer2(port.node):
            continue
        subnet = network.subnet_of[port.id]
        address = wanted.get(port.id)
        if address is None:
            ip = next((ip for ip in free[subnet] if ip not in taken), None)
            if ip is None:
                raise AddressError(port.id, f"the subnet {networks[subnet]} has no free address")
            address = ipaddress.ip_interface((ip, networks[subnet].prefixlen))
        numbered[port.id] = address
    return numbered


def _hosts_of(net: Any) -> Iterator[Any]:
    """The addresses of a subnet that ports may get."""
    last = min(net.num_addresses - 1, _MOST_PER_SUBNET + 1)
    return (net.network_address + number for number in range(1, last))
