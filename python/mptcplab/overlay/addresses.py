"""The addresses of an overlay: outside, in the network that joins its sites, and inside."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

#: The network between local sites. RFC 2544, appendix C.2.2 sets it aside for benchmarks, so it
#: clashes with nothing that a machine reaches.
OUTSIDE = IPv4Network("198.18.0.0/16")
#: The network inside tunnels: sites in the lower half, hosts in the upper half.
INSIDE = IPv4Network("198.19.0.0/16")
HOSTS = IPv4Network("198.19.128.0/17")
#: The machine itself, as its sites see it.
MACHINE = OUTSIDE[1]
#: The machine's own end of the network between local sites.
DEVICE = "mptcplab-sites"
#: UDP port of every site and of the coordinator, chosen from the dynamic ports (RFC 6335).
PORT = 57478
#: UDP port of VXLAN (RFC 7348, section 5).
VXLAN_PORT = 4789

#: Addresses of sites begin here in both networks.
_FIRST_SITE = 256
MOST_SITES = 1000
MOST_TUNNELS_OF_HOSTS = HOSTS.num_addresses - 2

#: IPv4, UDP, VXLAN and the frame's own header (RFC 7348, section 5).
VXLAN_OVERHEAD_BYTES = 20 + 8 + 8 + 14
OUTSIDE_MTU_BYTES = 1500
MESH_MTU_BYTES = OUTSIDE_MTU_BYTES - VXLAN_OVERHEAD_BYTES
#: What a tunnel of a host carries. It leaves room for the headers of that tunnel and of the mesh.
HOST_MTU_BYTES = 1400


def outside(site: int) -> IPv4Address:
    """Returns the address of a site in the network between sites."""
    return OUTSIDE[_FIRST_SITE + site]


def inside(site: int) -> IPv4Address:
    """Returns the address of a site within the overlay."""
    return INSIDE[_FIRST_SITE + site]


def mac(site: int) -> str:
    """Returns the locally administered link-layer address of a site's end of its tunnels."""
    return f"02:00:00:00:{site >> 8:02x}:{site & 255:02x}"
