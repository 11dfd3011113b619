"""A host that joins an overlay: measures, chooses, connects, and carries packets until it leaves.

The host gets an address in the overlay for each tunnel, with a rule, a table and an MPTCP endpoint
of its own. Nothing else changes: packets from all other addresses go where they went before, also
those by which somebody is logged in.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Address
from time import monotonic
from typing import Any

from mptcplab import iproute
from mptcplab.errors import PrivilegeError, RunFailed, UsageError
from mptcplab.overlay.children import end_with
from mptcplab.overlay.client import HostControllerAddress, call, no_host_controller
from mptcplab.overlay.failure import OverlayFailed
from mptcplab.overlay.guardian import Guardian
from mptcplab.overlay.messages import HEADER, HEADERS_BYTES, Address, Kind, packed, received, send, udp_socket
from mptcplab.overlay.namespaces import device_name, tun
from mptcplab.overlay.nearest import nearest

#: Priorities of rules and numbers of tables begin here, one for each tunnel.
FIRST_TABLE = 7000
#: A message to the site at least this often keeps NATs on the way open (RFC 4787, REQ-5: 2 min).
ALIVE_S = 5.0
#: Sites that are silent for this time are gone.
SILENT_S = 30.0
#: What every tunnel has to carry: an IPv4 packet of the host.
PROVEN_BYTES = 1400
_PROOF_S, _PROOF_EVERY_S = 3.0, 0.25
#: How long the command may take to end after SIGTERM.
_END_S = 5.0
#: What ip(8) says if a limit is larger than the kernel's maximum.
_TOO_LARGE_LIMIT = "limit greater than maximum"
#: What ip(8) says if the kernel takes no further endpoint.
_TOO_MANY_ENDPOINTS = "too many addresses"
_BATCH = 32
_LARGEST_PACKET = 1 << 16


@dataclass
class Tunnel:
    """The host's end of a tunnel."""

    node: str
    site: Address
    number: int
    key: int
    address: str
    route: list[str]
    exit_address: str
    socket: socket.socket
    rtt_s: float
    fd: int = -1
    device: str = ""
    heard_s: float = field(default_factory=monotonic)
    header: bytes = b""

    def __post_init__(self) -> None:
        self.header = HEADER.pack(Kind.DATA, self.number, self.key)

    def ask(self, size: int = 0) -> None:
        """Sends a message that the site answers, as long as a packet of `size` bytes."""
        send(self.socket, packed(Kind.ALIVE, self.number, self.key, bytes(size)), self.site)

    def on_datagrams(self) -> None:
        """Hands packets from the site to this host."""
        for message in received(self.socket):
            if message.key != self.key or message.number != self.number:
                continue
            self.heard_s = monotonic()
            if message.kind == Kind.DATA:
                with suppress(OSError):
                    os.write(self.fd, message.body)

    def on_packets(self) -> None:
        """Sends packets of this host to the site."""
        for _ in range(_BATCH):
            try:
                packet = os.read(self.fd, _LARGEST_PACKET)
            except OSError:
                return
            send(self.socket, self.header + packet, self.site)

    def prove(self) -> None:
        """Raises OverlayFailed unless the tunnel carries packets of `PROVEN_BYTES`."""
        carried: set[int] = set()
        until = monotonic() + _PROOF_S
        while monotonic() < until:
            for size in (PROVEN_BYTES, 0):
                self.ask(size)
            again = monotonic() + _PROOF_EVERY_S
            while (left_s := again - monotonic()) > 0:
                self.socket.settimeout(left_s)
                try:
                    data = self.socket.recv(_LARGEST_PACKET)
                except OSError:
                    break
                finally:
                    self.socket.setblocking(False)
                if data[: HEADER.size] == packed(Kind.ALIVE_TOO, self.number, self.key):
                    carried.add(len(data) - HEADER.size)
                if PROVEN_BYTES in carried:
                    return
        raise OverlayFailed(
            f"the tunnel to {self.node} at {self.site[0]} carries {'only small packets' if carried else 'nothing'}; "
            f"needed: packets of {PROVEN_BYTES} bytes, which are {PROVEN_BYTES + HEADERS_BYTES} with its headers"
        )


