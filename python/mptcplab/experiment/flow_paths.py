"""The paths of flows through the network, and their capacity."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mptcplab import air, capacities
from mptcplab.experiment import ceilings, directions
from mptcplab.experiment.base import described, nearest_hint
from mptcplab.experiment.ceilings import Capacity, Packets
from mptcplab.experiment.control import Control
from mptcplab.experiment.description import Experiment
from mptcplab.experiment.flows import Algorithm, App, Flow, PathManager
from mptcplab.experiment.names import expanded
from mptcplab.experiment.patterns import SingleFlow
from mptcplab.experiment.switched_paths import SwitchedPaths, costs_of_links
from mptcplab.topology import Hop, Network, Port, Route, Routes

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form

_DEFAULT_PORTS = 2
#: Where the packets of a flow are not known yet.
_FULL_PACKET_BYTES = 1500
_LEAST_IPV6_MTU = 1280


class _Between(NamedTuple):
    """The best value of each quantity over the routes that routers choose from. The rate is
    infinite without a limit.
    """

    rtt_ns: int
    rate_bps: float
    #: That of full packets.
    overhead_bytes: int


@dataclass(frozen=True)
class _Path:
    """A path of a flow: over the links of `route`, or over its first and last link and links
    between them that routers choose.
    """

    local: Port
    remote: Port
    route: Route
    between: _Between | None = None
    """Best values over the routes that routers choose from, or None if `route`
    is the whole path.
    """

    @property
    def is_possible(self) -> bool:
        """Whether both ends have addresses of one family."""
        return self.local.family_towards(self.remote) is not None

    @property
    def is_ipv6(self) -> bool:
        return self.local.family_towards(self.remote) == "ipv6"


class FlowPaths:
    """Finds the paths of flows over one network."""

    def __init__(
        self, network: Network, links: Sequence[form.Link], access: Sequence[form.Access], experiment: Experiment
    ) -> None:
        self._network = network
        self._wifi = {one["medium"]: one for one in access if one["kind"] == "wifi"}
        #: What each station carries alone, by medium, payload and headers.
        self._alone_bps: dict[tuple[str, int, int], dict[str, int]] = {}
        self._links = {link["id"]: link for link in links}
        self._media = {name: medium.rate for name, medium in experiment.media.items()}
        self._mtu = {name: int(link.mtu) for name, link in experiment.links.items()}
        self._all_pairs = experiment.reachability == "all_pairs"
        control = experiment.control or Control.default()
        self.switched = SwitchedPaths(network, control, costs_of_links(control, links))

    def with_paths(self, single: SingleFlow) -> form.Flow:
        """Returns the resolved flow. Raises an error of `described` if there is no path."""
        flow = single.settings
        found = self._ordered(self._found(single), flow)
        used = found if flow.transport == "mptcp" else found[:1]
        packets = self._packets(flow, used)
        limits = [self._capacities(path, packets, _subflows_per_pair(flow)) for path in used]
        paths = [self._path(path, limit) for path, limit in zip(used, limits, strict=True)]
        policy = self.switched.policy_of(flow).name if self._is_switched(single) and flow.routes is None else None
        return _flow(single, paths, ceilings.flow_ceiling(limits), policy)

    def _packets(self, flow: Flow, used: Sequence[_Path]) -> Packets:
        mtu = min(self._path_mtu(path) for path in used)
        datagram = flow.app.cbr or flow.app.probe
        is_ipv6 = any(path.is_ipv6 for path in used)
        return ceilings.full_packets(flow.transport, mtu, int(datagram.size) if datagram else None, is_ipv6=is_ipv6)

    def _path_mtu(self, path: _Path) -> int:
        """Returns the smallest MTU on a path. If routers choose, all links between nodes count."""
        listed = [self._mtu[hop.link] for hop in path.route]
        return min(listed if path.between is None else [*listed, *self._mtu_between_nodes])

    @cached_property
    def _mtu_between_nodes(self) -> list[int]:
        hosts = {name for name, kind in self._network.kinds.items() if kind == "host"}
        links = self._network.links.items()
        return [self._mtu[name] for name, (a, b) in links if hosts.isdisjoint((a.node, b.node))]

    # ---- which paths ----

    def _found(self, single: SingleFlow) -> list[_Path]:
        """Returns the paths between addresses of one family. Raises an error if there is none."""
        joined = list(self._joined(single))
        found = [path for path in joined if path.is_possible]
        if not found:
            ends = f"from {single.sender} to {single.receiver}"
            if joined:
                problem = f"no path {ends} has addresses of one family at both ends"
                raise described(problem, "an interface at each end with family: both, or with the same family")
            raise described(f"there is no path {ends}", "hosts joined by links, switches or routers")
        for path in found:
            self._check_mtu(path)
        return found

    def _check_mtu(self, path: _Path) -> None:
        mtu = self._path_mtu(path)
        if path.is_ipv6 and mtu < _LEAST_IPV6_MTU:
            problem = f"the path from {path.local.id} to {path.remote.id} goes over IPv6, and has an MTU of {mtu} bytes"
            raise described(problem, f"at least {_LEAST_IPV6_MTU} bytes (RFC 8200, section 5)")

    def _joined(self, single: SingleFlow) -> Iterator[_Path]:
        senders, receivers = self._admitted(single)
        if self._is_switched(single):
            per_pair = _subflows_per_pair(single.settings)
            joined = self.switched.paths(single.settings, senders, receivers, per_pair)
            yield from (_Path(local, remote, route) for local, remote, route in joined)
            return
        for local in senders:
            for remote in receivers:
                yield from self._paths(single, local, remote)

    def _admitted(self, single: SingleFlow) -> tuple[list[Port], list[Port]]:
        """Returns the interfaces of sender and receiver that the flow may use."""
        via = self._via(single)
        senders, receivers = (self._network.ports_of(host) for host in (single.sender, single.receiver))
        if via is None:
            return senders, receivers
        return [one for one in senders if _admits(via, one)], [one for one in receivers if _admits(via, one)]

    def _is_switched(self, single: SingleFlow) -> bool:
        """Returns whether the flow goes over OpenFlow switches, where a policy chooses its ways."""
        senders, receivers = self._admitted(single)
        switched = bool(senders and receivers) and self.switched.holds_for([*senders, *receivers])
        if single.settings.policy is not None and not switched:
            problem = "'policy' has no effect: not all interfaces of the two hosts are at OpenFlow switches"
            raise described(problem, "hosts at nodes of kind openflow", field="policy")
        return switched

    def _via(self, single: SingleFlow) -> dict[str, set[str]] | None:
        """Returns the interfaces that `via` allows, by host. A host that `via` does not name may
        use all.
        """
        if single.settings.via is None:
            return None
        allowed: dict[str, set[str]] = {}
        for name in expanded(single.settings.via):
            port = self._network.ports.get(name)
            if port is None or port.node not in (single.sender, single.receiver):
                known = [port.id for end in (single.sender, single.receiver) for port in self._network.ports_of(end)]
                raise described(
                    f"unknown interface '{name}' of the hosts of this flow{nearest_hint(name, known)}",
                    ", ".join(known),
                    field="via",
                )
            allowed.setdefault(port.node, set()).add(name)
        return allowed

    def _paths(self, single: SingleFlow, local: Port, remote: Port) -> list[_Path]:
        flow = single.settings
        if flow.routes is not None:
            given = (self._network.route_through(local, nodes, remote) for nodes in flow.routes)
            return [_Path(local, remote, route) for route in given if route is not None]
        routes = self._network.routes(local, remote)
        if routes is None and self._all_pairs:
            # A host accepts packets for any of its addresses on each of its links.
            family = local.family_towards(remote)
            entrances = [port for port in self._network.ports_of(remote.node) if family in (None, *port.families)]
            others = (self._network.routes(local, other) for other in entrances)
            routes = next((found for found in others if found is not None), None)
        if routes is None:
            return []
        if routes.are_chosen:
            return [_Path(local, remote, routes.ends, self._between(routes))]
        # A hash of the flow selects among equal routes, as in ECMP. n_diff_ports gets one route per
        # subflow.
        count = len(routes)
        first = zlib.crc32(f"{single.id}/{local.id}/{remote.id}".encode()) % count
        used = range(first, first + min(count, _subflows_per_pair(flow)))
        return [_Path(local, remote, routes[number % count]) for number in used]

    def _ordered(self, found: list[_Path], flow: Flow) -> list[_Path]:
        """Returns the paths with the primary path first."""
        if flow.primary is None:
            return found
        if flow.primary not in self._links and flow.primary not in self._network.ports:
            known = [*self._links, *self._network.ports]
            raise described(
                f"unknown link or interface '{flow.primary}'{nearest_hint(flow.primary, known)}",
                ", ".join(known),
                field="primary",
            )
        primary = [
            path for path in found if flow.primary in (path.local.id, path.remote.id, *(hop.link for hop in path.route))
        ]
        if not primary:
            raise described(
                f"'{flow.primary}' is on no path of this flow",
                ", ".join(hop.link for path in found for hop in path.route),
                field="primary",
            )
        return [primary[0], *(path for path in found if path is not primary[0])]

    # ---- what they carry ----

    def _path(self, path: _Path, limits: Sequence[Capacity]) -> form.Path:
        rates = [rate for hop in path.route if (rate := self._rate(hop)) is not None]
        rtt = sum(self._rtt(hop) for hop in path.route)
        if path.between is not None:
            rtt += path.between.rtt_ns
            rates += [] if path.between.rate_bps == math.inf else [int(path.between.rate_bps)]
        return {
            "local": path.local.id,
            "remote": path.remote.id,
            "hops": [{"link": hop.link, "direction": _side(hop)} for hop in path.route],
            "routed": path.between is not None,
            "rate_bps": min(rates, default=None),
            "ceiling_bps": ceilings.path_ceiling(limits),
            "rtt_ns": rtt,
        }

    def _rtt(self, hop: Hop) -> int:
        """Returns the propagation delay of both directions of a link. Answers take the same links,
        also with another address (`all_pairs`).
        """
        both = (self._direction(hop), self._direction(Hop(hop.link, not hop.forward)))
        return sum(capacities.least_delay_ns(direction) for direction in both)

    def _between(self, routes: Routes) -> _Between:
        """Returns the smallest delay, and the largest of the bottleneck rates, over the routes that
        routers choose from.
        """

        def extended(so_far: _Between, hop: Hop) -> _Between:
            rate = self._rate(hop)
            narrowed = so_far.rate_bps if rate is None else min(so_far.rate_bps, rate)
            overhead = max(so_far.overhead_bytes, self._overhead(hop, _FULL_PACKET_BYTES))
            return _Between(so_far.rtt_ns + self._rtt(hop), narrowed, overhead)

        def chosen(arriving: Sequence[_Between]) -> _Between:
            return _Between(
                min(one.rtt_ns for one in arriving),
                max(one.rate_bps for one in arriving),
                min(one.overhead_bytes for one in arriving),
            )

        return routes.best(_Between(0, math.inf, 0), extended, chosen)

    def _direction(self, hop: Hop) -> form.Direction:
        return self._links[hop.link][_side(hop)]

    def _rate(self, hop: Hop) -> int | None:
        return directions.capacity_bps(self._direction(hop))

    def _overhead(self, hop: Hop, ip_bytes: int) -> int:
        """Returns the bytes that a link adds to an IP packet."""
        return capacities.wire_bytes(self._direction(hop), ip_bytes) - ip_bytes

    def _capacities(self, path: _Path, packets: Packets, subflows: int) -> list[Capacity]:
        """Returns the capacities of the links of a path. Where routers choose, each of `subflows`
        can take another route.
        """
        found = [
            Capacity(self._resource(hop), packets.ceiling(rate, self._overhead(hop, packets.payload + packets.headers)))
            for hop in path.route
            if (rate := self._rate(hop)) is not None
        ]
        found += [capacity for hop in path.route for capacity in self._capacities_of_air(hop, packets)]
        if path.between is not None and path.between.rate_bps != math.inf:
            limit = packets.ceiling(int(path.between.rate_bps), path.between.overhead_bytes)
            found.append(Capacity(f"ways from {path.local.id} to {path.remote.id}", limit * subflows))
        return found

    def _capacities_of_air(self, hop: Hop, packets: Packets) -> list[Capacity]:
        """Returns what a station of Wi-Fi can carry alone, and the largest of that in its network,
        whose stations take turns.
        """
        medium = self._links[hop.link]["medium"]
        network = self._wifi.get(medium or "")
        if network is None:
            return []
        key = (network["medium"], packets.payload, packets.headers)
        if key not in self._alone_bps:
            self._alone_bps[key] = air.most_payload_bps(network, packets.payload, packets.headers)
        alone = self._alone_bps[key]
        return [
            Capacity(f"link {hop.link} {_side(hop)}", alone[hop.link]),
            Capacity(f"medium {medium}", max(alone.values())),
        ]

    def _resource(self, hop: Hop) -> str:
        """Returns the name of the serializer: a medium with its own rate, or one direction of a
        link.
        """
        medium = self._links[hop.link]["medium"]
        if medium is not None and self._media[medium] is not None:
            return f"medium {medium}"
        return f"link {hop.link} {_side(hop)}"


def _admits(via: dict[str, set[str]], port: Port) -> bool:
    return port.node not in via or port.id in via[port.node]


def _side(hop: Hop) -> form.HopDirection:
    return "forward" if hop.forward else "backward"


def _subflows_per_pair(flow: Flow) -> int:
    """Returns the number of subflows between one address pair."""
    if flow.transport != "mptcp":
        return 1
    return max(_subflows_of(manager) for manager in flow.path_manager)


def _subflows_of(manager: PathManager) -> int:
    if manager.name == "n_diff_ports":
        return int(manager.parameters.get("subflows", _DEFAULT_PORTS))
    return 1 + len(manager.parameters.get("gateways", ())) if manager.name == "binder" else 1


def _flow(single: SingleFlow, paths: list[form.Path], ceiling_bps: int | None, policy: str | None) -> form.Flow:
    flow = single.settings
    multipath = flow.transport == "mptcp"
    return {
        "id": single.id,
        "group": single.group,
        "from": single.sender,
        "to": single.receiver,
        "opened_by": flow.opened_by,
        "transport": flow.transport,
        "app": _app(flow.app),
        "cc": [] if flow.transport == "udp" else [_algorithm(one) for one in flow.cc],
        "scheduler": [_algorithm(one) for one in flow.scheduler] if multipath else [],
        "path_manager": [_path_manager(manager) for manager in flow.path_manager] if multipath else [],
        "handshake": flow.handshake,
        "start_ns": int(flow.start),
        "via": None if flow.via is None else expanded(flow.via),
        "policy": policy,
        "paths": paths,
        "ceiling_bps": ceiling_bps,
    }


def _algorithm(given: Algorithm) -> form.Algorithm:
    return cast("form.Algorithm", {"name": given.name, **given.parameters}) if given.parameters else given.name


def _path_manager(given: PathManager) -> form.Algorithm:
    defaults = {"subflows": _DEFAULT_PORTS} if given.name == "n_diff_ports" else {}
    return cast("form.Algorithm", {"name": given.name, **defaults, **given.parameters})


# Names in the description -> names with units in the resolved form.
_APP_UNITS = {
    "rate": "rate_bps",
    "size": "size_bytes",
    "duration": "duration_ns",
    "every": "every_ns",
    "request": "request_bytes",
    "response": "response_bytes",
    "poisson": "poisson_mean_ns",
    "bitrate": "bitrate_bps",
    "startup": "startup_ns",
    "bitrates": "bitrates_bps",
    "segment": "segment_ns",
    "buffer": "buffer_ns",
    "length": "length_ns",
}


def _app(app: App) -> form.Application:
    if app.command is not None:
        return {"kind": "command", "argv": list(app.command)}
    chosen = getattr(app, app.kind)
    values = {_APP_UNITS.get(name, name): getattr(chosen, name) for name in type(chosen).model_fields}
    numbers = {name: _as_numbers(value) for name, value in values.items()}
    return cast("form.Application", {"kind": app.kind} | numbers)


def _as_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_as_numbers(item) for item in value]
    return int(value) if isinstance(value, int) else value
