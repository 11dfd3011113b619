"""Makes resolved experiments with controlled switches, as far as the controller reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any


def experiment(
    switches: int = 3,
    *,
    attach: int = 1,
    links: Sequence[tuple[int, int]] | None = None,
    ways: Sequence[Sequence[int]] = ((1, 2),),
    flows: Sequence[Mapping[str, Any]] = ({},),
    **control: Any,
) -> dict[str, Any]:
    """Returns switches `s1`, `s2`.. in full mesh, or joined by `links`, with host `h1` at `s1` and
    `h2` at `s2`.

    Link `s1-s2` goes from `s1` to `s2`. Each host has interfaces `eth0` to `eth<attach - 1>`. Path
    *i* of each flow takes the switches of `ways[i]` from `eth<i>` to `eth<i>`, or from `eth0` to
    `eth0` if there is only that.
    """
    between = [(f"s{a}", f"s{b}") for a, b in links or combinations(range(1, switches + 1), 2)]
    interfaces: list[dict[str, Any]] = []
    joined: list[dict[str, Any]] = []
    for host, switch, last in (("h1", "s1", 1), ("h2", "s2", 2)):
        for index in range(attach):
            _join(
                interfaces,
                joined,
                f"{host}-{index}",
                (f"{host}.eth{index}", host),
                (f"{switch}.{host}-{index}", switch),
            )
            own = next(one for one in interfaces if one["id"] == f"{host}.eth{index}")
            own |= {"ipv4": f"10.0.{index}.{last}/16", "ipv6": f"fd00::{index}:{last}/64"}
    for a, b in between:
        _join(interfaces, joined, f"{a}-{b}", (f"{a}.{b}", a), (f"{b}.{a}", b))
    return {
        "hosts": [{"id": "h1"}, {"id": "h2"}],
        "nodes": [{"id": f"s{number}", "kind": "openflow", "next_hop": None} for number in range(1, switches + 1)],
        "interfaces": interfaces,
        "links": joined,
        "middleboxes": [],
        "events": [],
        "user_code": [],
        "subnets": [{"id": 0, "ipv4": "10.0.0.0/16", "ipv6": "fd00::/64"}],
        "flows": [_flow(index, flow, ways, attach) for index, flow in enumerate(flows)],
        "access": [],
        "control": {
            "install": "proactive",
            "command": None,
            "discover": False,
            "statistics_ns": 500_000_000,
            "costs": [{"link": f"{a}-{b}", "cost": 1} for a, b in between],
            "srlg": [],
            "recovery": {"strategy": "none", "parameters": {}, "detect_ns": None},
            **control,
        },
    }


def recovery(strategy: str, detect_ns: int | None = None) -> dict[str, Any]:
    """Returns the part of `control` that names a strategy."""
    return {"strategy": strategy, "parameters": {}, "detect_ns": detect_ns}


def _join(
    interfaces: list[dict[str, Any]], links: list[dict[str, Any]], name: str, a: tuple[str, str], b: tuple[str, str]
) -> None:
    links.append({"id": name, "a": a[0], "b": b[0]})
    for interface, node in (a, b):
        row = {"id": interface, "node": node, "link": name, "ipv4": None, "ipv6": None, "subnet": 0, "mtu_bytes": 1500}
        interfaces.append(row)


def _flow(index: int, given: Mapping[str, Any], ways: Sequence[Sequence[int]], attach: int) -> dict[str, Any]:
    mine = given.get("ways", ways)
    flow = {
        "id": f"f{index}",
        "from": "h1",
        "to": "h2",
        "opened_by": "from",
        "transport": "mptcp",
        "app": {"kind": "bulk"},
        "paths": [_path(min(number, attach - 1), way) for number, way in enumerate(mine)],
    }
    return flow | {key: value for key, value in given.items() if key != "ways"}


def _path(interface: int, way: Sequence[int]) -> dict[str, Any]:
    return {
        "local": f"h1.eth{interface}",
        "remote": f"h2.eth{interface}",
        "routed": False,
        "hops": [
            {"link": f"h1-{interface}", "direction": "forward"},
            *hops(*way),
            {"link": f"h2-{interface}", "direction": "backward"},
        ],
    }


def hops(*way: int) -> list[dict[str, str]]:
    """Returns the hops over switches that follow each other."""
    found = []
    for here, there in pairwise(way):
        low, high = sorted((here, there))
        found.append({"link": f"s{low}-s{high}", "direction": "forward" if here == low else "backward"})
    return found


def reversed_hops(given: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Returns the same links in the opposite direction."""
    other = {"forward": "backward", "backward": "forward"}
    return [{"link": hop["link"], "direction": other[hop["direction"]]} for hop in reversed(given)]
