"""What this machine has: interfaces with their addresses, routes, and the rules, routes and
endpoints that mptcplab made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from mptcplab import iproute
from mptcplab.errors import RunFailed

#: The protocol number that marks our rules and routes. /etc/iproute2/rt_protos gives it to no one.
PROTOCOL = 119
PRIORITY = 7700
#: The table of an interface is this number plus the index of the interface.
FIRST_TABLE = 770_000

Family = Literal[4, 6]
FAMILIES: tuple[Family, ...] = (4, 6)
DEFAULT = "default"
#: The type of routes that carry packets, as `ip -N` prints it (RTN_UNICAST).
UNICAST = "1"


@dataclass(frozen=True)
class Interface:
    """An interface that is up and has a carrier, with its global addresses."""

    name: str
    index: int
    addresses: tuple[str, ...]

    @property
    def table(self) -> int:
        """The number of its routing table."""
        return FIRST_TABLE + self.index


@dataclass(frozen=True)
class Route:
    """A route. `gateway` is None for what the link reaches by itself."""

    family: Family
    table: int
    destination: str
    device: str
    gateway: str | None = None
    source: str | None = None
    metric: int | None = None
    is_onlink: bool = False


@dataclass(frozen=True)
class Rule:
    """A rule that sends packets from an address to a table."""

    family: Family
    source: str
    table: int


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of the kernel's path manager."""

    address: str
    device: str
    is_backup: bool = False


@dataclass(frozen=True)
class Machine:
    """The state of this machine, or of the namespace of this process."""

    interfaces: tuple[Interface, ...]
    #: The routes of the table main.
    main: tuple[Route, ...]
    #: Rules and routes that mptcplab made, by their protocol number.
    rules: frozenset[Rule]
    routes: frozenset[Route]
    #: All endpoints by their number; None if the kernel has no MPTCP.
    endpoints: dict[int, Endpoint] | None

    @classmethod
    def read(cls) -> Machine:
        """Reads the state. Raises RunFailed."""
        return cls(
            tuple(_interfaces()),
            tuple(route for family in FAMILIES for route in _routes(family, "table", "main")),
            frozenset(rule for family in FAMILIES for rule in _rules(family)),
            frozenset(
                route for family in FAMILIES for route in _routes(family, "table", "all", "proto", str(PROTOCOL))
            ),
            _endpoints(),
        )


def family_of(address: str) -> Family:
    """Returns the family of an address or a prefix."""
    return 6 if ":" in address else 4


def _interfaces() -> list[Interface]:
    return [
        Interface(one["ifname"], one["ifindex"], addresses)
        for one in iproute.told("address", "show")
        if {"UP", "LOWER_UP"} <= set(one["flags"]) and "LOOPBACK" not in one["flags"]
        if (addresses := tuple(found["local"] for found in one["addr_info"] if _is_usable(found)))
    ]


def _is_usable(address: dict[str, Any]) -> bool:
    """Returns whether new connections may use an address: not one that IPv6 still checks, found
    twice, or lets expire.
    """
    unusable = ("tentative", "dadfailed", "deprecated")
    return address.get("scope") == "global" and "local" in address and not any(address.get(one) for one in unusable)


def _routes(family: Family, *words: str) -> list[Route]:
    return [
        Route(
            family,
            int(one.get("table", 254)),
            one["dst"],
            one["dev"],
            one.get("gateway"),
            one.get("prefsrc"),
            one.get("metric"),
            "onlink" in one["flags"],
        )
        for one in iproute.told(f"-{family}", "-N", "route", "show", *words)
        # Routes over several devices, and those that refuse packets, have no device.
        if "dev" in one and one.get("type", UNICAST) == UNICAST and not one["dst"].startswith("fe80:")
    ]


def _rules(family: Family) -> list[Rule]:
    return [
        Rule(family, one["src"], int(one["table"]))
        for one in iproute.told(f"-{family}", "-N", "rule", "show")
        if one.get("protocol") == str(PROTOCOL) and one["table"].isdigit()
    ]


def _endpoints() -> dict[int, Endpoint] | None:
    try:
        found = iproute.told("mptcp", "endpoint", "show")
    except RunFailed:
        return None
    return {
        one["id"]: Endpoint(one["address"], one.get("dev", ""), bool(one.get("backup"))) for one in found if "id" in one
    }
