"""What rules, routes and endpoints a machine should have, as a pure function of its interfaces and
routes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from mptcplab.errors import UsageError
from mptcplab.routing.machine import DEFAULT, Endpoint, Family, Interface, Machine, Route, Rule, family_of

#: Names of interfaces (15 characters at most) with the wildcards of fnmatch.
_PATTERN = re.compile(r"[A-Za-z0-9_.:*?\[\]!-]{1,32}")


@dataclass(frozen=True)
class Choice:
    """Which interfaces take part, which of them as backup, and whether endpoints are added."""

    interfaces: tuple[str, ...] = ("*",)
    backup: tuple[str, ...] = ()
    with_endpoints: bool = True

    def __post_init__(self) -> None:
        for pattern in (*self.interfaces, *self.backup):
            if not _PATTERN.fullmatch(pattern):
                raise UsageError(f"routing: {pattern!r} is not the name of an interface; allowed: wlan0, or eth*")

    def has(self, interface: Interface) -> bool:
        """Returns whether an interface takes part."""
        return any(fnmatchcase(interface.name, pattern) for pattern in self.interfaces)

    def is_backup(self, interface: Interface) -> bool:
        """Returns whether an interface is only for times when no other works."""
        return any(fnmatchcase(interface.name, pattern) for pattern in self.backup)


@dataclass(frozen=True)
class Plan:
    """The rules, routes and endpoints that a machine should have."""

    rules: frozenset[Rule] = frozenset()
    routes: frozenset[Route] = frozenset()
    endpoints: frozenset[Endpoint] = frozenset()


def unmatched(machine: Machine, choice: Choice) -> str | None:
    """Returns a sentence if there are uplinks, but the choice leaves out all of them."""
    others = uplinks(machine, Choice())
    if not others or uplinks(machine, choice):
        return None
    patterns = ", ".join(choice.interfaces)
    return f"--interface {patterns} leaves out all uplinks: {', '.join(one.name for one in others)}"


def uplinks(machine: Machine, choice: Choice) -> dict[Interface, list[str]]:
    """Returns the interfaces that take part, with those of their addresses whose family has a
    default route over the interface.
    """
    found = {}
    for interface in machine.interfaces:
        families = {
            route.family
            for route in machine.main
            if route.device == interface.name and route.destination == DEFAULT and choice.has(interface)
        }
        addresses = [address for address in interface.addresses if family_of(address) in families]
        if addresses:
            found[interface] = addresses
    return found


def planned(machine: Machine, choice: Choice) -> Plan:
    """Returns what a machine should have: for each uplink a table with its default route, and a
    rule and an endpoint for each address.

    A table has also what main has for other destinations, but not the links of other uplinks, so
    that packets of one uplink's address never leave through another, and still reach networks
    behind tunnels and bridges. What main refuses, a table refuses too.
    """
    found = uplinks(machine, choice)
    rules, routes, endpoints = set(), set(), set()
    for interface, addresses in found.items():
        others = {other.name for other in found} - {interface.name}
        families = {family_of(address) for address in addresses}
        rules |= {Rule(family_of(address), address, interface.table) for address in addresses}
        routes |= _routes(machine, interface, families, others)
        if choice.with_endpoints:
            endpoints |= {Endpoint(address, interface.name, choice.is_backup(interface)) for address in addresses}
    return Plan(frozenset(rules), frozenset(routes), frozenset(endpoints))


def _routes(machine: Machine, interface: Interface, families: set[Family], others: set[str]) -> set[Route]:
    of_table = [
        route
        for route in machine.main
        if route.family in families
        and route.device not in others
        and (route.destination != DEFAULT or route.device == interface.name)
    ]
    # A table takes one route for a destination and a metric: of several next hops, that over the
    # interface.
    of_table.sort(key=lambda route: route.device != interface.name)
    # Of several default routes of a family, the one that main prefers counts.
    best = {
        family: min(
            (route for route in of_table if route.family == family and route.destination == DEFAULT),
            key=lambda route: (route.tos is not None, route.metric or 0),
        )
        for family in families
    }
    kept: dict[tuple[object, ...], Route] = {}
    for route in of_table:
        if route.destination != DEFAULT or route is best[route.family]:
            key = route.family, route.destination, route.tos, route.metric
            kept.setdefault(key, replace(route, table=interface.table))
    return set(kept.values())
