"""What this machine has: interfaces with their addresses, routes, and the rules, routes and
endpoints that mptcplab made.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
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
#: The types of routes that are copied, by the number that `ip -N` prints (RTN_UNICAST is 1). All
#: but the first refuse packets, and have no device.
UNICAST = "unicast"
KINDS = {"1": UNICAST, "6": "blackhole", "7": "unreachable", "8": "prohibit", "9": "throw"}
#: The metrics of a route that iproute2 shows and takes, each with one value.
METRICS = frozenset(
    ("mtu", "advmss", "initcwnd", "initrwnd", "rto_min", "quickack", "congctl", "hoplimit", "window", "rtt", "rttvar",
     "ssthresh", "cwnd", "reordering", "fastopen_no_cookie", "pref")
)  # fmt: skip
#: The values of the metric `features`, of which a route may have several.
FEATURES = frozenset(("ecn", "tcp_usec_ts"))


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
    """A route, or one next hop of a route. `gateway` is None for what the link reaches by itself,
    and may be of IPv6 for a route of IPv4. `metrics` are words of ip(8). `device` is empty for a
    kind that refuses packets.
    """

    family: Family
    table: int
    destination: str
    device: str
    gateway: str | None = None
    source: str | None = None
    metric: int | None = None
    is_onlink: bool = False
    kind: str = UNICAST
    tos: str | None = None
    metrics: str = ""


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
    # In text, because the JSON of ip(8) does not have the locks of metrics.
    command = ("-oneline", "-details", "-N", f"-{family}", "route", "show", *words)
    try:
        lines = iproute.run(iproute.PROGRAM, *command).splitlines()
    except RunFailed as failure:
        if "does not exist" in str(failure):
            return []
        raise
    return [route for line in lines for route in _next_hops(family, line)]


def _next_hops(family: Family, line: str) -> list[Route]:
    """Returns a route for each next hop of a line of `ip -oneline -details -N route show`: TYPE
    DESTINATION, what may be an encapsulation, `via` and `dev`, then `scope` and all else.
    """
    first, *others = [part.split() for part in line.replace("\\", " ").split(" scope ", 1)]
    kind, destination, rest = KINDS.get(first[0]), first[1], others[0] if others else []
    if kind is None or destination.startswith("fe80:"):
        return []
    end = _pairs(rest)
    shared = Route(
        family,
        int(_pairs(first).get("table", 254)),
        destination,
        "",
        source=end.get("src"),
        metric=int(end["metric"]) if "metric" in end else None,
        kind=kind,
        tos=None if "encap" in first else _pairs(first).get("tos"),
        metrics=_metrics(rest),
    )
    if kind != UNICAST:
        return [shared]
    # A next hop that only an object of `ip nexthop` describes has no device.
    return [_over(shared, hop) for hop in _parts(rest) or [first + rest] if "dev" in hop]


def _over(route: Route, hop: list[str]) -> Route:
    """Returns a route over a next hop, which `via`, `dev` and `onlink` describe."""
    found = _pairs(hop)
    return replace(route, device=found["dev"], gateway=found.get("inet6", found.get("via")), is_onlink="onlink" in hop)


def _parts(words: list[str]) -> list[list[str]]:
    """Returns what follows each word `nexthop`."""
    at = [place for place, word in enumerate(words) if word == "nexthop"]
    return [words[a:b] for a, b in pairwise([*at, len(words)])]


def _pairs(words: list[str]) -> dict[str, str]:
    """Returns the word after each word."""
    return dict(pairwise(words))


def _metrics(words: list[str]) -> str:
    """Returns the metrics among words of a route, as ip(8) takes them."""
    found = []
    for place, word in enumerate(words):
        if word in METRICS:
            value = words[place + 1 : place + 3] if words[place + 1] == "lock" else words[place + 1 : place + 2]
            # ip(8) locks `rto_min` by itself, and refuses the word there.
            found += [word, *(value[-1:] if word == "rto_min" else value)]
        elif word in FEATURES:
            found += ["features", word]
    return " ".join(found)


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
