"""Resolution: from a description to the resolved form that back-ends read."""

from __future__ import annotations

import copy
import ipaddress
import json
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from mptcplab import algorithms
from mptcplab.behaviours import presets
from mptcplab.document import FieldPath, wrong
from mptcplab.errors import first_few
from mptcplab.experiment import access as access_networks
from mptcplab.experiment import directions, link_traces, machines, middleboxes, real_links
from mptcplab.experiment.base import described, nearest_hint
from mptcplab.experiment.control import Control, Recovery
from mptcplab.experiment.description import Experiment
from mptcplab.experiment.directions import SIDES, Side
from mptcplab.experiment.event_plan import EventPlan
from mptcplab.experiment.failures import in_nanoseconds
from mptcplab.experiment.flow_paths import FlowPaths
from mptcplab.experiment.hosts import LINUX_JITTER, OF_PRESET, Behaviour, Host, HostJitter, NetworkNode
from mptcplab.experiment.hosts import Interface as InterfaceSettings
from mptcplab.experiment.links import Link
from mptcplab.experiment.names import expanded
from mptcplab.experiment.origins import origins_of
from mptcplab.experiment.patterns import single_flows
from mptcplab.experiment.switched_paths import SwitchedPaths
from mptcplab.experiment.validation import at
from mptcplab.experiment.wifi_networks import WifiNetworks
from mptcplab.recovery import STRATEGIES
from mptcplab.resolved_versions import SCHEMA
from mptcplab.topology import AddressError, Addresses, Network, NodeKind, Port, assign_addresses
from mptcplab.units import Duration, Rate

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form


@dataclass(frozen=True)
class Resolved:
    """A resolved experiment: `data` follows the JSON schema, `description` is the description with
    all defaults.
    """

    data: dict[str, Any]
    description: dict[str, Any]

    @property
    def origins(self) -> dict[str, str]:
        """Maps each description path to the origin of its value."""
        origins: dict[str, str] = self.data["origins"]
        return origins

    def json(self, *, origins: bool = True) -> str:
        """Returns the JSON text. The text without origins identifies the experiment."""
        data = self.data if origins else {key: value for key, value in self.data.items() if key != "origins"}
        return json.dumps(data, ensure_ascii=False, allow_nan=False)


def resolve(experiment: Experiment, assignment: Mapping[str, object] | None = None) -> Resolved:
    """Returns the resolved form of an experiment, or of the member of a family with these
    parameters. Raises SpecError if the description is wrong.
    """
    return _Resolution(experiment.member(assignment) if assignment else experiment).resolved()


