"""Events as primitive actions in order of time, and the states of interfaces
and links they cause.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from mptcplab import capacities
from mptcplab.errors import SpecError
from mptcplab.experiment import directions, link_traces
from mptcplab.experiment.base import described, nearest_hint
from mptcplab.experiment.directions import SIDES
from mptcplab.experiment.events import LINK_CHANGES, Event, Handover, RiskGroup
from mptcplab.experiment.names import expanded
from mptcplab.experiment.switched_network import SwitchedNetwork
from mptcplab.paths import explicit
from mptcplab.recovery import STRATEGIES, both_directions
from mptcplab.units import Duration

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form

#: How long a handover between two cells takes. Median in the model of LTE
#: (docs/internals/media/cellular.md).
_CELL_GAP = Duration("60ms")

#: A primitive action. Until a walk completes it, a `set_link` lacks its settings.
Action: TypeAlias = "dict[str, Any]"


@dataclass(frozen=True)
class Step:
    """A primitive action. If `settles` is true, it is a part of a handover or sequence and is
    omitted where it would change nothing.
    """

    at_ns: int
    event: int
    action: Action
    settles: bool = False
    changes: Event | None = None


@dataclass
class World:
    """The names that events may use, and the current settings of links. Made from a resolved
    experiment.
    """

    hosts: set[str]
    holding_hosts: set[str]
    """Hosts in which packets wait for their first link (`first_hop: host`)."""
    interfaces: dict[str, bool]
    links: dict[str, dict[str, Any]]
    mtu_bytes: dict[str, int]
    media: dict[str, int | None]
    bdp_rtt_ns: Mapping[str, int] = field(default_factory=dict)
    flows: Mapping[str, form.Flow] = field(default_factory=dict)
    switched: SwitchedNetwork | None = None
    """The links between OpenFlow switches, if there are any."""
    access: Mapping[str, str] = field(default_factory=dict)
    """The kind of the access network of each link that has one."""

    @classmethod
    def of(cls, data: Mapping[str, Any], bdp_rtt_ns: Mapping[str, int] | None = None) -> World:
        """Returns the world of a resolved experiment."""
        return cls(
            {host["id"] for host in data["hosts"]},
            {host["id"] for host in data["hosts"] if host["first_hop"] == "host"},
            {interface["id"]: interface["up"] for interface in data["interfaces"]},
            {link["id"]: link for link in data["links"]},
            {interface["link"]: interface["mtu_bytes"] for interface in data["interfaces"]},
            {medium["id"]: medium["rate_bps"] for medium in data["media"]},
            bdp_rtt_ns or {},
            {flow["id"]: flow for flow in data["flows"]},
            SwitchedNetwork.of(data),
            access_kinds(data["access"]),
        )

    def interface(self, name: str) -> str:
        """Returns the name of an interface. Raises an error if it is unknown."""
        return _known("interface", name, list(self.interfaces))

    def link(self, name: str) -> str:
        """Returns the name of a link. Raises an error if it is unknown."""
        return _known("link", name, list(self.links))

    def emulated(self, name: str) -> str:
        """Returns the name of a link that events may change. Raises an error if it is unknown or
        real.
        """
        link = self.links[self.link(name)]
        if link["real"]:
            problem = f"link {name} is real, and events change only emulated links"
            raise described(problem, f"down and up of its interfaces, {link['a']} and {link['b']}")
        return name

    def access_link(self, name: str, kind: str) -> str:
        """Returns the name of a link of an access network. Raises an error if it is of another
        kind.
        """
        if self.access.get(self.link(name)) != kind:
            known = [link for link, of in self.access.items() if of == kind]
            raise described(f"link {name} has no {kind} access", ", ".join(known) or f"nothing: no link has {kind}")
        return name

    def host(self, name: str) -> str:
        """Returns the name of a host. Raises an error if it is unknown."""
        return _known("host", name, sorted(self.hosts))

    def holding_host(self, link: str, side: directions.Side) -> str | None:
        """Returns the host in which packets of a direction wait, if it has `first_hop: host`."""
        host: str = self.links[link]["a" if side == "forward" else "b"].partition(".")[0]
        return host if host in self.holding_hosts else None

    def interrupted(self, outage: str | RiskGroup | None) -> list[str]:
        """Returns the links of an outage. Raises an error if the link or the group is unknown."""
        if not isinstance(outage, RiskGroup):
            return [self.emulated(outage or "")]
        groups = self.switched.groups if self.switched else {}
        return list(groups[_known("group", outage.srlg, list(groups))])

    def downtime_ns(self, link: str, at_ns: int, asked_ns: int) -> int:
        """Returns how long an outage lasts, if the layer below may bring the link back before its
        end.
        """
        if self.switched is None or link not in self.switched.graph.edges:
            return asked_ns
        after_ns = self.switched.strategy_at(at_ns).link_returns_after_ns
        return asked_ns if after_ns is None else min(asked_ns, after_ns)

    def flow(self, name: str) -> form.Flow:
        """Returns a flow. Raises an error if it is unknown."""
        return self.flows[_known("flow", name, list(self.flows))]

    def joins_hosts(self, link: str) -> bool:
        """Returns whether both ends of a link are at hosts, so that no port of a node is on it."""
        return {self.links[link][end].partition(".")[0] for end in ("a", "b")} <= self.hosts


def access_kinds(access: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Returns the kind of the access network of each link that has one."""
    members = ((one["kind"], one.get("stations", [one])) for one in access)
    return {station["link"]: kind for kind, stations in members for station in stations}


