"""What the tables of all switches should hold at present, and what a change of it asks of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from mptcplab.controller.connections import Connections, Pin, five_tuple
from mptcplab.controller.entries import Roles, Tables, Tabulation, is_there
from mptcplab.controller.network import Network
from mptcplab.controller.packets import Packet
from mptcplab.controller.streams import PRIORITY_OF_PIN, PathKey, Stream, Streams, Way, described_ways
from mptcplab.controller.tables import CONTROLLER, Match, Output, Table
from mptcplab.controller.updates import PutEntry, PutGroup, Round, rounds_between
from mptcplab.controller.ways import Ways

if TYPE_CHECKING:
    from mptcplab.recovery import Strategy


class State:
    """The ways of paths, the subflows that keep to them, and the tables that follow."""

    def __init__(self, network: Network, strategy: Strategy) -> None:
        self.network = network
        experiment = network.experiment
        self._streams = Streams(network)
        self.ways = Ways(network, described_ways(experiment), strategy)
        self.roles = Roles.of(experiment["control"], experiment["flows"])
        self.connections = Connections(network, self._streams)
        #: Without it switches have no detours, because they would take them by the state of ports.
        self._is_detected_by_port = experiment["control"]["recovery"]["detect_ns"] is None
        self._tabulation = Tabulation(network, self.roles, {})
        self.prepare_anew()
        #: Streams of other packets than TCP that reactive entries forward.
        self._paired: dict[Match, Stream] = {}
        self.current: list[Stream] = []
        self.tables: Mapping[str, Table] = {switch: Table() for switch in network.switches}
        self.renew()

    # ---- what follows from the ways ----

    def renew(self) -> list[Round]:
        """Computes streams and tables anew. Returns the rounds of changes that lead there."""
        tables_before, streams_before = self.tables, self.current
        self._possible = self._streams.of_ways(self.ways.now)
        pins = self.connections.pins()
        for pin in pins:
            self.connections.move(pin, self.ways.now)
        self._paired = {match: self._restricted(match) for match in self._paired}
        chosen = self._paired.values() if self.roles.is_reactive else self._possible
        self.current = [*chosen, *(stream for pin in pins for stream in pin.streams)]
        openings = [] if self.roles.is_reactive else self._streams.undistinguished(self.ways.now)
        self.tables = self._tabulation.of(self.current, openings)
        for pin in pins:
            self._copy_openers_segments(self.tables, pin)
        return rounds_between(tables_before, self.tables, streams_before, self.current)

    def prepare_anew(self) -> None:
        """Asks the strategy for detours around the links of the present ways."""
        self._tabulation.prepared = self.ways.prepared() if self._is_detected_by_port else {}

    def change_strategy(self, strategy: Strategy) -> None:
        """Gives all paths the ways that a strategy would have chosen by now."""
        down = self.ways.begin_anew(strategy)
        self.prepare_anew()
        for link in down:
            self.ways.fail(link, self.protected(link))

    def stop_discovery(self) -> list[Round]:
        """Ends the discovery of links. Returns the changes."""
        self.roles = self._tabulation.roles = replace(self.roles, discovers=False)
        return self.renew()

    def protected(self, link: str) -> set[PathKey]:
        """Returns the paths for which the switches themselves have a detour around a link."""
        prepared = self._tabulation.prepared.items()
        return {key for (key, _), detours in prepared if any(detour.link == link for detour in detours)}

    # ---- packets without an entry ----

    def open(self, packet: Packet) -> tuple[Pin, Round] | None:
        """Gives a new subflow its path. Returns its pin and the changes."""
        pin = self.connections.open(packet, self.ways.now)
        if pin is None:
            return None
        self.current += pin.streams
        part: dict[str, Table] = {}
        for stream in pin.streams:
            _add(part, self._tabulation.of_stream(stream))
        self._copy_openers_segments(part, pin)
        return pin, self._put(part)

    def pair(self, packet: Packet) -> tuple[Stream, Round] | None:
        """Gives the packets of one protocol between two addresses their path. Returns the stream
        and the changes.
        """
        match = five_tuple(packet)
        stream = self._restricted(match) if any(one.match.covers(match) for one in self._possible) else None
        if stream is None:
            return None
        if stream.match not in self._paired:
            self._paired[stream.match] = stream
            self.current.append(stream)
        return stream, self._put(self._tabulation.of_stream(stream))

    def _restricted(self, match: Match) -> Stream:
        """Returns the stream that packets belong to, for their protocol alone, so that TCP can be
        told apart.
        """
        covering = [one for one in self._possible if one.match.covers(match)]
        nearest = max(covering, key=lambda one: one.priority)
        return replace(nearest, match=replace(nearest.match, protocol=match.protocol))

    def forget_copies(self, pin: Pin) -> Round:
        """Ends the copies of the opener's segments. Returns the changes."""
        part: dict[str, Table] = {}
        _add(part, self._tabulation.of_stream(pin.streams[0]))
        return self._put(part)

    def _copy_openers_segments(self, tables: Tables, pin: Pin) -> None:
        """Lets the first switch copy the opener's segments to the controller while it waits for the
        keys.
        """
        opener = pin.streams[0]
        if pin.awaited and opener.steps:
            table = tables[opener.steps[0].switch]
            entry = table.entries[opener.priority, opener.match]
            table.add(replace(entry, actions=(*entry.actions, Output(CONTROLLER))))

    def _put(self, part: Mapping[str, Table]) -> Round:
        """Adds tables to the present ones. Returns the changes."""
        changes: Round = {}
        for switch, table in part.items():
            present = self.tables[switch]
            groups = [PutGroup(one, one.id in present.groups) for one in table.groups.values()]
            entries = [PutEntry(one) for one in table.entries.values()]
            changes[switch] = [
                *(change for change in groups if present.groups.get(change.group.id) != change.group),
                *(change for change in entries if present.entries.get(change.entry.key) != change.entry),
            ]
            present.groups |= table.groups
            present.entries |= table.entries
        return changes

    # ---- a new controller over tables that are in use ----

    def adopt(self, found: Tables, down: Collection[str]) -> None:
        """Takes over what switches hold: ways by order of the description, links that are down,
        subflows.
        """
        for key, way in self._ordered_ways():
            if self._is_used(key, way, found):
                self.ways.reroute(key, way.hops("there"), way.hops("back"))
                self.prepare_anew()
        for link in sorted(down):
            self.ways.fail(link, self.protected(link))
        self.renew()
        matches = {match: priority for table in found.values() for priority, match in table.entries}
        for match, priority in matches.items():
            if match.ethernet_source is None and match.source is not None:
                self._adopt_entry(match, priority, found)
        self.renew()

    def _ordered_ways(self) -> list[tuple[PathKey, Way]]:
        actions = (event["action"] for event in self.network.experiment["events"])
        ordered = (one for one in actions if one["kind"] == "reroute" and one["by"] == "description")
        return [((one["flow"], one["path"]), Way.of(one["there"], one["back"])) for one in ordered]

    def _is_used(self, key: PathKey, way: Way, found: Tables) -> bool:
        """Returns whether the entries of a path lead over a way other than the present one."""
        if way == self.ways.now[key]:
            return False
        mine = [one for one in self._streams.of_ways({**self.ways.now, key: way}) if one.key == key]
        return bool(mine) and all(is_there(self._tabulation.of_stream(stream), found) for stream in mine)

    def _adopt_entry(self, match: Match, priority: int, found: Tables) -> None:
        """Takes over what was installed for packets that the previous controller has seen."""
        if priority == PRIORITY_OF_PIN:
            self._adopt_pin(match, found)
        elif self.roles.is_reactive and any(one.match.covers(match) for one in self._possible):
            stream = self._restricted(match)
            if stream.match == match and is_there(self._tabulation.of_stream(stream), found):
                self._paired[match] = stream

    def _adopt_pin(self, match: Match, found: Tables) -> None:
        for pin in self.connections.candidates(match, self.ways.now):
            parts = [self._tabulation.of_stream(stream) for stream in pin.streams]
            if all(is_there(part, found) for part in parts):
                pin.is_installed = True
                self.connections.remember(pin)
                return


def _add(whole: dict[str, Table], part: Mapping[str, Table]) -> None:
    for switch, table in part.items():
        into = whole.setdefault(switch, Table())
        into.entries |= table.entries
        into.groups |= table.groups
