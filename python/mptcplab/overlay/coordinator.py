"""The main module of an overlay: sites, their mesh, which of them operate, and the hosts that have
joined.
"""

from __future__ import annotations

import asyncio
import os
import resource
import secrets
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import monotonic, sleep
from typing import Any

from mptcplab import iproute
from mptcplab.errors import RunFailed, SpecError
from mptcplab.overlay import mesh
from mptcplab.overlay.addresses import (
    DEVICE,
    HOSTS,
    MACHINE,
    MESH_MTU_BYTES,
    MOST_TUNNELS_OF_HOSTS,
    OUTSIDE,
    PORT,
    VXLAN_PORT,
    inside,
    outside,
)
from mptcplab.overlay.children import end_with
from mptcplab.overlay.failure import OverlayFailed
from mptcplab.overlay.internet import ORDER, End, Internet
from mptcplab.overlay.membership import BEAT_S, Membership
from mptcplab.overlay.mesh import Pair
from mptcplab.overlay.messages import HEADERS_BYTES, Kind, received, udp_socket
from mptcplab.overlay.namespaces import tun
from mptcplab.overlay.passages import Passage, passages
from mptcplab.overlay.plan import Plan
from mptcplab.overlay.site import HostTunnel, LocalSite, missing
from mptcplab.overlay.site_elsewhere import SiteElsewhere

#: How often the coordinator looks for silent sites and hosts.
_LOOK_S = 0.25
#: A tunnel does not operate once so many echoes in a row are without an answer.
_MOST_MISSING = 3
#: Sites on other machines hear from the coordinator this often.
_TOUCH_S = 1.0
#: How long a tunnel to another machine may take to carry a packet, and how long echoes of other
#: machines take to be told.
_PROOF_S, _TOLD_S = 5.0, 1.0
#: A host that is silent for this time has left.
HOST_SILENT_S = 20.0
#: All sites have to check in within this time after the start.
_PATIENCE_S = 20.0
#: Echoes between all sites: this many, then a pause, so that they do not wait for each other.
_ECHOES, _PAUSE_S = 40, 0.006


@dataclass
class Joined:
    """A host that has joined."""

    id: str
    client: str
    tunnels: dict[int, HostTunnel]
    """Its tunnels by their sites."""
    routes: dict[int, list[int]] = field(default_factory=dict)
    """The route of each tunnel whose site operates, if there is one."""
    problem: str = ""
    """Why its routes are not what they should be."""


