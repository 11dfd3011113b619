"""What the kernel of a site is told, as lines for the batches of ip(8), bridge(8) and nft(8).

A site is a router. Packets of a host's tunnel follow the entries of that tunnel, a rule and a table
of its own at each site of its route; answers follow a route to the tunnel's address. Whatever has
no entry is unreachable.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address
from itertools import pairwise

from mptcplab.overlay.addresses import (
    HOST_MTU_BYTES,
    HOSTS,
    INSIDE,
    MESH_MTU_BYTES,
    OUTSIDE,
    OUTSIDE_MTU_BYTES,
    VXLAN_PORT,
    inside,
    mac,
    outside,
)

#: Devices of a site: its access link, its end of all tunnels to other sites, and that of the
#: tunnels of hosts.
ACCESS, MESH, TUNNELS = "access", "mesh", "tunnels"
#: Settings of the kernel below `net`.
SETTINGS = (
    ("ipv4/ip_forward", "1"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv6/conf/all/disable_ipv6", "1"),
    ("ipv6/conf/default/disable_ipv6", "1"),
)
#: Priorities of rules. That of the table `local` is 0.
_PROTECT, _BETWEEN_HOSTS, _ENTRY, _INSIDE, _NOTHING_ELSE = 10, 90, 100, 200, 300
#: The table of a tunnel is this plus its number.
_FIRST_TABLE = 10_000
#: Packets from outside of a site: all that it does not send itself.
_ARRIVING = (MESH, TUNNELS)


def site_lines(site: int, *, is_exit: bool) -> list[str]:
    """Returns the lines for ip(8) that set up a site whose devices `ACCESS` and `TUNNELS` exist."""
    return [
        "link set lo up",
        f"addr add {outside(site)}/32 dev {ACCESS}",
        f"link set {ACCESS} mtu {OUTSIDE_MTU_BYTES} up",
        f"route add default dev {ACCESS}",
        f"link add {MESH} type vxlan id 1 local {outside(site)} dstport {VXLAN_PORT} nolearning",
        f"link set {MESH} address {mac(site)} mtu {MESH_MTU_BYTES} up",
        f"addr add {inside(site)}/32 dev {MESH}",
        f"link set {TUNNELS} mtu {HOST_MTU_BYTES} up",
        *(f"rule add pref {_PROTECT} iif {device} to {OUTSIDE} unreachable" for device in _ARRIVING),
        *([f"rule add pref {_BETWEEN_HOSTS} to {HOSTS} lookup main"] if is_exit else []),
        *(f"rule add pref {_INSIDE} iif {device} to {INSIDE} lookup main" for device in _ARRIVING),
        *(f"rule add pref {_NOTHING_ELSE} iif {device} unreachable" for device in _ARRIVING),
    ]


#: The lines for nft(8) of a site that forwards to the network behind it.
EXIT_LINES = f"""
table ip overlay {{
  chain leaving {{
    type nat hook postrouting priority srcnat
    oifname "{ACCESS}" ip saddr {HOSTS} masquerade
  }}
}}
"""


def tunnel_lines(other: int) -> tuple[list[str], list[str]]:
    """Returns the lines for ip(8) and bridge(8) that set up a site's tunnel to another site."""
    return (
        [
            f"neigh replace {inside(other)} lladdr {mac(other)} dev {MESH} nud permanent",
            f"route replace {inside(other)}/32 dev {MESH}",
        ],
        [f"fdb replace {mac(other)} dev {MESH} dst {outside(other)}"],
    )


def route_lines(address: IPv4Address, tunnel: int, route: Sequence[int], action: str = "add") -> dict[int, list[str]]:
    """Returns the lines for ip(8), by site, that lead packets from a host's address along a route
    of sites and from the last one outside, and answers back. `action` is `add` or `del`.
    """
    table = _FIRST_TABLE + tunnel
    lines = {site: [f"rule {action} pref {_ENTRY} from {address} lookup {table}"] for site in route}
    for near, far in pairwise(route):
        lines[near].append(f"route {action} default via {inside(far)} dev {MESH} onlink table {table}")
        lines[far].append(f"route {action} {address}/32 via {inside(near)} dev {MESH} onlink")
    lines[route[-1]].append(f"route {action} default dev {ACCESS} table {table}")
    lines[route[0]].append(f"route {action} {address}/32 dev {TUNNELS}")
    return lines