def _known(kind: str, name: str, known: list[str]) -> str:
    if name not in known:
        shown = ", ".join(known[:20]) + (", .." if len(known) > 20 else "")
        raise described(
            f"unknown {kind} '{name}'{nearest_hint(name, known)}", shown or f"nothing: there are no {kind}s"
        )
    return name


# ---- from an event to its steps ------------------------------------------------------------------


def steps(event: Event, number: int, world: World) -> list[Step]:
    """Returns the primitive actions of an event."""
    return [
        Step(int(event.at) + later, number, action, settles, event) for later, action, settles in _parts(event, world)
    ]


def _parts(event: Event, world: World) -> Iterator[tuple[int, Action, bool]]:
    """Yields the offset from the time of the event, the action, and whether it is omitted where it
    would change nothing.
    """
    match event.action:
        case "down" | "up" as way:
            for name in expanded(event.down or event.up or []):
                yield 0, _switch(name, way, world), False
        case "set":
            yield from _set(event, world)
        case "outage":
            yield from _outage(event, world)
        case "reroute":
            yield 0, _reroute(event, world), False
        case "recovery":
            yield 0, _set_recovery(event, world), False
        case "handover":
            yield from _handover(event, world)
        case "roam":
            yield 0, _roam(event, world), False
        case "sequence":
            yield from _sequence(event, world)
        case _:
            yield 0, _address_or_program(event, world), False


def _switch(name: str, way: str, world: World) -> Action:
    """Returns the action that sets an interface (a name with a dot) or a link up or down."""
    if "." in name:
        return {"kind": f"interface_{way}", "interface": world.interface(name)}
    known = name if name in world.links else _known("link or interface", name, [*world.links, *world.interfaces])
    return {"kind": f"link_{way}", "link": world.emulated(known), "by": "cut"}


def _set(event: Event, world: World) -> Iterator[tuple[int, Action, bool]]:
    link = world.emulated(event.set or "")
    if event.changes(LINK_CHANGES):
        yield 0, {"kind": "set_link", "link": link}, False
    if event.snr is not None:
        mean_mdb = round(1000 * event.snr)
        yield 0, {"kind": "set_signal", "link": world.access_link(link, "wifi"), "mean_mdb": mean_mdb}, False


def _outage(event: Event, world: World) -> Iterator[tuple[int, Action, bool]]:
    by = event.by or "cut"
    for link in world.interrupted(event.outage):
        if by == "port_down" and world.joins_hosts(link):
            problem = f"port_down takes down ports of routers, switches and access points, and {link} joins two hosts"
            raise described(problem, "by: cut, or by: drop_rule")
        yield 0, {"kind": "link_down", "link": link, "by": by}, False
        yield (
            world.downtime_ns(link, int(event.at), int(event.for_ or 0)),
            {"kind": "link_up", "link": link, "by": by},
            False,
        )