class Coordinator:
    """Builds the sites of a plan and keeps them together. All of it ends with this process.

    Raises OverlayFailed or OSError if the machine refuses a part.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.sites: list[LocalSite | SiteElsewhere] = [
            LocalSite(number, is_exit=one.is_exit) if one.at is None else SiteElsewhere(one, number)
            for number, one in enumerate(plan.sites)
        ]
        self._local = [site for site in self.sites if isinstance(site, LocalSite)]
        self._elsewhere = [site for site in self.sites if isinstance(site, SiteElsewhere)]
        self._by_name = {one.name: number for number, one in enumerate(plan.sites)}
        self.membership = Membership(range(len(self.sites)))
        self.mesh: list[Pair] = []
        self.joined: dict[str, Joined] = {}
        self.cut: set[int] = set()
        #: The tunnels that are cut, and those that do not operate.
        self.cut_tunnels: set[Pair] = set()
        self.silent_tunnels: set[Pair] = set()
        self._next_tunnel = 0
        self._used: set[int] = set()
        self._socket: socket.socket | None = None
        if self._local:
            _require_free_network()
            # First of all, because a process with threads cannot fork.
            self._orders, self._internet = self._start_internet()
            iproute.batch(
                [f"addr add {MACHINE}/32 dev {DEVICE}", f"link set {DEVICE} up", f"route add {OUTSIDE} dev {DEVICE}"]
            )
            self._socket = udp_socket(str(MACHINE), PORT)
        for local in self._local:
            local.set_up()
        self._begin_elsewhere()
        self.addresses = [
            str(outside(site.number)) if isinstance(site, LocalSite) else site.address for site in self.sites
        ]

    def _begin_elsewhere(self) -> None:
        """Starts the sites on other machines, after all of them have told what they change."""
        try:
            for site in self._elsewhere:
                site.connect()
                for line in site.changes:
                    print(f"{self.name_of(site.number)} {line}", file=sys.stderr, flush=True)
            for site in self._elsewhere:
                site.begin()
        except BaseException:
            self.close()
            raise

    def _start_internet(self) -> tuple[int, int]:
        """Starts the process of the network between local sites. Returns the pipe for orders and its
        id.
        """
        own = tun(DEVICE)
        ends = [End(own, MACHINE, 0, None)]
        ends += [
            End(site.access_fd, outside(site.number), planned.delay_ns, planned.rate_bps)
            for site, planned in ((one, self.plan.sites[one.number]) for one in self._local)
        ]
        reading, writing = os.pipe()
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                if end_with(parent):
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
        """Ends the sites on other machines and the network between local sites. The rest ends with
        this process.
        """
        closing = [threading.Thread(target=site.close) for site in self._elsewhere]
        for one in closing:
            one.start()
        for one in closing:
            one.join()
        if not self._local:
            return
        os.close(self._orders)
        # Closing a TUN device takes some 20 ms each. Only this one is in a namespace of others.
        while _exists(DEVICE):
            sleep(0.01)

    # ---- the start ----

    async def start(self) -> None:
        """Waits until all sites have checked in, and sets up the mesh. Raises OverlayFailed."""
        loop = asyncio.get_running_loop()
        if self._socket is not None:
            loop.add_reader(self._socket, self._on_beats, self._socket)
        for local in self._local:
            local.addresses = self.addresses
            local.listen(loop)
        for site in self._elsewhere:
            site.set_addresses(self.addresses)
            site.follow(loop, self._on_beat_elsewhere, self._on_change_elsewhere)
        touching = asyncio.create_task(self._stay_in_touch())
        await self._check_in()
        self.mesh = mesh.planned(self.plan, await self._distances() if self.plan.needs_distances else {})
        for number in range(len(self.sites)):
            self._join_mesh(number)
        # Measurements of many sites take longer than a site may be silent.
        self.membership = Membership(range(len(self.sites)))
        await self._check_in()
        await self._prove_tunnels()
        touching.cancel()

    def _join_mesh(self, number: int) -> None:
        others = [b if a == number else a for a, b in self.mesh if number in (a, b)]
        site = self.sites[number]
        if isinstance(site, SiteElsewhere):
            site.join_mesh(others, self._measured_by(number))
        else:
            site.join_mesh(others)

    def _measured_by(self, number: int) -> list[int]:
        """Returns the sites to which a site measures its tunnels: each tunnel has one such end."""
        return [b for a, b in self.mesh if a == number]

    async def _stay_in_touch(self) -> None:
        while True:
            for site in self._elsewhere:
                site.stay_in_touch()
            await asyncio.sleep(_TOUCH_S)

    async def _check_in(self) -> None:
        deadline = monotonic() + _PATIENCE_S
        while absent := [number for number in range(len(self.sites)) if number not in self.membership.present]:
            if monotonic() > deadline:
                first = self.sites[absent[0]]
                why = f": {first.problem}" if isinstance(first, SiteElsewhere) and first.problem else ""
                told = f"{len(absent)} of {len(self.sites)} sites are silent"
                raise OverlayFailed(f"{told}, first {self.name_of(first.number)}{why}")
            for site in self._local:
                if site.number in absent:
                    site.beat()
            await asyncio.sleep(0.5 if self._local else 0.05)

    async def _prove_tunnels(self) -> None:
        """Raises OverlayFailed unless the tunnels to other machines carry packets of their size."""
        size = MESH_MTU_BYTES - HEADERS_BYTES
        deadline = monotonic() + _PROOF_S
        while unproved := [
            (a, b)
            for a, b in self.mesh
            if any(isinstance(self.sites[end], SiteElsewhere) for end in (a, b)) and not self._answered(a, b)
        ]:
            if monotonic() > deadline:
                a, b = unproved[0]
                raise OverlayFailed(
                    f"the tunnel between {self.name_of(a)} at {self.addresses[a]} and {self.name_of(b)} at "
                    f"{self.addresses[b]} carries no packets of {MESH_MTU_BYTES} bytes; needed: UDP port {VXLAN_PORT} "
                    "open for both, and a network that carries them with 50 more"
                )
            for a, b in unproved:
                self.sites[a].ask(b, through_tunnel=True, size=size)
            await asyncio.sleep(0.25)

    def _answered(self, a: int, b: int) -> int:
        found = self.sites[a].measured.get((b, True))
        return found.answered if found else 0

    async def _distances(self) -> dict[Pair, float]:
        """Measures the round-trip times between all sites."""
        for number, (a, b) in enumerate(mesh.full(len(self.sites))):
            self.sites[a].ask(b, through_tunnel=False)
            if number % _ECHOES == 0:
                await asyncio.sleep(_PAUSE_S)
        longest_s = 2 * max(site.delay_ns for site in self.plan.sites) * 2 / 1e9
        await asyncio.sleep(longest_s + 0.2 + (_TOLD_S if self._elsewhere else 0))
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
        beating = (
            # They do not all beat at once.
            site.live(self._measured_by(site.number), BEAT_S * site.number / len(self.sites))
            for site in self._local
        )
        await asyncio.gather(self._look(), self._stay_in_touch(), *beating)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._local and os.waitpid(self._internet, os.WNOHANG)[0]:
                raise OverlayFailed("the process of the network between sites has ended")
            now_s = monotonic()
            silent = {pair for pair in self.mesh if missing(self.sites[pair[0]].measured, pair[1]) >= _MOST_MISSING}
            changed, self.silent_tunnels = silent != self.silent_tunnels, silent
            is_behind = any(host.problem for host in self.joined.values())
            if self.membership.drop_silent(now_s) or changed or is_behind:
                self._route_anew()
            for host in list(self.joined.values()):
                if all(now_s - tunnel.heard_s > HOST_SILENT_S for tunnel in host.tunnels.values()):
                    with _told(host):
                        self.disconnect(host.id)

    def _on_beats(self, at: socket.socket) -> None:
        for message in received(at):
            if message.kind == Kind.BEAT and message.number < len(self.sites):
                site = self.sites[message.number]
                known = isinstance(site, LocalSite) and message.key == site.key
                if (
                    known
                    and message.source[0] == self.addresses[site.number]
                    and self.membership.beat(site.number, monotonic())
                ):
                    self._route_anew()

    def _on_beat_elsewhere(self, number: int) -> None:
        if self.membership.beat(number, monotonic()):
            self._route_anew()

    def _on_change_elsewhere(self, number: int, is_back: bool) -> None:
        """Drops a site whose machine is lost, or gives its new program what the old one had."""
        site = self.sites[number]
        if not isinstance(site, SiteElsewhere):
            return
        if not is_back:
            self.membership.drop(number)
            self._route_anew()
            return
        site.resume()

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
        host = self.joined.get(host_id)
        if host is None:
            return False
        self._install(host, {})
        del self.joined[host_id]
        for node, tunnel in host.tunnels.items():
            self.sites[node].close_tunnel(tunnel)
            self._used.discard(tunnel.number)
        return True

    def set_cut(self, name: str, other: str | None, *, is_cut: bool) -> None:
        """Cuts the access link of a local site, or its tunnel to another one, or restores it.
        Raises SpecError for an unknown site or tunnel, and for a site on another machine.
        """
        number = self._known(name)
        far = number if other is None else self._known(other)
        pair = (min(number, far), max(number, far))
        if other is not None and pair not in self.mesh:
            raise SpecError(f"there is no tunnel between {name} and {other}", allowed="tunnels of the mesh")
        near_end, far_end = (self._local_end(one) for one in (number, far))
        os.write(self._orders, ORDER.pack(near_end, far_end, is_cut))
        if other is None:
            (self.cut.add if is_cut else self.cut.discard)(number)
        else:
            (self.cut_tunnels.add if is_cut else self.cut_tunnels.discard)(pair)

    def _local_end(self, number: int) -> int:
        """Returns the end of a local site in the network between sites. Raises SpecError for a site
        on another machine.
        """
        site = self.sites[number]
        if isinstance(site, SiteElsewhere):
            raise SpecError(
                f"site {self.name_of(number)} is on {site.at}", allowed="sites on the machine of the overlay"
            )
        return self._local.index(site) + 1

    def _known(self, name: str) -> int:
        if name not in self._by_name:
            raise SpecError(f"unknown site {name!r}", allowed="names of the list of nodes")
        return self._by_name[name]

    def _operating(self, name: str) -> int:
        number = self._known(name)
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
        exits = {one for one in present if self.sites[one].is_exit}
        return mesh.routes(self.plan.policy, usable, nodes, exits, [site.name for site in self.plan.sites])

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
            if not host.problem and nodes and all(self._works(host.routes.get(node, [-1])) for node in nodes):
                continue
            try:
                planned = self._routes(nodes) if nodes else {}
            except SpecError:
                # Nothing is left that the policy allows. The next site that comes back may help.
                planned = {}
            with _told(host):
                self._install(host, planned)

    def _install(self, host: Joined, planned: dict[int, list[int]]) -> None:
        """Replaces the routes of a host."""
        removed, added = (_by_site(host, routes) for routes in (host.routes, planned))
        for site in removed.keys() | added.keys():
            self.sites[site].change(removed.get(site, []), added.get(site, []))
        host.routes = planned

    # ---- what others see ----

    def nodes(self) -> list[dict[str, Any]]:
        """Returns the sites that operate."""
        return [
            {
                "node": self.name_of(site.number),
                "address": self.addresses[site.number],
                "port": PORT,
                "exit": site.is_exit,
            }
            for site in self.sites
            if site.number in self.membership.present
        ]

    def names(self, route: Sequence[int]) -> list[str]:
        """Returns the names of the sites of a route."""
        return [self.name_of(site) for site in route]

    def name_of(self, node: int) -> str:
        """Returns the name of a site."""
        return self.plan.sites[node].name

    def address_of(self, node: int) -> str:
        """Returns where a site's messages go."""
        return self.addresses[node]

    def address_inside(self, node: int) -> str:
        """Returns the address of a site within the overlay."""
        return str(inside(node))

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
                            "node": self.name_of(node),
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

    def _site_status(self, site: LocalSite | SiteElsewhere, now_s: float) -> dict[str, Any]:
        heard_s = self.membership.heard_s(site.number)
        elsewhere = site if isinstance(site, SiteElsewhere) else None
        return {
            "node": self.name_of(site.number),
            "at": elsewhere.at if elsewhere else None,
            "changes": elsewhere.changes if elsewhere else [],
            "problem": elsewhere.problem if elsewhere else None,
            "operates": site.number in self.membership.present,
            "forwarding": elsewhere.forwarding if elsewhere else "linux",
            "entries": elsewhere.switch.entries if elsewhere and elsewhere.switch else None,
            "exit": site.is_exit,
            "cut": site.number in self.cut,
            "heard_s": None if heard_s is None else round(now_s - heard_s, 3),
        }

    def _tunnel_status(self) -> Iterator[dict[str, Any]]:
        for a, b in self.mesh:
            found = self.sites[a].measured.get((b, True))
            yield {
                "ends": [self.name_of(a), self.name_of(b)],
                "operates": self._is_usable((a, b)),
                "cut": (a, b) in self.cut_tunnels,
                "rtt_s": None if found is None or found.rtt_s is None else round(found.rtt_s, 6),
                "sent": found.sent if found else 0,
                "answered": found.answered if found else 0,
            }


def _require_free_network() -> None:
    """Raises OverlayFailed if the network between sites is another one for this machine."""
    for route in iproute.told("route", "show", "exact", str(OUTSIDE)):
        way = f"dev {route['dev']}" if "dev" in route else str(route.get("type", ""))
        raise OverlayFailed(
            f"this machine has a route to {OUTSIDE}, {way}; sites need this network; first: ip route del {OUTSIDE}"
        )


@contextmanager
def _told(host: Joined) -> Iterator[None]:
    """Says once what the machine refuses for a host, which is tried again, and lets all else go on."""
    try:
        yield
    except (OSError, RunFailed) as error:
        if str(error) != host.problem:
            host.problem = str(error)
            print(f"host {host.client}: {error}", file=sys.stderr, flush=True)
    else:
        host.problem = ""


def _by_site(host: Joined, routes: dict[int, list[int]]) -> dict[int, list[Passage]]:
    """Returns what each site forwards for these routes of a host."""
    found: dict[int, list[Passage]] = {}
    for node, route in routes.items():
        tunnel = host.tunnels[node]
        for site, passage in passages(tunnel.number, tunnel.address, route).items():
            found.setdefault(site, []).append(passage)
    return found


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
