"""An overlay as a description of an experiment: a host with one link that has joined the nearest
sites, a server, and what lies between them.

The mesh and the routes come from the functions that the overlay itself uses. A tunnel leads over
the access links of its two sites, as it does in the overlay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from mptcplab.errors import SpecError, UsageError
from mptcplab.overlay import mesh
from mptcplab.overlay.addresses import HOST_MTU_BYTES
from mptcplab.overlay.plan import Plan

HOST, SERVER, INTERNET, UPLINK, DIRECT = "host", "server", "internet", "uplink", "direct"
#: What the overlay does not know: the links of the host and the server.
UPLINK_RATE, DIRECT_RATE, OTHER_DELAY = "20mbit", "5mbit", "5ms"
_ROUTER = {"kind": "router"}


def described(plan: Plan, count: int) -> dict[str, Any]:
    """Returns the description of an experiment in which a host has joined the `count` nearest sites.

    Raises UsageError if there are not so many sites, and SpecError if the description does not have
    the links of all sites, or the policy finds no routes.
    """
    routes = joined_routes(plan, count)
    passed = sorted({site for route in routes for site in route})
    if taken := {plan.sites[site].name for site in passed} & {HOST, SERVER, INTERNET, UPLINK}:
        raise SpecError(f"a site has the name '{min(taken)}'", allowed="other names in an experiment")
    tunnels = [f"tunnel{number}" for number in range(len(routes))]
    nodes = [INTERNET, UPLINK, DIRECT, *tunnels, *(plan.sites[site].name for site in passed)]
    return {
        "name": plan.name,
        "title": f"A host with one link that has joined {count} of the {len(plan.sites)} sites of {plan.name}",
        "hosts": {HOST: {}, SERVER: {}},
        "nodes": dict.fromkeys(nodes, _ROUTER),
        "links": {**_host_links(tunnels), **_site_links(plan, passed)},
        "flows": {
            "upload": {
                "from": HOST,
                "to": SERVER,
                "transport": "mptcp",
                "routes": [[DIRECT, UPLINK, INTERNET], *_node_routes(plan, tunnels, routes)],
            }
        },
        "measure": {"every": "100ms"},
        "duration": "10s",
    }


def joined_routes(plan: Plan, count: int) -> list[list[int]]:
    """Returns the routes of a host at its nearest sites, the nearest first."""
    if unknown := [site.name for site in plan.sites if site.at is not None]:
        raise SpecError(f"site {unknown[0]} is another machine", allowed="sites whose links are described")
    if count > len(plan.sites):
        raise UsageError(f"--nearest {count}: there are {len(plan.sites)} sites; allowed: as many")
    # Links are symmetric, so the round-trip time of a tunnel is twice the delays of its ends.
    delays_ns = [site.delay_ns for site in plan.sites]
    rtt_s = {(a, b): 2e-9 * (delays_ns[a] + delays_ns[b]) for a, b in mesh.full(len(plan.sites))}
    pairs = mesh.planned(plan, rtt_s)
    near = sorted(range(len(plan.sites)), key=lambda site: (delays_ns[site], site))[:count]
    exits = {number for number, site in enumerate(plan.sites) if site.is_exit}
    found = mesh.routes(
        plan.policy, {pair: rtt_s[pair] for pair in pairs}, near, exits, [site.name for site in plan.sites]
    )
    return [found[site] for site in near]


def _host_links(tunnels: Sequence[str]) -> dict[str, Any]:
    """Returns the links of the host, whose interfaces share its one link, and of the server."""
    inside = {name: {"between": [f"{HOST}.{name}", name], "mtu": HOST_MTU_BYTES} for name in tunnels}
    return {
        DIRECT: {"between": [f"{HOST}.eth0", DIRECT], "rate": DIRECT_RATE},
        **inside,
        **{f"{name}-{UPLINK}": {"between": [name, UPLINK]} for name in (DIRECT, *tunnels)},
        UPLINK: {"between": [UPLINK, INTERNET], "rate": UPLINK_RATE, "delay": OTHER_DELAY},
        SERVER: {"between": [f"{SERVER}.eth0", INTERNET], "delay": OTHER_DELAY},
    }


def _site_links(plan: Plan, sites: Sequence[int]) -> dict[str, Any]:
    """Returns the access links of sites."""
    return {
        f"access-{site.name}": {"between": [site.name, INTERNET], "delay": f"{site.delay_ns}ns", **_rate(site.rate_bps)}
        for site in (plan.sites[number] for number in sites)
    }


def _rate(rate_bps: int | None) -> Mapping[str, str]:
    return {} if rate_bps is None else {"rate": f"{rate_bps}bit"}


def _node_routes(plan: Plan, tunnels: Sequence[str], routes: Sequence[Sequence[int]]) -> list[list[str]]:
    """Returns the nodes that packets of each tunnel pass: between sites always the internet."""
    return [
        [name, UPLINK, *(node for site in route for node in (INTERNET, plan.sites[site].name)), INTERNET]
        for name, route in zip(tunnels, routes, strict=True)
    ]


def as_yaml(description: Mapping[str, Any], made_by: str) -> str:
    """Returns a description as a file that begins with how it was made."""
    text = yaml.dump(dict(description), Dumper=_Plain, sort_keys=False, default_flow_style=None, width=110)
    head = "The links of host and server are assumed. Change them here, or with --set."
    return f"# Made by `{made_by}`.\n# {head}\n{text}"


class _Plain(yaml.SafeDumper):
    """Writes values that are the same object twice, not as an anchor."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True
