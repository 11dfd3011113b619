"""Networks as graphs: generators of common shapes, subnets and addresses, and the routes between
interfaces.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from mptcplab.shortest_ways import ShortestWays

NodeKind: TypeAlias = Literal["host", "router", "switch", "ap", "openflow"]
Family: TypeAlias = Literal["ipv4", "ipv6"]
Value = TypeVar("Value")
IPv4: TypeAlias = ipaddress.IPv4Interface
IPv6: TypeAlias = ipaddress.IPv6Interface

_MOST_ROUTES = 64
_MOST_PER_SUBNET = 254


# ---- generators ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class NotedValue:
    """A value that a generator gives a field of one link, with its origin in words."""

    value: str
    note: str


@dataclass(frozen=True)
class PlannedLink:
    """A link of a generator. `role` selects the generator's settings that apply to it, in place of
    `values`.
    """

    id: str
    ends: tuple[str, str]
    role: str = "link"
    values: Mapping[str, NotedValue] = field(default_factory=dict)


@dataclass
class Blueprint:
    """The result of a generator: hosts, nodes and links."""

    hosts: list[str] = field(default_factory=list)
    nodes: dict[str, str] = field(default_factory=dict)
    links: list[PlannedLink] = field(default_factory=list)


def parallel_links(n: int, between: Sequence[str]) -> Blueprint:
    """Two hosts with links `link1` to `linkN`. Each link joins `eth1` to `ethN` of both hosts."""
    left, right = between
    links = [PlannedLink(f"link{i}", (f"{left}.eth{i}", f"{right}.eth{i}")) for i in range(1, n + 1)]
    return Blueprint([left, right], {}, links)


def dumbbell(left: int, right: int) -> Blueprint:
    """Hosts `left1`.. and `right1`.. on routers `west` and `east`. Access links have the names of
    their hosts.

    The link between the routers is `bottleneck`.
    """
    sides = [*((f"left{i}", "west") for i in range(1, left + 1)), *((f"right{i}", "east") for i in range(1, right + 1))]
    access = [PlannedLink(host, (f"{host}.eth0", router), "access") for host, router in sides]
    middle = PlannedLink("bottleneck", ("west", "east"), "bottleneck")
    return Blueprint([host for host, _ in sides], {"west": "router", "east": "router"}, [*access, middle])


def star(n: int) -> Blueprint:
    """Hosts `h1` to `hN` on the switch `hub`, with links `link1` to `linkN`."""
    links = [PlannedLink(f"link{i}", (f"h{i}.eth0", "hub")) for i in range(1, n + 1)]
    return Blueprint([f"h{i}" for i in range(1, n + 1)], {"hub": "switch"}, links)


def full_mesh(n: int) -> Blueprint:
    """Hosts `h1` to `hN`, each pair with a link `hA-hB`. Interface `ethB` of host A leads to host
    B.
    """
    pairs = itertools.combinations(range(1, n + 1), 2)
    links = [PlannedLink(f"h{a}-h{b}", (f"h{a}.eth{b}", f"h{b}.eth{a}")) for a, b in pairs]
    return Blueprint([f"h{i}" for i in range(1, n + 1)], {}, links)


def fattree(k: int, homes: int) -> Blueprint:
    """A k-ary fat tree of routers: hosts `h1` to `h(k^3/4)`, `edgeP-I` and `aggP-I` in pod P,
    `core1` to `core(k^2/4)`.

    Links are named after their two ends, as in `h1-edge1-1`. With two homes, `eth1` is at the next
    edge router.
    """
    half = k // 2
    plan = Blueprint(nodes={f"core{i}": "router" for i in range(1, half * half + 1)})

    def connect(lower: str, upper: str) -> None:
        plan.links.append(PlannedLink(f"{lower.partition('.')[0]}-{upper}", (lower, upper)))

    for pod, edge in itertools.product(range(1, k + 1), range(1, half + 1)):
        plan.nodes |= {f"edge{pod}-{edge}": "router", f"agg{pod}-{edge}": "router"}
        for _ in range(half):
            plan.hosts.append(f"h{len(plan.hosts) + 1}")
            for home in range(homes):
                connect(f"{plan.hosts[-1]}.eth{home}", f"edge{pod}-{(edge - 1 + home) % half + 1}")
    for pod, first, second in itertools.product(range(1, k + 1), range(1, half + 1), range(1, half + 1)):
        connect(f"edge{pod}-{first}", f"agg{pod}-{second}")
        connect(f"agg{pod}-{first}", f"core{(first - 1) * half + second}")
    return plan


def attached(plan: Blueprint, hosts: Mapping[str, str], interfaces: int) -> None:
    """Adds hosts, each with a number of interfaces eth0, eth1 .. at its node. Their links are named
    HOST-eth0 ..
    """
    for host, node in hosts.items():
        plan.hosts.append(host)
        plan.links += [
            PlannedLink(f"{host}-eth{number}", (f"{host}.eth{number}", node), "access") for number in range(interfaces)
        ]


# ---- wiring --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Port:
    """An interface of a host, or a port of another node."""

    id: str
    node: str
    link: str
    families: tuple[Family, ...] = ("ipv4", "ipv6")
    """The address families of its addresses."""

    def family_towards(self, other: Port) -> Family | None:
        """Returns the family of packets between two ports: IPv4 if both have it; None if they have
        none in common.
        """
        return next((family for family in self.families if family in other.families), None)


@dataclass(frozen=True, slots=True)
class Hop:
    """A link on a path. ``forward`` is the direction from the first end of
    `between` to the second.
    """

    link: str
    forward: bool


Route: TypeAlias = "tuple[Hop, ...]"


class Network:
    """The ports and links of each node, from which subnets and routes follow.

    `choosers` are the routers with their own rule for a choice among equal next hops.
    """

    def __init__(
        self,
        kinds: Mapping[str, NodeKind],
        links: Mapping[str, tuple[Port, Port]],
        choosers: Collection[str] = (),
    ) -> None:
        self.kinds = kinds
        self.choosers = frozenset(choosers)
        self.links = links
        self.ports: dict[str, Port] = {port.id: port for ends in links.values() for port in ends}
        self._ports_of: dict[str, list[Port]] = {}
        for port in self.ports.values():
            self._ports_of.setdefault(port.node, []).append(port)
        self.subnet_of, self.subnet_count = self._subnets()
        self._graphs: dict[bool, Any] = {}
        self._before: dict[tuple[str, bool], dict[str, list[str]]] = {}
        self._between: dict[tuple[str, str, bool], ShortestWays] = {}

    def is_layer2(self, node: str) -> bool:
        """Returns whether the node forwards frames. Such a node joins its links to one subnet."""
        return self.kinds[node] in ("switch", "ap", "openflow")

    def ports_of(self, node: str) -> list[Port]:
        """Returns the ports of a node in order of declaration."""
        return self._ports_of.get(node, [])

    def _subnets(self) -> tuple[dict[str, int], int]:
        """Returns the subnet of each port. Subnets are numbered in order of the links."""
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

    def routes(self, start: Port, end: Port) -> Routes | None:
        """Returns the shortest routes between interfaces of two hosts; None without a route. Hosts
        do not forward.
        """
        if start.link == end.link:
            return Routes(self, start, end, None)
        first, last = self.other_end(start).node, self.other_end(end).node
        if "host" in (self.kinds[first], self.kinds[last]):
            return None
        same_subnet = self.subnet_of[start.id] == self.subnet_of[end.id]
        ways = self._ways(first, last, same_subnet)
        return Routes(self, start, end, ways) if ways.vertices else None

    def route_through(self, start: Port, nodes: Sequence[str], end: Port) -> Route | None:
        """Returns the route over the given nodes and the first of parallel links; None if a link is
        missing.
        """
        between = self._chain(nodes)
        if between is None or not nodes:
            return None
        if (self.other_end(start).node, self.other_end(end).node) != (nodes[0], nodes[-1]):
            return None
        return self.as_hops(start.node, (start.link, *between, end.link))

    def _chain(self, nodes: Sequence[str]) -> list[str] | None:
        links = [self._link_between(a, b) for a, b in itertools.pairwise(nodes)]
        return None if None in links else [link for link in links if link is not None]

    def _link_between(self, a: str, b: str) -> str | None:
        return next((link for link, ends in self.links.items() if {ends[0].node, ends[1].node} == {a, b}), None)

    def other_end(self, port: Port) -> Port:
        """Returns the port at the other end of the link."""
        a, b = self.links[port.link]
        return b if port.id == a.id else a

    def hop(self, link: str, leaving: str) -> Hop:
        """Returns the hop over a link, away from the node ``leaving``."""
        return Hop(link, self.links[link][0].node == leaving)

    def as_hops(self, node: str, links: Sequence[str]) -> Route:
        """Returns the hops over successive links, which begin at ``node``."""
        hops = []
        for link in links:
            hops.append(self.hop(link, node))
            a, b = self.links[link]
            node = b.node if a.node == node else a.node
        return tuple(hops)

    def _ways(self, first: str, last: str, layer2_only: bool) -> ShortestWays:
        """Returns the shortest ways between two nodes other than hosts."""
        key = (first, last, layer2_only)
        if key not in self._between:
            self._between[key] = ShortestWays(self._predecessors(first, layer2_only), f"node {last}")
        return self._between[key]

    def _predecessors(self, first: str, layer2_only: bool) -> dict[str, list[str]]:
        """Returns every vertex reachable from a node, with its predecessors on shortest ways."""
        import networkx  # imported here because it takes longer than resolving an experiment

        key = (first, layer2_only)
        if key not in self._before:
            graph = self._graph(layer2_only)
            source = f"node {first}"
            # The return type in the stubs covers options that are not used here.
            found: Any = networkx.predecessor(graph, source) if source in graph else {source: []}
            self._before[key] = found
        return self._before[key]

    def _graph(self, layer2_only: bool) -> Any:
        """Returns the graph with nodes and links as vertices, so that parallel links give different
        routes.
        """
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


class Routes:
    """The shortest routes between the interfaces of two hosts."""

    def __init__(self, network: Network, start: Port, end: Port, ways: ShortestWays | None) -> None:
        self._network = network
        self._start = start
        self._end = end
        self._ways = ways

    def __len__(self) -> int:
        """Returns the number of routes, at most 64."""
        return 1 if self._ways is None else min(len(self._ways), _MOST_ROUTES)

    def __getitem__(self, number: int) -> Route:
        """Returns route `number`, from 0."""
        if self._ways is None:
            return self.ends[:1]
        between = [vertex.removeprefix("link ") for vertex in self._ways[number][1::2]]
        return self._network.as_hops(self._start.node, (self._start.link, *between, self._end.link))

    @property
    def ends(self) -> Route:
        """The first and the last hop."""
        first = self._network.hop(self._start.link, self._start.node)
        last = self._network.hop(self._end.link, self._end.node)
        return first, Hop(last.link, not last.forward)

    @property
    def are_chosen(self) -> bool:
        """Whether a router on the way chooses among the routes by its own rule."""
        if self._ways is None:
            return False
        nodes = (vertex.removeprefix("node ") for vertex in self._ways.vertices)
        return not self._network.choosers.isdisjoint(nodes)

    def best(
        self, start: Value, extended: Callable[[Value, Hop], Value], chosen: Callable[[Sequence[Value]], Value]
    ) -> Value:
        """Returns the value of the best way between the first and the last hop.

        Each hop changes the value by `extended`. Where ways meet, `chosen` selects a value.
        """
        if self._ways is None:
            return start

        def step(value: Value, a: str, b: str) -> Value:
            link = b.removeprefix("link ")
            return value if link == b else extended(value, self._network.hop(link, a.removeprefix("node ")))

        return self._ways.values(start, step, chosen)[self._ways.vertices[-1]]


# ---- addresses -----------------------------------------------------------------------------------


class AddressError(Exception):
    """Addresses that contradict each other. `port` is the port whose address was given later."""

    def __init__(self, port: str, problem: str) -> None:
        super().__init__(problem)
        self.port = port
        self.problem = problem


@dataclass(frozen=True)
class Addresses:
    """The IPv4 and IPv6 addresses by port, and the subnets by number."""

    ipv4: dict[str, IPv4]
    ipv6: dict[str, IPv6]
    networks: list[tuple[ipaddress.IPv4Network, ipaddress.IPv6Network]]


def assign_addresses(network: Network, wanted4: Mapping[str, IPv4], wanted6: Mapping[str, IPv6]) -> Addresses:
    """Assigns 10.x.y.0/24 and fd00:x:y::/64 to subnets in order of declaration. Wanted addresses
    take precedence.

    Raises AddressError if addresses overlap or a subnet is full.
    """
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
    return Addresses(_of_family("ipv4", ipv4, network), _of_family("ipv6", ipv6, network), networks)


def _of_family(family: Family, numbered: Mapping[str, Value], network: Network) -> dict[str, Value]:
    """Drops the addresses of ports without this family.

    All ports are numbered in both families, so that the number in one does not depend on the other.
    """
    return {port: address for port, address in numbered.items() if family in network.ports[port].families}


def _numbers() -> Iterator[tuple[int, int]]:
    return itertools.product(range(1, 255), range(1, 255))


def _free(automatic: Iterator[Any], given: Mapping[int, Any]) -> Any:
    """Returns the next automatic network that overlaps none of the given ones."""
    return next(candidate for candidate in automatic if not any(candidate.overlaps(net) for net in given.values()))


def _given_networks(network: Network, wanted: Mapping[str, Any]) -> dict[int, Any]:
    """Returns the networks of the wanted addresses, by subnet. Raises AddressError if they
    contradict each other.
    """
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
    """Gives each port without an address the lowest free one of its subnet. Switches need none."""
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
    """Yields the addresses of a subnet that ports can get."""
    last = min(net.num_addresses - 1, _MOST_PER_SUBNET + 1)
    return (net.network_address + number for number in range(1, last))