def _reroute(event: Event, world: World) -> Action:
    """Returns the action that sends a path over the given nodes, both ways."""
    flow, number = world.flow(event.reroute or ""), (event.path or 1) - 1
    if number >= len(flow["paths"]):
        raise described(f"flow {flow['id']} has no path {number + 1}", f"1 to {len(flow['paths'])}", field="path")
    if world.switched is None or (key := (flow["id"], number)) not in world.switched.whole.ends:
        raise described(f"path {number + 1} of flow {flow['id']} goes over no OpenFlow switches", field="path")
    try:
        way = explicit(world.switched.graph, *world.switched.whole.ends[key], event.over or [])
    except SpecError as error:
        raise described(error.problem, error.allowed, field="over") from None
    return world.switched.reroute(key, both_directions(way), "description")


def _set_recovery(event: Event, world: World) -> Action:
    name = event.recovery.name if event.recovery is not None else ""
    if world.switched is None or not world.switched.paths:
        raise described("no path goes over OpenFlow switches", "a network in which switches forward a flow")
    if name not in STRATEGIES and name != world.switched.strategy.name:
        raise described(f"'{name}' is not the class of control.recovery", ", ".join(STRATEGIES))
    return {"kind": "set_recovery", "strategy": name}


def _address_or_program(event: Event, world: World) -> Action:
    if event.add_address is not None:
        return {"kind": "address_add", "interface": world.interface(event.add_address)}
    if event.remove_address is not None:
        return {"kind": "address_remove", "interface": world.interface(event.remove_address)}
    if event.backup is not None:
        return {"kind": "set_backup", "interface": world.interface(event.backup), "on": event.on is not False}
    return {"kind": "exec", "host": world.host(event.exec or ""), "argv": list(event.argv or [])}


def _handover(event: Event, world: World) -> Iterator[tuple[int, Action, bool]]:
    """Yields the actions of a handover, break before make. The new interface comes up without an
    address if getting one takes time.
    """
    handover = event.handover
    if handover is None:
        return
    if handover.link is not None:
        yield 0, _cell_handover(handover, world), False
        return
    old, new = world.interface(handover.from_ or ""), world.interface(handover.to or "")
    ready = int(handover.gap or 0)
    usable = ready + sum(int(part or 0) for part in (handover.detect, handover.auth, handover.address))
    yield 0, {"kind": "interface_down", "interface": old}, True
    if usable > ready:
        yield ready, {"kind": "address_remove", "interface": new}, True
    yield ready, {"kind": "interface_up", "interface": new}, True
    if usable > ready:
        yield usable, {"kind": "address_add", "interface": new}, True


def _cell_handover(handover: Handover, world: World) -> Action:
    return {
        "kind": "handover",
        "link": world.access_link(handover.link or "", "cellular"),
        "gap_ns": int(_CELL_GAP if handover.gap is None else handover.gap),
        "forward_queue": handover.queue != "lost",
    }


def _roam(event: Event, world: World) -> Action:
    roam = event.roam
    if roam is None:
        raise AssertionError("the event roams")
    return {"kind": "roam", "link": world.access_link(roam.link, "wifi"), "gap_ns": int(roam.gap)}


def _sequence(event: Event, world: World) -> Iterator[tuple[int, Action, bool]]:
    sequence = event.sequence
    if sequence is None:
        return
    items = expanded(sequence.down)
    if len(set(items)) < len(items):
        raise described("sequence: the same name twice", "different interfaces or links")
    hosts = expanded(sequence.on) if sequence.on is not None else None
    groups = [[f"{world.host(host)}.{item}" for host in hosts] if hosts else [item] for item in items]
    every = int(sequence.every)
    for place, group in enumerate(groups):
        yield from ((place * every, _switch(name, "down", world), True) for name in group)
    if sequence.then == "nothing":
        if sequence.pause is not None:
            raise described("sequence.pause: nothing comes back", "with then: restore or restore_in_reverse")
        return
    back = (len(groups) - 1) * every + int(every if sequence.pause is None else sequence.pause)
    for place, group in enumerate(groups if sequence.then == "restore" else reversed(groups)):
        yield from ((back + place * every, _switch(name, "up", world), True) for name in group)


# ---- walking the states --------------------------------------------------------------------------


class ContradictionError(Exception):
    """An event would change nothing. Holds its number, the problem, and the event that caused the
    current state (None: the state at the start).
    """

    def __init__(self, event: int, problem: str, before: int | None, word: str = "since") -> None:
        super().__init__(problem)
        self.event = event
        self.problem = problem
        self.before = before
        self.word = word


