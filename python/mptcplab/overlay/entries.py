"""What the kernel of a site is told, as lines for the batches of ip(8), bridge(8) and nft(8).

A site is a router. Packets of a host's tunnel follow the entries of that tunnel, a rule and a table
of its own at each site of its route; answers follow a route to the tunnel's address. Whatever has
no entry is unreachable.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from mptcplab.overlay.passages import Passage

#: Devices of a site: its access link, its end of all tunnels to other sites, and that of the
#: tunnels of hosts.
ACCESS, MESH, TUNNELS = "access", "mesh", "tunnels"
#: At a site with a switch: the bridge of Open vSwitch and the site's own port of it, its port to
#: `MESH`, and the kernel's bridge that joins these two.
SWITCH, TO_MESH, JOINED = "switch", "to-mesh", "joined"
#: The OpenFlow numbers of the ports to `MESH` and to `TUNNELS`.
PORT_OF_MESH, PORT_OF_TUNNELS = 1, 2
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
#: The type of frames with IPv4 (IEEE 802 numbers of IANA).
_IPV4 = b"\x08\x00"
#: Priorities of rules. That of the table `local` is 0.
_PROTECT, _BETWEEN_HOSTS, _ENTRY, _INSIDE, _NOTHING_ELSE = 10, 90, 100, 200, 300
#: The table of a tunnel is this plus its number.
_FIRST_TABLE = 10_000


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


def router_lines(site: int) -> list[str]:
    """Returns the lines for ip(8) at a site whose devices `MESH` and `TUNNELS` exist."""
    return [
        "link set lo up",
        f"link set {MESH} address {mac(site)} mtu {MESH_MTU_BYTES} up",
        f"addr add {inside(site)}/32 dev {MESH}",
        f"link set {TUNNELS} mtu {HOST_MTU_BYTES} up",
        *_rules((MESH, TUNNELS)),
    ]


def switched_router_lines(site: int, *, is_exit: bool) -> list[str]:
    """Returns the lines for ip(8) at a site whose switch forwards the packets of hosts.

    Its kernel gets what is for the site, and at an exit what leaves the overlay. The kernel's
    bridge cuts what the machine has received as one packet into packets of the MTU, because devices
    of Open vSwitch take no larger ones.
    """
    return [
        "link set lo up",
        f"link add {JOINED} type bridge",
        *(f"link set {device} master {JOINED} mtu {MESH_MTU_BYTES} up" for device in (MESH, TO_MESH)),
        f"link set {JOINED} up",
        f"link set {TUNNELS} mtu {HOST_MTU_BYTES} up",
        f"link set {SWITCH} arp off up",
        f"addr add {inside(site)}/32 dev {SWITCH}",
        *_rules((SWITCH,)),
        *(_switched_exit_lines() if is_exit else []),
    ]


def _switched_exit_lines() -> list[str]:
    return [
        f"route add {HOSTS} dev {SWITCH} mtu {HOST_MTU_BYTES}",
        f"rule add pref {_ENTRY} iif {SWITCH} from {HOSTS} lookup main",
    ]


def _rules(arriving: Sequence[str]) -> list[str]:
    """Returns the lines of a site for what arrives by these devices, which is all that it does not
    send itself.
    """
    return [
        *(f"rule add pref {_PROTECT} iif {device} to {OUTSIDE} unreachable" for device in arriving),
        # A host at this site, or behind it, is reached from here rather than by way of the exit.
        f"rule add pref {_BETWEEN_HOSTS} to {HOSTS} lookup main suppress_prefixlength 0",
        *(f"rule add pref {_INSIDE} iif {device} to {INSIDE} lookup main" for device in arriving),
        *(f"rule add pref {_NOTHING_ELSE} iif {device} unreachable" for device in arriving),
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


#: Further lines of such a site with a switch. Where the kernel's bridge hands packets to netfilter
#: (br_netfilter), their connections would be known, without a new address, before they reach
#: `ACCESS`.
SWITCHED_EXIT_LINES = f"""
table ip overlay {{
  chain bridged {{
    type filter hook prerouting priority raw
    iifname "{JOINED}" notrack
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


def tunnel_lines(other: int) -> list[str]:
    """Returns the lines for ip(8) by which a site sends packets of its own through its tunnel to
    another site.
    """
    return [
        f"neigh replace {inside(other)} lladdr {mac(other)} dev {MESH} nud permanent",
        f"route replace {inside(other)}/32 dev {MESH}",
    ]


def frame_header(site: int) -> bytes:
    """Returns the header of the frames in which packets of hosts reach the switch of a site. Its
    entries replace the addresses.
    """
    address = bytes.fromhex(mac(site).replace(":", ""))
    return address + address + _IPV4


def switched_tunnel_lines(other: int) -> list[str]:
    """Returns the same lines for a site whose switch forwards them."""
    return [f"route replace {inside(other)}/32 dev {SWITCH}"]


def far_end_line(other: int, address: str) -> str:
    """Returns the line for bridge(8) by which frames to another site go to its address outside."""
    return f"fdb replace {mac(other)} dev {MESH} dst {address}"


def changes(removed: Sequence[Passage], added: Sequence[Passage]) -> list[str]:
    """Returns the lines for ip(8) at a site that forwards some passages no longer, and others from
    now on.
    """
    return [
        line
        for action, some in (("del", removed), ("add", added))
        for passage in some
        for line in passage_lines(passage, action)
    ]


def passage_lines(passage: Passage, action: str) -> list[str]:
    """Returns the lines for ip(8) at a site that lead packets from a host's address to the next
    site or outside, and answers back. `action` is `add` or `del`.
    """
    table = _FIRST_TABLE + passage.tunnel
    way = f"via {MACHINE} dev {ACCESS}" if passage.after is None else f"via {inside(passage.after)} dev {MESH}"
    back = f"dev {TUNNELS}" if passage.before is None else f"via {inside(passage.before)} dev {MESH} onlink"
    return [
        f"rule {action} pref {_ENTRY} from {passage.address} lookup {table}",
        f"route {action} default {way} onlink table {table}",
        f"route {action} {passage.address}/32 {back}",
    ]
