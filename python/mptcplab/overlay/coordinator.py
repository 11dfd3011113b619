"""The main module of an overlay: sites, their mesh, which of them operate, and the hosts that have
joined.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import secrets
import signal
import socket
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from itertools import count, pairwise
from time import monotonic, sleep
from typing import Any

from mptcplab.errors import SpecError
from mptcplab.overlay import mesh
from mptcplab.overlay.addresses import HOSTS, MACHINE, MOST_TUNNELS_OF_HOSTS, OUTSIDE, PORT, outside
from mptcplab.overlay.entries import route_lines
from mptcplab.overlay.failure import OverlayFailed
from mptcplab.overlay.internet import ORDER, End, Internet
from mptcplab.overlay.membership import BEAT_S, Membership
from mptcplab.overlay.mesh import Pair
from mptcplab.overlay.messages import Kind, received, udp_socket
from mptcplab.overlay.namespaces import run, tun
from mptcplab.overlay.plan import Plan
from mptcplab.overlay.site import HostTunnel, Site

#: The machine's own end of the network between local sites.
DEVICE = "mptcplab-sites"
#: How often the coordinator looks for silent sites and hosts.
_LOOK_S = 0.25
#: Each tunnel is measured once in so many heartbeats, and with each one while an answer is missing.
_BEATS_OF_MEASUREMENT = 2
#: A tunnel does not operate once so many echoes in a row are without an answer.
_MOST_MISSING = 3
#: A host that is silent for this time has left.
HOST_SILENT_S = 20.0
#: All sites have to check in within this time after the start.
_PATIENCE_S = 20.0
#: Echoes between all sites: this many, then a pause, so that they do not wait for each other.
_ECHOES, _PAUSE_S = 40, 0.006
#: linux/prctl.h
_PR_SET_PDEATHSIG = 1


@dataclass
class Joined:
    """A host that has joined."""

    id: str
    client: str
    tunnels: dict[int, HostTunnel]
    """Its tunnels by their sites."""
    routes: dict[int, list[int]] = field(default_factory=dict)
    """The route of each tunnel whose site operates, if there is one."""


class Coordinator:
    """Builds the sites of a plan and keeps them together. All of it ends with this process.

    Raises OverlayFailed or OSError if the machine refuses a part.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sites = [Site(one.name, number, is_exit=one.is_exit) for number, one in enumerate(plan.sites)]
        self.by_name = {site.name: site for site in self.sites}
        self.membership = Membership(range(len(self.sites)))
        self.mesh: list[Pair] = []
        self.joined: dict[str, Joined] = {}
        self.cut: set[int] = set()
        #: The tunnels that are cut, and those that do not operate.
        self.cut_tunnels: set[Pair] = set()
        self.silent_tunnels: set[Pair] = set()
        self._next_tunnel = 0
        self._used: set[int] = set()
        self._orders, self._internet = self._start_internet()
        for site in self.sites:
            site.set_up()
        run(
            ["ip", "-batch", "-"],
            f"addr add {MACHINE}/32 dev {DEVICE}\nlink set {DEVICE} up\nroute add {OUTSIDE} dev {DEVICE}\n",
        )
        self._socket: socket.socket = udp_socket(str(MACHINE), PORT)

    def _start_internet(self) -> tuple[int, int]:
        """Starts the process of the network between sites. Returns the pipe for orders and its id."""
        own = tun(DEVICE)
        ends = [End(own, MACHINE, 0, None)]
        ends += [
            End(site.access_fd, outside(site.number), planned.delay_ns, planned.rate_bps)
            for site, planned in zip(self.sites, self.plan.sites, strict=True)
        ]
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() == parent:
                    _close_all_but({0, 1, 2, reading, *(end.fd for end in ends)})
                    Internet(ends, reading).run()
                    status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        for fd in (reading, *(end.fd for end in ends)):
            os.close(fd)
        return writing, pid

    def close(self) -> None:
        """Ends the network between sites, and with this process the rest."""
        os.close(self._orders)
        # Closing a TUN device takes some 20 ms each. Only this one is in a namespace of others.
        while _exists(DEVICE):
            sleep(0.01)

    # ---- the start ----

    async def start(self) -> None:
        """Waits until all sites have checked in, and sets up the mesh. Raises OverlayFailed."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._socket, self._on_beats)
        for site in self.sites:
            loop.add_reader(site.socket, site.on_datagrams)
            loop.add_reader(site.tunnels_fd, site.on_packets)
        await self._check_in()
        self.mesh = await self._planned_mesh()
        for site in self.sites:
            site.join_mesh([b if a == site.number else a for a, b in self.mesh if site.number in (a, b)])
        # Measurements of many sites take longer than a site may be silent.
        self.membership = Membership(range(len(self.sites)))
        await self._check_in()

    async def _check_in(self) -> None:
        deadline = monotonic() + _PATIENCE_S
        while missing := [site.name for site in self.sites if site.number not in self.membership.present]:
            if monotonic() > deadline:
                raise OverlayFailed(f"{len(missing)} sites do not check in, first {missing[0]}")
            for site in self.sites:
                if site.number not in self.membership.present:
                    site.beat()
            await asyncio.sleep(0.5)

    async def _planned_mesh(self) -> list[Pair]:
        sites = len(self.sites)
        if self.plan.pairs is not None:
            return self.plan.pairs
        if self.plan.neighbours is None or self.plan.neighbours >= sites - 1:
            return mesh.full(sites)
        return mesh.nearest(sites, self.plan.neighbours, await self._distances())

    async def _distances(self) -> dict[Pair, float]:
        """Measures the round-trip times between all sites."""
        for number, (a, b) in enumerate(mesh.full(len(self.sites))):
            self.sites[a].ask(b, through_tunnel=False)
            if number % _ECHOES == 0:
                await asyncio.sleep(_PAUSE_S)
        await asyncio.sleep(2 * max(site.delay_ns for site in self.plan.sites) * 2 / 1e9 + 0.2)
        return {
            (site.number, other): found.rtt_s
            for site in self.sites
            for (other, _), found in site.measured.items()
            if found.rtt_s is not None
        }

    # ---- what goes on all the time ----

    async def watch(self) -> None:
        """Keeps heartbeats, measurements and memberships going. Raises OverlayFailed if the network
        between sites ends.
        """
        await asyncio.gather(self._look(), *(self._live(site) for site in self.sites))

    async def _live(self, site: Site) -> None:
        """The heartbeat and the measurements of one site, which do not all beat at once."""
        await asyncio.sleep(BEAT_S * site.number / len(self.sites))
        others = [b for a, b in self.mesh if a == site.number]
        for beats in count():
            begun = monotonic()
            site.beat()
            for other in others:
                if beats % _BEATS_OF_MEASUREMENT == 0 or self._missing((site.number, other)):
                    site.ask(other, through_tunnel=True)
            await asyncio.sleep(max(BEAT_S - (monotonic() - begun), 0.01))

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            ended, _ = os.waitpid(self._internet, os.WNOHANG)
            if ended:
                raise OverlayFailed("the process of the network between sites has ended")
            now_s = monotonic()
            silent = {pair for pair in self.mesh if self._missing(pair) >= _MOST_MISSING}
            changed, self.silent_tunnels = silent != self.silent_tunnels, silent
            if self.membership.drop_silent(now_s) or changed:
                self._route_anew()
            for host in list(self.joined.values()):
                if all(now_s - tunnel.heard_s > HOST_SILENT_S for tunnel in host.tunnels.values()):
                    self.disconnect(host.id)

    def _missing(self, pair: Pair) -> int:
        """Returns how many echoes through a tunnel in a row are without an answer."""
        found = self.sites[pair[0]].measured.get((pair[1], True))
        return found.missing if found is not None else 0

    def _on_beats(self) -> None:
        for message in received(self._socket):
            if message.kind == Kind.BEAT and message.number < len(self.sites):
                site = self.sites[message.number]
                known = message.key == site.key and message.source[0] == str(outside(site.number))
                if known and self.membership.beat(site.number, monotonic()):
                    self._route_anew()

    # ---- hosts ----

    def connect(self, client: str, names: Sequence[str]) -> Joined:
        """Gives a host a tunnel to each of the named sites, and installs their routes.

        Raises SpecError if a site is unknown, does not operate or is named twice, and if the policy
        finds no routes.
        """
        nodes = [self._operating(name) for name in names]
        if len(set(nodes)) < len(nodes):
            raise SpecError("a site is named twice", allowed="different sites")
        planned = self._routes(nodes)
        host = Joined(secrets.token_hex(8), client, {node: self._new_tunnel() for node in nodes})
        for node, tunnel in host.tunnels.items():
            self.sites[node].open_tunnel(tunnel)
        self.joined[host.id] = host
        self._install(host, planned)
        return host

    def disconnect(self, host_id: str) -> bool:
        """Removes a host with its routes and tunnels. Returns whether there was such a host."""
        host = self.joined.pop(host_id, None)
        if host is None:
            return False
        self._install(host, {})
        for node, tunnel in host.tunnels.items():
            self.sites[node].close_tunnel(tunnel)
            self._used.discard(tunnel.number)
        return True

    def set_cut(self, name: str, other: str | None, *, is_cut: bool) -> None:
        """Cuts the access link of a site, or its tunnel to another one, or restores it. Raises
        SpecError for an unknown site or tunnel.
        """
        number = self._known(name).number
        far = number if other is None else self._known(other).number
        pair = (min(number, far), max(number, far))
        if other is not None and pair not in self.mesh:
            raise SpecError(f"there is no tunnel between {name} and {other}", allowed="tunnels of the mesh")
        os.write(self._orders, ORDER.pack(number + 1, far + 1, is_cut))
        if other is None:
            (self.cut.add if is_cut else self.cut.discard)(number)
        else:
            (self.cut_tunnels.add if is_cut else self.cut_tunnels.discard)(pair)

    def _known(self, name: str) -> Site:
        if name not in self.by_name:
            raise SpecError(f"unknown site {name!r}", allowed="names of the list of nodes")
        return self.by_name[name]

    def _operating(self, name: str) -> int:
        number = self._known(name).number
        if number not in self.membership.present:
            raise SpecError(f"site {name} does not operate", allowed="sites of the current list of nodes")
        return number

    def _new_tunnel(self) -> HostTunnel:
        if len(self._used) >= MOST_TUNNELS_OF_HOSTS:
            raise SpecError("all addresses of hosts are in use", allowed=f"{MOST_TUNNELS_OF_HOSTS} tunnels")
        while self._next_tunnel in self._used:
            self._next_tunnel = (self._next_tunnel + 1) % MOST_TUNNELS_OF_HOSTS
        number = self._next_tunnel
        self._used.add(number)
        self._next_tunnel = (number + 1) % MOST_TUNNELS_OF_HOSTS
        return HostTunnel(number, secrets.randbits(64), HOSTS[number + 1])

    def _routes(self, nodes: Sequence[int]) -> dict[int, list[int]]:
        present = self.membership.present
        usable = {(a, b): self.rtt_s(a, b) for a, b in self.mesh if self._is_usable((a, b))}
        return mesh.routes(self.plan.policy, usable, nodes, {one for one in present if self.sites[one].is_exit})

    def _is_usable(self, pair: Pair) -> bool:
        return self.membership.present.issuperset(pair) and pair not in self.silent_tunnels

    def _works(self, route: Sequence[int]) -> bool:
        """Returns whether all sites and tunnels of a route operate."""
        tunnels = [(min(pair), max(pair)) for pair in pairwise(route)]
        return set(route) <= self.membership.present and all(map(self._is_usable, tunnels))

    def rtt_s(self, a: int, b: int) -> float | None:
        """Returns the measured round-trip time of a tunnel, or else of the way outside of it."""
        for through_tunnel in (True, False):
            found = self.sites[a].measured.get((b, through_tunnel))
            if found is not None and found.rtt_s is not None:
                return found.rtt_s
        return None

    def _route_anew(self) -> None:
        """Gives all hosts the routes through the sites and tunnels that operate now."""
        for host in self.joined.values():
            nodes = [node for node in host.tunnels if node in self.membership.present]
            if nodes and all(self._works(host.routes.get(node, [-1])) for node in nodes):
                continue
            try:
                planned = self._routes(nodes) if nodes else {}
            except SpecError:
                # Nothing is left that the policy allows. The next site that comes back may help.
                planned = {}
            self._install(host, planned)

    def _install(self, host: Joined, planned: dict[int, list[int]]) -> None:
        """Replaces the routes of a host."""
        lines: dict[int, list[str]] = {}
        for action, routes in (("del", host.routes), ("add", planned)):
            for node, route in routes.items():
                tunnel = host.tunnels[node]
                for site, own in route_lines(tunnel.address, tunnel.number, route, action).items():
                    lines.setdefault(site, []).extend(own)
        for site, own in lines.items():
            self.sites[site].configure(own)
        host.routes = planned

    # ---- what others see ----

    def nodes(self) -> list[dict[str, Any]]:
        """Returns the sites that operate."""
        return [
            {"node": site.name, "address": str(outside(site.number)), "port": PORT, "exit": site.is_exit}
            for site in self.sites
            if site.number in self.membership.present
        ]

    def names(self, route: Sequence[int]) -> list[str]:
        """Returns the names of the sites of a route."""
        return [self.sites[site].name for site in route]

    def address_of(self, node: int) -> IPv4Address:
        """Returns where a site's messages go."""
        return outside(node)

    def status(self) -> dict[str, Any]:
        """Returns the sites, tunnels and hosts."""
        now_s = monotonic()
        return {
            "name": self.plan.name,
            "policy": self.plan.policy,
            "sites": [self._site_status(site, now_s) for site in self.sites],
            "tunnels": list(self._tunnel_status()),
            "hosts": [
                {
                    "connection": host.id,
                    "client": host.client,
                    "tunnels": [
                        {
                            "node": self.sites[node].name,
                            "address": str(tunnel.address),
                            "route": self.names(host.routes.get(node, [])),
                            "heard_s": round(now_s - tunnel.heard_s, 3),
                        }
                        for node, tunnel in host.tunnels.items()
                    ],
                }
                for host in self.joined.values()
            ],
        }

    def _site_status(self, site: Site, now_s: float) -> dict[str, Any]:
        heard_s = self.membership.heard_s(site.number)
        return {
            "node": site.name,
            "operates": site.number in self.membership.present,
            "exit": site.is_exit,
            "cut": site.number in self.cut,
            "heard_s": None if heard_s is None else round(now_s - heard_s, 3),
        }

    def _tunnel_status(self) -> Iterator[dict[str, Any]]:
        for a, b in self.mesh:
            found = self.sites[a].measured.get((b, True))
            yield {
                "ends": [self.sites[a].name, self.sites[b].name],
                "operates": self._is_usable((a, b)),
                "cut": (a, b) in self.cut_tunnels,
                "rtt_s": None if found is None or found.rtt_s is None else round(found.rtt_s, 6),
                "sent": found.sent if found else 0,
                "answered": found.answered if found else 0,
            }


def _exists(device: str) -> bool:
    try:
        socket.if_nametoindex(device)
    except OSError:
        return False
    return True


def _close_all_but(kept: set[int]) -> None:
    """Closes all files of this process except `kept`."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    for before, after in pairwise([-1, *sorted(kept), most]):
        # An empty range would close everything.
        if before + 1 < after:
            os.closerange(before + 1, after)
