"""The tables of all switches: from the streams of an experiment and the detours
prepared for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mptcplab.controller.detours import Prepared, Protection, protection
from mptcplab.controller.network import Network
from mptcplab.controller.streams import Stream
from mptcplab.controller.tables import (
    ARP,
    CONTROLLER,
    IPV4,
    IPV6,
    LLDP,
    TCP,
    UDP,
    Action,
    Bucket,
    Entry,
    Group,
    Match,
    Output,
    Table,
    ToGroup,
)

Tables = Mapping[str, Table]

PRIORITY_OF_MISS = 0
PRIORITY_OF_DISCOVERY = 40
PRIORITY_OF_RESPONDER = 50
#: Above the entries of flows, so that the controller sees how each subflow opens.
PRIORITY_OF_OPENING = 250

DNS_PORT = 53
TO_CONTROLLER = (Output(CONTROLLER),)


@dataclass(frozen=True, slots=True)
class Roles:
    """What else the switches hand to the controller."""

    is_reactive: bool = False
    answers_programs: bool = False
    discovers: bool = False

    @classmethod
    def of(cls, control: Mapping[str, Any], flows: Sequence[Mapping[str, Any]]) -> Roles:
        """Returns the roles that an experiment asks for. Only programs need
        answers to ARP and DNS.
        """
        programs = any(flow["app"]["kind"] in ("command", "iperf3") for flow in flows)
        return cls(control["install"] == "reactive", programs, bool(control["discover"]))


class Tabulation:
    """Computes tables over one network."""

    def __init__(self, network: Network, roles: Roles, prepared: Prepared) -> None:
        self.roles = roles
        self.prepared = prepared
        self._network = network
        self._numbers = {
            (flow["id"], index): number
            for number, (flow, index) in enumerate(
                (flow, index) for flow in network.experiment["flows"] for index in range(len(flow["paths"]))
            )
        }

    def of(self, streams: Iterable[Stream], openings: Iterable[Stream] = ()) -> dict[str, Table]:
        """Returns the table of each switch. `openings` are streams whose subflows the controller
        tells apart.
        """
        tables = {switch: Table() for switch in self._network.switches}
        for switch in tables:
            for entry in self._of_roles():
                tables[switch].add(entry)
        for stream in streams:
            self.add(tables, stream)
        for stream in openings:
            match = replace(stream.match, protocol=TCP, opening=True)
            tables[stream.steps[0].switch].add(Entry(PRIORITY_OF_OPENING, match, TO_CONTROLLER))
        return tables

    def _of_roles(self) -> list[Entry]:
        found = []
        if self.roles.is_reactive:
            found.append(Entry(PRIORITY_OF_MISS, Match(), TO_CONTROLLER))
        if self.roles.discovers:
            found.append(Entry(PRIORITY_OF_DISCOVERY, Match(LLDP), TO_CONTROLLER))
        if self.roles.answers_programs:
            questions = [Match(family, protocol=UDP, destination_port=DNS_PORT) for family in (IPV4, IPV6)]
            found += [Entry(PRIORITY_OF_RESPONDER, match, TO_CONTROLLER) for match in (Match(ARP), *questions)]
        return found

    def add(self, tables: Tables, stream: Stream) -> None:
        """Adds the entries of a stream, and those of its detours."""
        for step in stream.steps:
            tables[step.switch].add(Entry(stream.priority, stream.match, (Output(step.out_port),)))
        for detour in self.prepared.get((stream.key, stream.side), ()):
            found = protection(self._network, stream, detour)
            if found is not None:
                self._protect(tables, stream, found)

    def _protect(self, tables: Tables, stream: Stream, found: Protection) -> None:
        number = self.group_number(stream)
        table = tables[found.switch]
        table.groups[number] = Group(number, (Bucket(found.primary, (Output(found.primary),)), found.bucket))
        table.add(Entry(stream.priority, stream.match, (ToGroup(number),)))
        for switch, entry in found.entries:
            tables[switch].add(entry)

    def of_stream(self, stream: Stream) -> dict[str, Table]:
        """Returns what a stream alone puts into tables, by switch."""
        tables = {switch: Table() for switch in self._network.switches}
        self.add(tables, stream)
        return {switch: table for switch, table in tables.items() if table.entries}

    def group_number(self, stream: Stream) -> int:
        """Returns the number of the groups of a stream, the same at each switch and in each run."""
        return 2 * self._numbers[stream.key] + (1 if stream.side == "there" else 2)


def is_there(part: Mapping[str, Table], whole: Tables) -> bool:
    """Returns whether tables hold all entries of others. Copies to the controller do not count."""
    return all(
        (found := whole[switch].entries.get(key)) is not None and _forwarding(found) == entry.actions
        for switch, table in part.items()
        for key, entry in table.entries.items()
    )


def _forwarding(entry: Entry) -> tuple[Action, ...]:
    return tuple(action for action in entry.actions if action != Output(CONTROLLER))