class Membership:
    """What a host has while it is joined. Everything is taken back by `leave`, or by the guardian
    if this process ends otherwise.
    """

    def __init__(self, server: HostControllerAddress, count: int) -> None:
        if os.geteuid() != 0:
            raise PrivilegeError(
                None, "a host that joins changes its devices and rules", "run it as root, as with sudo"
            )
        self._server = server
        self._guardian = Guardian()
        self.tunnels: list[Tunnel] = []
        self.measured: dict[str, float] = {}
        try:
            self._connect(self._nearest(count))
            for tunnel in self.tunnels:
                tunnel.prove()
            self._raise_limit()
            for tunnel in self.tunnels:
                self._set_up(tunnel)
            self._prove_routes()
            for tunnel in self.tunnels:
                self._add_endpoint(tunnel)
        except BaseException:
            self.leave()
            raise

    def _nearest(self, count: int) -> list[str]:
        """Returns the sites with the smallest round-trip times."""
        with _understood(self._server):
            nodes = [
                (str(one["node"]), (str(IPv4Address(one["address"])), _port(one["port"])))
                for one in call(self._server, "overlay.nodes")["nodes"]
            ]
        if count > len(nodes):
            raise UsageError(f"--nearest {count}: {len(nodes)} sites operate; allowed: as many")
        self.measured = nearest(dict(nodes), count)
        if len(self.measured) < count:
            address, port = nodes[0][1]
            raise OverlayFailed(
                f"{len(self.measured)} of {len(nodes)} sites answer; needed: {count}; "
                f"is UDP port {port} of {address} reachable from here?"
            )
        return list(self.measured)

    def _connect(self, nodes: Sequence[str]) -> None:
        with _understood(self._server):
            given: dict[str, Any] = call(self._server, "overlay.connect", nodes=list(nodes))
            self._guardian.will_call(str(self._server), "overlay.disconnect", connection=given["connection"])
            self.mtu = int(given["mtu"])
            self.tunnels = [self._given(one) for one in given["tunnels"]]

    def _given(self, one: dict[str, Any]) -> Tunnel:
        """Returns a tunnel by its parameters."""
        return Tunnel(
            node=one["node"],
            site=(str(IPv4Address(one["site_address"])), _port(one["port"])),
            number=int(one["number"]),
            key=int(one["key"], 16),
            address=str(IPv4Address(one["address"])),
            route=list(map(str, one["route"])),
            exit_address=str(IPv4Address(one["exit_address"])),
            socket=udp_socket("0.0.0.0", 0),
            rtt_s=self.measured[one["node"]],
        )

    def _raise_limit(self) -> None:
        """Lets connections have a further subflow for each tunnel and each endpoint of the host's
        own, or as many as this kernel takes.
        """
        # ip(8) of 2022 has no JSON for MPTCP. The text is the same in all versions.
        words = iproute.run("ip", "mptcp", "limits", "show").split()
        before = int(words[words.index("subflows") + 1])
        own = sum("subflow" in endpoint for endpoint in _endpoints())
        for limit in range(own + len(self.tunnels), before, -1):
            self._guardian.will_lower_limit(limit, before)
            try:
                iproute.run("ip", "mptcp", "limits", "set", "subflows", str(limit))
            except RunFailed as error:
                if _TOO_LARGE_LIMIT not in str(error):
                    raise
            else:
                return

    def _set_up(self, tunnel: Tunnel) -> None:
        """Makes the device, its address, rule and table."""
        tunnel.fd = tun("mptcplab%d")
        tunnel.device = device_name(tunnel.fd)
        table = self._free_table()
        rule = ["pref", str(table), "from", tunnel.address, "lookup", str(table)]
        self._guardian.will_run(["ip", "rule", "del", *rule])
        lines = [
            f"link set {tunnel.device} mtu {self.mtu} up",
            f"addr add {tunnel.address}/32 dev {tunnel.device}",
            f"route add default dev {tunnel.device} table {table}",
            f"rule add {' '.join(rule)}",
        ]
        iproute.batch(lines)

    def _add_endpoint(self, tunnel: Tunnel) -> None:
        """Lets MPTCP use the tunnel, which carries packets by now: a subflow that meets a route too
        early is not tried again.
        """
        endpoint = self._free_endpoint()
        self._guardian.will_run(["ip", "mptcp", "endpoint", "delete", "id", str(endpoint)])
        try:
            iproute.run("ip", *f"mptcp endpoint add {tunnel.address} id {endpoint} dev {tunnel.device} subflow".split())
        except RunFailed as error:
            if _TOO_MANY_ENDPOINTS not in str(error):
                raise
            raise OverlayFailed(
                f"this host has {len(_endpoints())} MPTCP endpoints, and its kernel takes no more; needed: one for "
                "each tunnel; first: ip mptcp endpoint delete id ID, or a smaller --nearest"
            ) from None

    def _prove_routes(self) -> None:
        """Raises OverlayFailed unless packets of each tunnel reach its exit and come back."""
        asked = {tunnel.address: udp_socket(tunnel.address, 0) for tunnel in self.tunnels}
        missing = {tunnel.address: tunnel for tunnel in self.tunnels}
        waited_for = [one.fileno() for one in asked.values()]
        waited_for += [fd for tunnel in self.tunnels for fd in (tunnel.fd, tunnel.socket.fileno())]
        until = monotonic() + _PROOF_S
        while missing and monotonic() < until:
            for address, tunnel in missing.items():
                send(asked[address], packed(Kind.ECHO, 0, 0), (tunnel.exit_address, tunnel.site[1]))
            again = monotonic() + _PROOF_EVERY_S
            while missing and (left_s := again - monotonic()) > 0:
                select.select(waited_for, [], [], left_s)
                for tunnel in self.tunnels:
                    tunnel.on_packets()
                    tunnel.on_datagrams()
                    if any(one.kind == Kind.ECHOED for one in received(asked[tunnel.address])):
                        missing.pop(tunnel.address, None)
        for one in asked.values():
            one.close()
        for tunnel in missing.values():
            raise OverlayFailed(
                f"the route {' - '.join(tunnel.route)} carries no packets, though the tunnel to {tunnel.node} does; "
                "does each site reach the next one?"
            )

    def _free_table(self) -> int:
        """Returns the number of a table without routes that no rule names, which no rule has as its
        priority either.
        """
        taken = {str(rule.get(name)) for rule in iproute.told("-N", "rule", "show") for name in ("priority", "table")}
        return next(
            number
            for number in range(FIRST_TABLE, 2 * FIRST_TABLE)
            if str(number) not in taken and not iproute.told("-N", "route", "show", "table", str(number))
        )

    def _free_endpoint(self) -> int:
        taken = {int(words[words.index("id") + 1]) for words in _endpoints()}
        free = [number for number in range(1, 256) if number not in taken]
        if not free:
            raise OverlayFailed("this host has 255 MPTCP endpoints; allowed: fewer, so that one is free")
        # From the end, because the kernel gives the first free one.
        return free[-1]

    def leave(self) -> None:
        """Takes everything back."""
        for tunnel in self.tunnels:
            tunnel.socket.close()
            if tunnel.fd >= 0:
                os.close(tunnel.fd)
        self._guardian.release()

    def carry(self, command: Sequence[str]) -> int:
        """Carries packets until `command` ends, or without one until a signal. Returns its exit
        status. Raises OverlayFailed if all sites fall silent and there is no command.
        """
        return asyncio.run(self._carried(command))

    async def _carried(self, command: Sequence[str]) -> int:
        loop = asyncio.get_running_loop()
        left = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, left.set)
        for tunnel in self.tunnels:
            loop.add_reader(tunnel.socket, tunnel.on_datagrams)
            loop.add_reader(tunnel.fd, tunnel.on_packets)
        waiting: list[asyncio.Task[Any]] = [
            asyncio.create_task(left.wait()),
            asyncio.create_task(self._keep_alive(bool(command))),
        ]
        program = await _started(command) if command else None
        if program is not None:
            waiting.append(asyncio.create_task(program.wait()))
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        if program is not None and program.returncode is None:
            program.terminate()
            with suppress(TimeoutError):
                await asyncio.wait_for(program.wait(), _END_S)
            if program.returncode is None:
                program.kill()
                await program.wait()
        if waiting[1].done() and not waiting[1].cancelled():
            waiting[1].result()
        return 0 if program is None else _exit_status(program.returncode or 0)

    async def _keep_alive(self, has_command: bool) -> None:
        is_told = False
        while True:
            for tunnel in self.tunnels:
                tunnel.ask()
            await asyncio.sleep(ALIVE_S)
            silent_s = min(monotonic() - tunnel.heard_s for tunnel in self.tunnels)
            problem = f"the overlay has been silent for {silent_s:.0f} s"
            if silent_s > SILENT_S and not has_command:
                raise OverlayFailed(problem)
            if silent_s > SILENT_S and not is_told:
                told = f"note: {problem}; it may have dropped this host, and the command goes on without it"
                print(told, file=sys.stderr, flush=True)
            is_told = silent_s > SILENT_S


@contextmanager
def _understood(server: HostControllerAddress) -> Iterator[None]:
    """Raises OverlayMissing for an answer without what is needed of it."""
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError):
        raise no_host_controller(server) from None


def _port(given: Any) -> int:
    if not 0 < int(given) < 1 << 16:
        raise ValueError(given)
    return int(given)


def _endpoints() -> list[list[str]]:
    """Returns the words of each MPTCP endpoint."""
    return [line.split() for line in iproute.run("ip", "mptcp", "endpoint", "show").splitlines()]


async def _started(command: Sequence[str]) -> asyncio.subprocess.Process:
    own = os.getpid()

    def end_with_this_process() -> None:
        if not end_with(own):
            os._exit(1)

    try:
        return await asyncio.create_subprocess_exec(*command, preexec_fn=end_with_this_process)
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror}; allowed: a program") from error


def _exit_status(returned: int) -> int:
    """Returns the status as a shell has it: that of a signal is 128 and its number."""
    return returned if returned >= 0 else 128 - returned