class _Resolution:
    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment
        self._tree = experiment.tree
        self._network = self._wired()
        self._machines = machines.resolved(experiment)
        self._devices = real_links.devices(experiment, self._network)

    def resolved(self) -> Resolved:
        experiment = self._experiment
        if not experiment.duration:
            raise wrong(self._tree, ("duration",), "the run takes no time", "more than 0s")
        addresses = self._addresses()
        filled_in = filled_description(experiment)
        hosts = [_host(name, host, self._machines.get(name)) for name, host in experiment.hosts.items()]
        nodes = [_node(name, node) for name, node in experiment.nodes.items()]
        interfaces = [self._interface(port, addresses) for port in self._network.ports.values()]
        media = [_medium(name, *settings) for name, settings in self._media().items()]
        links = self._links()
        access = [*self._wifi.resolved(), *access_networks.resolved(self._experiment.links)]
        middleboxes = self._middleboxes()
        user_code = self._user_code()
        paths = FlowPaths(self._network, links, access, experiment)
        flows = self._flows(paths)
        parts: dict[str, Any] = {
            "hosts": hosts,
            "nodes": nodes,
            "interfaces": interfaces,
            "media": media,
            "links": links,
            "access": access,
            "control": self._control(paths.switched),
            "flows": flows,
            "user_code": user_code,
        }
        data: form.Experiment = {
            "schema": cast("Any", SCHEMA),
            "name": experiment.name,
            "title": experiment.title,
            "description": experiment.description,
            "profiles": [experiment.profile] if isinstance(experiment.profile, str) else list(experiment.profile or []),
            "parameters": experiment.assignment,
            "duration_ns": int(experiment.duration),
            "vary": _vary(experiment),
            "hosts": hosts,
            "nodes": nodes,
            "interfaces": interfaces,
            "subnets": [
                {"id": number, "ipv4": str(ipv4), "ipv6": str(ipv6)}
                for number, (ipv4, ipv6) in enumerate(addresses.networks)
            ],
            "media": media,
            "links": links,
            "access": access,
            "middleboxes": middleboxes,
            "control": parts["control"],
            "flows": flows,
            "events": EventPlan(experiment).resolved(parts),
            "measure": self._measure(),
            "expect": list(experiment.expect),
            "user_code": user_code,
            "origins": origins_of(filled_in, self._tree) | self._places_of_expectations(),
        }
        return Resolved(dict(data), filled_in)

    def _places_of_expectations(self) -> dict[str, str]:
        """Returns the place of each expectation, with its column, for errors when it is evaluated
        after the run.
        """
        places = {}
        for number in range(len(self._experiment.expect)):
            node = self._tree.find(("expect", number))
            if node is not None and node.source.note is None and node.source.column is not None:
                places[f"expect.{number}"] = f"{node.source}:{node.source.column}"
        return places

    # ---- network ----

    def _wired(self) -> Network:
        """Returns the graph of the network. Refuses unknown ends of links, and interfaces on two
        links.
        """
        kinds: dict[str, NodeKind] = dict.fromkeys(self._experiment.hosts, "host")
        for name, node in self._experiment.nodes.items():
            if name in kinds:
                raise wrong(self._tree, ("nodes", name), f"'{name}' is a host already")
            kinds[name] = node.kind
        if not self._experiment.hosts:
            raise wrong(
                self._tree, ("hosts",), "there are no hosts", "at least two, as in hosts: {client: {}, server: {}}"
            )
        ports: dict[str, Port] = {}
        numbers: Counter[str] = Counter()
        links = {name: self._ends(name, kinds, ports, numbers) for name in self._experiment.links}
        choosers = [name for name, node in self._experiment.nodes.items() if node.next_hop is not None]
        network = Network(kinds, links, choosers)
        self._check_interfaces(network)
        return network

    def _ends(
        self, link: str, kinds: dict[str, NodeKind], ports: dict[str, Port], numbers: Counter[str]
    ) -> tuple[Port, Port]:
        ends = []
        for place, end in enumerate(self._experiment.links[link].between):
            path: FieldPath = ("links", link, "between", place)
            with at(self._tree, *path):
                port = self._with_families(_port(end, link, kinds, numbers))
            if port.id in ports:
                raise wrong(
                    self._tree, path, f"{port.id} is already on link {ports[port.id].link}", "an interface on one link"
                )
            ports[port.id] = port
            ends.append(port)
        return ends[0], ends[1]

    def _settings_of(self, port: Port) -> InterfaceSettings | None:
        """Returns the settings of an interface of a host, if the description has some."""
        host = self._experiment.hosts.get(port.node)
        return host.interfaces.get(port.id.partition(".")[2]) if host else None

    def _with_families(self, port: Port) -> Port:
        settings = self._settings_of(port)
        if settings is None or settings.family == "both":
            return port
        return replace(port, families=(settings.family,))

    def _check_interfaces(self, network: Network) -> None:
        for name, host in self._experiment.hosts.items():
            for interface in host.interfaces:
                if f"{name}.{interface}" not in network.ports:
                    known = [port.id.partition(".")[2] for port in network.ports_of(name)]
                    problem = f"no link names {name}.{interface}{nearest_hint(interface, known)}"
                    raise wrong(self._tree, ("hosts", name, "interfaces", interface), problem, ", ".join(known) or None)

    def _addresses(self) -> Addresses:
        ipv4: dict[str, ipaddress.IPv4Interface] = {}
        ipv6: dict[str, ipaddress.IPv6Interface] = {}
        for name, host in self._experiment.hosts.items():
            for interface, settings in host.interfaces.items():
                given = settings.address
                for text in [] if given is None else [given] if isinstance(given, str) else given:
                    with at(self._tree, "hosts", name, "interfaces", interface, "address"):
                        address = _address(text, settings.family)
                    if isinstance(address, ipaddress.IPv4Interface):
                        ipv4[f"{name}.{interface}"] = address
                    else:
                        ipv6[f"{name}.{interface}"] = address
        try:
            return assign_addresses(self._network, ipv4, ipv6)
        except AddressError as conflict:
            node, _, interface = conflict.port.partition(".")
            path = ("hosts", node, "interfaces", interface, "address")
            raise wrong(self._tree, path, conflict.problem, "addresses that do not overlap") from None

    def _interface(self, port: Port, addresses: Addresses) -> form.Interface:
        settings = self._settings_of(port)
        ipv4, ipv6 = addresses.ipv4.get(port.id), addresses.ipv6.get(port.id)
        return {
            "id": port.id,
            "node": port.node,
            "link": port.link,
            "subnet": self._network.subnet_of[port.id],
            "ipv4": None if ipv4 is None else str(ipv4),
            "ipv6": None if ipv6 is None else str(ipv6),
            "mtu_bytes": int(self._experiment.links[port.link].mtu),
            "up": settings.up if settings else True,
            "device": self._devices.get(port.id),
        }

    def _media(self) -> dict[str, tuple[Rate | None, int]]:
        return {
            name: (medium.rate, directions.overhead_bytes(medium.overhead))
            for name, medium in self._experiment.media.items()
        }

    def _links(self) -> list[form.Link]:
        media = self._media()
        result = []
        for name, link in self._experiment.links.items():
            if link.medium is not None and link.medium not in media:
                problem = f"unknown medium '{link.medium}'{nearest_hint(link.medium, list(media))}"
                raise wrong(
                    self._tree, ("links", name, "medium"), problem, ", ".join(media) or "declare it under media"
                )
            a, b = self._network.links[name]
            is_ethernet = link.real or self._network.is_layer2(a.node) or self._network.is_layer2(b.node)
            layer: form.Layer = 2 if is_ethernet else 3
            hosts: dict[Side, str | None] = {"forward": self._holding_host(a), "backward": self._holding_host(b)}
            forward, backward = (self._direction(name, side, media, hosts[side]) for side in SIDES)
            self._check_behind_hosts(name, link, hosts)
            resolved: form.Link = {
                "id": name,
                "a": a.id,
                "b": b.id,
                "medium": link.medium,
                "layer": layer,
                "real": link.real,
                "forward": forward,
                "backward": backward,
            }
            result.append(resolved)
        link_traces.have_common_starts(result)
        return result

    @cached_property
    def _wifi(self) -> WifiNetworks:
        return WifiNetworks(self._experiment, self._network)

    def _holding_host(self, beginning: Port) -> str | None:
        """Returns the host in which packets of a direction wait, if it has `first_hop: host`."""
        host = self._experiment.hosts.get(beginning.node)
        return beginning.node if host is not None and host.first_hop == "host" else None

    def _check_behind_hosts(self, name: str, link: Link, hosts: Mapping[Side, str | None]) -> None:
        """Refuses settings without effect where packets wait in hosts. A queue from a profile is
        not refused, because a profile gives queues to all links.
        """
        for side, host in hosts.items():
            if host is not None and directions.is_for_side(link.queue, side):
                problem = f"queue of {side}: {directions.in_host(host)}"
                raise wrong(self._tree, ("links", name, "queue", side), problem, "first_hop: network")
            if host is not None and directions.pick(link.loss_at, side) == "ingress":
                problem = f"loss before the queue of {side}: {directions.in_host(host)}"
                raise wrong(self._tree, ("links", name, "loss_at"), problem, "egress")
        node, queue = (self._tree.find(("links", name, *field)) for field in ((), ("queue",)))
        is_given_here = node is not None and queue is not None and queue.source.file in (node.source.file, None)
        holding = dict.fromkeys(host for host in hosts.values() if host is not None)
        if is_given_here and None not in hosts.values():
            problem = directions.in_host(" and ".join(holding))
            raise wrong(self._tree, ("links", name, "queue"), problem, "first_hop: network")

    def _direction(
        self, name: str, side: Side, media: Mapping[str, tuple[Rate | None, int]], host: str | None
    ) -> form.Direction:
        link = self._experiment.links[name]
        if link.real:
            return copy.deepcopy(directions.UNSHAPED)
        field = "trace" if link.trace is not None else "queue"
        trace = self._tree.find(("links", name, "trace"))
        base = Path(trace.source.file).parent if trace is not None and trace.source.file else Path()
        with at(self._tree, "links", name, field):
            with_defaults = access_networks.with_defaults(link)
            direction = directions.resolved(with_defaults, side, media.get(link.medium or ""), base, host)
        medium = self._experiment.media.get(link.medium or "")
        if medium is not None and medium.wifi is not None and side != self._wifi.uplinks[name]:
            queue = self._wifi.queue_of_downlink(name, side)
            if host is None:
                direction["queue"] = queue
        return direction

    def _middleboxes(self) -> list[form.Middlebox]:
        """Returns one middlebox for each named interface. NATs get addresses outside of all
        subnets.
        """
        result: list[form.Middlebox] = []
        subnets = (network for both in self._addresses().networks for network in both)
        outside = middleboxes.outside_addresses(subnets)
        for number, middlebox in enumerate(self._experiment.middleboxes):
            with at(self._tree, "middleboxes", number, "at"):
                for interface in self._known_interfaces(middlebox.at):
                    middleboxes.check_place(middlebox, interface, self._network)
                    direction = middlebox.direction or ("both" if middlebox.nat is None else "leaving")
                    element = middleboxes.element(middlebox, outside)
                    result.append({"at": interface, "direction": direction, "element": element})
        return result

    def _known_interfaces(self, names: Sequence[str]) -> list[str]:
        """Returns the named interfaces, with ranges expanded. Refuses unknown interfaces."""
        interfaces = expanded(names)
        for name in interfaces:
            if name not in self._network.ports:
                known = list(self._network.ports)
                raise described(f"unknown interface '{name}'{nearest_hint(name, known)}", ", ".join(known))
        return interfaces

    # ---- flows ----

    def _flows(self, paths: FlowPaths) -> list[form.Flow]:
        flows = []
        for name, flow in self._experiment.flows.items():
            with at(self._tree, "flows", name):
                flows += [paths.with_paths(single) for single in single_flows(name, flow, list(self._experiment.hosts))]
            self._check_flow(name)
        return flows

    def _check_flow(self, name: str) -> None:
        flow = self._experiment.flows[name]
        if flow.start >= self._experiment.duration:
            raise wrong(
                self._tree,
                ("flows", name, "start"),
                f"starts at {flow.start}, after the end",
                f"before {self._experiment.duration}",
            )

    def _control(self, switched: SwitchedPaths) -> form.Control | None:
        """Returns the control of OpenFlow switches, None without any. Refuses control without
        switches.
        """
        given = self._experiment.control
        if "openflow" not in self._network.kinds.values():
            if given is not None:
                raise wrong(self._tree, ("control",), "has no effect without switches", "nodes of kind openflow")
            return None
        control = given or Control()
        for name, links in control.srlg.items():
            self._check_links(("control", "srlg", name), links)
        if isinstance(control.cost, dict):
            self._check_links(("control", "cost"), list(control.cost))
        if self._experiment.measure.control == 0:
            raise wrong(self._tree, ("measure", "control"), "is 0", "a duration above 0")
        return {
            "install": control.install,
            "command": control.command,
            "discover": control.discover,
            "statistics_ns": int(self._experiment.measure.control),
            "costs": [{"link": edge.id, "cost": edge.cost} for edge in switched.graph.edges.values()],
            "srlg": [{"id": name, "links": expanded(links)} for name, links in control.srlg.items()],
            "recovery": self._recovery(control.recovery),
        }

    def _recovery(self, recovery: Recovery) -> form.Recovery:
        kind = STRATEGIES.get(recovery.name)
        with at(self._tree, "control", "recovery"):
            parameters = recovery.parameters if kind is None else in_nanoseconds(kind, recovery.parameters)
        detect_ns = None if recovery.detect == "port" else int(recovery.detect)
        return {"strategy": recovery.name, "parameters": parameters, "detect_ns": detect_ns}

    def _check_links(self, path: FieldPath, links: Sequence[str]) -> None:
        with at(self._tree, *path):
            for link in expanded(links):
                if link not in self._experiment.links:
                    known = list(self._experiment.links)
                    raise described(f"unknown link '{link}'{nearest_hint(link, known)}", first_few(known))

    def _user_code(self) -> list[form.UserCode]:
        """Returns the files of user-defined algorithms, each once. Refuses a file that cannot be
        read.
        """
        found: dict[str, str] = {}
        for path, name in self._user_names():
            file = algorithms.file_of(name)
            if file is not None:
                source = self._source_of(file, path)
                if found.setdefault(file, source) != source:
                    allowed = "one file with this name: the descriptions that name it are in different folders"
                    raise wrong(self._tree, path, f"{file} means two files", allowed)
        return [{"file": file, "source": source} for file, source in found.items()]

    def _user_names(self) -> Iterator[tuple[FieldPath, str]]:
        """Yields the place and the name of all that can be a user's own."""
        for name, flow in self._experiment.flows.items():
            for field in ("cc", "scheduler", "path_manager"):
                for place, algorithm in enumerate(getattr(flow, field)):
                    yield ("flows", name, field, place), algorithm.name
        if self._experiment.control is not None:
            yield ("control", "recovery"), self._experiment.control.recovery.name
        if self._experiment.errors is not None:
            yield ("errors",), self._experiment.errors.name

    def _source_of(self, file: str, path: FieldPath) -> str:
        """Returns the text of a file, or an object file in base64. The path is relative to the
        description, or to the current directory for `--set`.
        """
        node, _ = self._tree.deepest(path)
        base = Path(node.source.file).parent if node.source.file else Path()
        try:
            if algorithms.is_object(file):
                return b64encode((base / file).read_bytes()).decode()
            return (base / file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            kind = "an eBPF object" if algorithms.is_object(file) else "a Python file"
            allowed = f"{kind} beside the description"
            raise wrong(self._tree, path, f"{file} cannot be read: {reason}", allowed) from None

    # ---- measurement ----

    def _measure(self) -> form.Measure:
        measure = self._experiment.measure
        with at(self._tree, "measure", "captures"):
            captures = self._known_interfaces(measure.captures)
        if measure.every == 0:
            raise wrong(self._tree, ("measure", "every"), "is 0", "a duration above 0")
        probe = None if measure.probe is None else int(measure.probe.rtt)
        return {
            "every_ns": int(measure.every),
            "captures": captures,
            "unit_bytes": int(measure.units),
            "probe_rtt_ns": probe,
        }


def _port(end: str, link: str, kinds: Mapping[str, NodeKind], numbers: Counter[str]) -> Port:
    """Returns the port that one end of `between` names. Without a name, ports of nodes are named
    p1, p2 ..
    """
    node, dot, interface = end.partition(".")
    if node not in kinds:
        known = list(kinds)
        raise described(f"unknown host or node '{node}'{nearest_hint(node, known)}", ", ".join(known))
    if not dot and kinds[node] == "host":
        raise described(f"'{node}' is a host: its interface is missing", f"HOST.INTERFACE, as in {node}.eth0")
    if not dot:
        numbers[node] += 1
        interface = f"p{numbers[node]}"
    if not interface.replace("_", "").replace("-", "").isalnum() or len(interface) > 15 or not interface.isascii():
        raise described(f"invalid interface name '{interface}'", "1 to 15 letters, digits, _ and -")
    return Port(f"{node}.{interface}", node, link)


def _address(text: str, family: str) -> ipaddress.IPv4Interface | ipaddress.IPv6Interface:
    try:
        address = ipaddress.ip_interface(text)
    except ValueError:
        raise described(f"invalid address '{text}'", "an address with prefix length, as in 10.9.0.1/24") from None
    if "/" not in text or address.network.num_addresses < 4 or address.ip == address.network.network_address:
        raise described(
            f"'{text}' is not the address of an interface in a subnet",
            "an address with prefix length, as in 10.9.0.1/24",
        )
    if family not in ("both", f"ipv{address.version}"):
        problem = f"'{text}' is an ipv{address.version} address, and the interface has family: {family}"
        raise described(problem, f"an {family} address, or family: both")
    return address


def _vary(experiment: Experiment) -> form.Vary:
    vary = experiment.vary
    if isinstance(vary, str):
        return {"start_ns": 0, "rtt_ppm": 0, "events_ppm": 0}
    ppm = {name: round(part * 1_000_000) for name, part in (("rtt_ppm", vary.rtt), ("events_ppm", vary.events))}
    return {"start_ns": int(vary.start), "rtt_ppm": ppm["rtt_ppm"], "events_ppm": ppm["events_ppm"]}


def _medium(name: str, rate: Rate | None, overhead: int) -> form.Medium:
    return {"id": name, "rate_bps": None if rate is None else int(rate), "overhead_bytes": overhead}


def _node(name: str, node: NetworkNode) -> form.Node:
    """Returns the resolved form of a node. For `ecmp` it includes the hashed fields."""
    if node.next_hop == "ecmp":
        next_hop: form.NextHop | None = "ecmp_l3" if node.hash == "l3" else "ecmp_l4"
    else:
        next_hop = node.next_hop
    return {"id": name, "kind": node.kind, "next_hop": next_hop}


def _host(name: str, host: Host, machine: form.Machine | None) -> form.Host:
    return {
        "id": name,
        "machine": machine,
        "stack": host.stack,
        "mptcp": host.mptcp,
        "one_at_a_time": host.one_at_a_time,
        "syn_retries": host.syn_retries,
        "syn_linear_timeouts": host.syn_linear_timeouts,
        "checksum": host.checksum,
        "fallback": host.fallback,
        "rcvbuf_bytes": int(host.rcvbuf),
        "sndbuf_bytes": int(host.sndbuf),
        "initial_window_segments": host.initial_window,
        "first_hop": host.first_hop,
        "host_jitter": _host_jitter(host.host_jitter),
        "behaviour": [_behaviour(behaviour) for behaviour in host.behaviour],
    }


def _host_jitter(jitter: str | HostJitter) -> form.HostJitter:
    """Returns the resolved form of `host_jitter`. `linux` includes its quantiles, so readers need
    not know them.
    """
    if jitter == "none":
        return {"kind": "none"}
    if isinstance(jitter, HostJitter):
        return {"kind": "quantiles", **_quantiles(jitter)}
    return {"kind": "linux", **_quantiles(LINUX_JITTER)}


class _Quantiles(TypedDict):
    p50_ns: int
    p90_ns: int
    p99_ns: int
    max_ns: int


def _quantiles(times: HostJitter) -> _Quantiles:
    return {
        "p50_ns": int(times.p50),
        "p90_ns": int(times.p90),
        "p99_ns": int(times.p99),
        "max_ns": int(times.max),
    }


def _behaviour(behaviour: Behaviour) -> form.Behaviour:
    """Returns the values of the preset, with those that differ from it."""
    given = {name: value for name in OF_PRESET if (value := getattr(behaviour, name)) is not None}
    changed = {
        f"{name}_ns" if isinstance(value, Duration) else name: int(value) if isinstance(value, Duration) else value
        for name, value in given.items()
    }
    return cast("form.Behaviour", presets()[behaviour.preset] | changed)


def filled_description(experiment: Experiment) -> dict[str, Any]:
    """Returns the description with all defaults. Fields without a value are omitted."""
    filled: dict[str, Any] = experiment.model_dump(by_alias=True, exclude_none=True)
    filled.pop("topology", None)  # its hosts, nodes and links are in their sections
    for name, link in experiment.links.items():
        if link.rtt is not None:
            half, rest = (int(link.rtt) // 2, int(link.rtt) - int(link.rtt) // 2)
            delay = str(type(link.rtt)(half))
            filled["links"][name]["delay"] = (
                delay if half == rest else {"forward": delay, "backward": str(type(link.rtt)(rest))}
            )
    for name, host in experiment.hosts.items():
        filled["hosts"][name]["behaviour"] = [_filled_behaviour(behaviour) for behaviour in host.behaviour]
    return filled


def _filled_behaviour(behaviour: Behaviour) -> dict[str, Any]:
    """Returns the description of a behaviour with the parameters of its preset."""
    preset = presets()[behaviour.preset]
    given = behaviour.model_dump(exclude_none=True)
    given = given if isinstance(given, dict) else {"preset": given}
    defaults = {
        name: str(Duration(preset[f"{name}_ns"])) if f"{name}_ns" in preset else preset[name] for name in OF_PRESET
    }
    return {**defaults, **given}