# Kind of action -> (key of the object, state that the action sets, its value, text if it has this
# value already).
_SWITCHES = {
    "interface_down": ("interface", "up", False, "is already down"),
    "interface_up": ("interface", "up", True, "is already up"),
    "link_down": ("link", "up", False, "is already down"),
    "link_up": ("link", "up", True, "is already up"),
    "address_add": ("interface", "address", True, "already has its address"),
    "address_remove": ("interface", "address", False, "has no address already"),
}


class Walk:
    """The states of interfaces and links over time."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._links = {link: {side: settings[side] for side in SIDES} for link, settings in world.links.items()}
        # (object, kind of state) -> the state, and the event that caused it. Absent: true from the
        # start.
        self._states: dict[tuple[str, str], tuple[bool, int | None]] = {
            (name, "up"): (up, None) for name, up in world.interfaces.items()
        }
        # The time of the last change of each state, and the event that caused it.
        self._changed_at: dict[tuple[str, str], tuple[int, int]] = {}

    def take(self, step: Step) -> Action | None:
        """Returns the action of a step with complete new values, or None if it is omitted. Raises
        ContradictionError if it changes nothing.
        """
        kind = step.action["kind"]
        if kind == "set_link":
            return step.action | self._set(step)
        if kind not in _SWITCHES:
            return step.action
        target, state, wanted, already = _SWITCHES[kind]
        name = step.action[target]
        current, cause = self._states.get((name, state), (True, None))
        if current == wanted:
            if step.settles:
                return None
            raise ContradictionError(step.event, f"{name} {already}", cause)
        before = self._changed_at.get((name, state))
        if before is not None and before[0] == step.at_ns and not step.settles:
            undone = f"{name} changes twice at {Duration(step.at_ns)}, which has no effect: it was changed then"
            raise ContradictionError(step.event, undone, before[1], "by")
        self._changed_at[name, state] = (step.at_ns, step.event)
        self._states[name, state] = (wanted, step.event)
        return step.action

    def _set(self, step: Step) -> dict[str, Any]:
        link = step.action["link"]
        medium = self._world.links[link]["medium"]
        if step.changes is None:
            return {}
        if step.changes.rate is not None and medium is not None:
            self._check_new_rate(link, medium)
        settings = self._links[link]
        for side in SIDES:
            settings[side] = self._changed(settings[side], step.changes, side, link)
        return {side: settings[side] for side in SIDES}

    def _check_new_rate(self, link: str, medium: str) -> None:
        if self._world.access.get(link) == "wifi":
            raise described(f"link {link} is on medium {medium}, where the signal decides its rate", "set with snr")
        if self._world.media.get(medium) is not None:
            raise described(f"link {link} is on medium {medium}, whose rate holds for all its links")

    def _changed(self, now: form.Direction, event: Event, side: directions.Side, link: str) -> form.Direction:
        """Returns the settings of a direction with the changes of an event. A queue in `bdp` is
        computed with the new rate and delay.
        """
        new = now.copy()
        rate = directions.pick(event.rate, side)
        if rate is not None:
            new["rate_bps"], new["trace"] = int(rate), link_traces.without_capacity(new["trace"])
        if (delay := directions.pick(event.delay, side)) is not None:
            new["delay_ns"] = int(delay)
        if (jitter := directions.pick(event.jitter, side)) is not None:
            new["jitter_ns"] = int(jitter)
        if (reorder := directions.pick(event.reorder, side)) is not None:
            new["reorder"] = reorder
        if (loss := directions.pick(event.loss, side)) is not None:
            new["loss"] = directions.loss(loss)
        queue = directions.pick(event.queue, side)
        host = self._world.holding_host(link, side)
        if queue is not None and host is not None:
            others = {self._world.holding_host(link, other) for other in SIDES}
            if directions.is_for_side(event.queue, side) or None not in others:
                raise described(f"queue of {side}: {directions.in_host(host)}", "first_hop: network")
        elif queue is not None:
            round_trip = self._world.bdp_rtt_ns.get(link, 2 * capacities.least_delay_ns(new))
            packet = capacities.wire_bytes(new, self._world.mtu_bytes[link])
            new["queue"] = directions.queue(queue, directions.capacity_bps(new), round_trip, packet)
        return new


def in_order(planned: Sequence[Step]) -> list[Step]:
    """Sorts steps by time. Steps of one instant stay in the order of the file."""
    return sorted(planned, key=lambda step: step.at_ns)
