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
    MACHINE,
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
#: The other end of `ACCESS` on the machine of an exit that is not local, and the machine's table.
EXIT, TABLE = "mptcplab-exit", "mptcplab_overlay"
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


def access_lines(site: int) -> list[str]:
    """Returns the lines for ip(8) at a local site, whose device `ACCESS` leads to all others."""
    return [
        f"addr add {outside(site)}/32 dev {ACCESS}",
        f"link set {ACCESS} mtu {OUTSIDE_MTU_BYTES} up",
        f"route add default dev {ACCESS}",
        f"link add {MESH} {_vxlan()} local {outside(site)}",
    ]


def machine_lines(site: int, namespace: str, *, is_exit: bool) -> list[str]:
    """Returns the lines for ip(8) on the machine of a site that is not local. `namespace` is the
    path of the site's. Its tunnels use the machine's addresses, because their device is made here.
    """
    return [
        f"link add {MESH} netns {namespace} {_vxlan()}",
        *(_exit_machine_lines(site, namespace) if is_exit else []),
    ]


def _exit_machine_lines(site: int, namespace: str) -> list[str]:
    return [
        f"link add {EXIT} type veth peer name {ACCESS} netns {namespace}",
        f"addr add {MACHINE}/32 dev {EXIT}",
        f"link set {EXIT} up",
        f"route add {outside(site)}/32 dev {EXIT}",
    ]


def exit_lines(site: int) -> list[str]:
    """Returns the lines for ip(8) at a site that is not local, by which it reaches its machine."""
    return [
        f"addr add {outside(site)}/32 dev {ACCESS}",
        f"link set {ACCESS} up",
        f"route add default via {MACHINE} dev {ACCESS} onlink",
    ]


def router_lines(site: int, *, is_exit: bool) -> list[str]:
    """Returns the lines for ip(8) at a site whose devices `MESH` and `TUNNELS` exist."""
    return [
        "link set lo up",
        f"link set {MESH} address {mac(site)} mtu {MESH_MTU_BYTES} up",
        f"addr add {inside(site)}/32 dev {MESH}",
        f"link set {TUNNELS} mtu {HOST_MTU_BYTES} up",
        *(f"rule add pref {_PROTECT} iif {device} to {OUTSIDE} unreachable" for device in _ARRIVING),
        *([f"rule add pref {_BETWEEN_HOSTS} to {HOSTS} lookup main"] if is_exit else []),
        *(f"rule add pref {_INSIDE} iif {device} to {INSIDE} lookup main" for device in _ARRIVING),
        *(f"rule add pref {_NOTHING_ELSE} iif {device} unreachable" for device in _ARRIVING),
    ]


def _vxlan() -> str:
    return f"type vxlan id 1 dstport {VXLAN_PORT} nolearning"


#: The lines for nft(8) of a site that forwards to the network behind it.
EXIT_LINES = f"""
table ip overlay {{
  chain leaving {{
    type nat hook postrouting priority srcnat
    oifname "{ACCESS}" ip saddr {HOSTS} masquerade
  }}
}}
"""


def machine_table(site: int, forwarding: Sequence[str]) -> str:
    """Returns the lines for nft(8) on the machine of an exit: it takes the site's packets as its
    own, nobody else opens connections to the site, and devices that forward only for the site's
    sake forward nothing else.
    """
    devices = ", ".join(f'"{device}"' for device in forwarding)
    guard = f'    iifname {{ {devices} }} oifname != "{EXIT}" drop\n' if forwarding else ""
    return f"""
table ip {TABLE} {{
  chain leaving {{
    type nat hook postrouting priority srcnat
    ip saddr {outside(site)} oifname != "{EXIT}" masquerade
  }}
  chain forwarded {{
    type filter hook forward priority filter
{guard}    oifname "{EXIT}" ct state new drop
  }}
}}
"""


def tunnel_lines(other: int, address: str) -> tuple[list[str], list[str]]:
    """Returns the lines for ip(8) and bridge(8) that set up a site's tunnel to another site, which
    has this address outside.
    """
    return (
        [
            f"neigh replace {inside(other)} lladdr {mac(other)} dev {MESH} nud permanent",
            f"route replace {inside(other)}/32 dev {MESH}",
        ],
        [f"fdb replace {mac(other)} dev {MESH} dst {address}"],
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
    lines[route[-1]].append(f"route {action} default via {MACHINE} dev {ACCESS} onlink table {table}")
    lines[route[0]].append(f"route {action} {address}/32 dev {TUNNELS}")
    return lines
