"""The program of a site on another machine. It is sent there (`program.py`) and needs nothing of
mptcplab's there.

It first tells what it will change on the machine, and begins when it is told to. Messages in both
directions are lines of JSON. It ends, and everything with it, when its input ends or is silent.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
from dataclasses import astuple, dataclass
from ipaddress import IPv4Address
from pathlib import Path
from time import monotonic
from typing import Any

from mptcplab import iproute
from mptcplab.errors import MptcplabError
from mptcplab.overlay import entries
from mptcplab.overlay.addresses import MACHINE, PORT, VXLAN_PORT, outside
from mptcplab.overlay.failure import OverlayFailed
from mptcplab.overlay.guardian import Guardian
from mptcplab.overlay.messages import udp_socket
from mptcplab.overlay.open_vswitch import OpenVSwitch
from mptcplab.overlay.site import HostTunnel, Site

#: The program ends if its input is silent for this time. The coordinator sends a line each second.
SILENT_S = 10.0
#: Changes are told at most this often.
_TELL_S = 0.2
_BLOCK_BYTES = 1 << 16
_FORWARDING = "/proc/sys/net/ipv4/conf/{}/forwarding"


@dataclass(frozen=True)
class Changes:
    """What a site changes on its machine."""

    site: int
    is_exit: bool
    has_switch: bool
    forwarding: tuple[str, ...]
    """Devices that do not forward so far."""

    @classmethod
    def found(cls, site: int, *, is_exit: bool, has_switch: bool) -> Changes:
        """Returns the changes of this machine."""
        routes = iproute.told("-4", "route", "show") if is_exit else []
        devices = sorted({route["dev"] for route in routes if "dev" in route})
        still = (one for one in devices if Path(_FORWARDING.format(one)).read_text().strip() == "0")
        return cls(site, is_exit, has_switch, tuple(still))

    def lines(self) -> list[str]:
        """Returns them for readers."""
        found = [f"opens the UDP ports {PORT} and {VXLAN_PORT}"]
        if self.has_switch:
            found += [f"runs an Open vSwitch of its own, with files in {tempfile.gettempdir()}"]
        if self.is_exit:
            found += [
                f"adds the device {entries.EXIT} with the address {MACHINE}",
                f"adds a route to {outside(self.site)}",
                f"adds the table ip {entries.TABLE} of nftables",
                *(f"sets net.ipv4.conf.{one}.forwarding, which is 0, to 1" for one in self.forwarding),
            ]
        return found

    def check(self, way_in: str) -> None:
        """Raises OverlayFailed if the changes would cut the connection that the program came by.
        `way_in` is SSH_CONNECTION of sshd(8).
        """
        client = way_in.partition(" ")[0]
        taken = {str(MACHINE), str(outside(self.site))}
        if not self.is_exit or not client or ":" in client:
            return
        [route, *_] = iproute.told("-4", "route", "get", client)
        for address in (client, route.get("gateway", ""), route.get("prefsrc", "")):
            if address in taken:
                raise OverlayFailed(
                    f"the site would cut the connection by which it is reached, because that uses {address}; "
                    "allowed: an exit on another machine"
                )


class SiteElsewhere(Site):
    """A site in a namespace of its own, whose messages use the addresses of its machine. If it has
    a switch, that forwards packets of hosts.
    """

    def __init__(self, changes: Changes, guardian: Guardian) -> None:
        header = entries.frame_header(changes.site) if changes.has_switch else b""
        super().__init__(changes.site, is_exit=changes.is_exit, header=header)
        self.socket = udp_socket("0.0.0.0", PORT)
        if changes.is_exit:
            _change(changes, guardian)
        iproute.batch(entries.machine_lines(self.number, self.namespace.path, is_exit=self.is_exit))
        if changes.is_exit:
            with self.namespace.entered():
                iproute.batch(entries.exit_lines(self.number))
            Path(_FORWARDING.format(entries.EXIT)).write_text("1")
        self.switch = OpenVSwitch(self.namespace, guardian, say) if changes.has_switch else None
        if self.switch is not None:
            self.switch.start(self.number)
        self.set_up_router()

    def set_up_router(self) -> None:
        super().set_up_router()
        if self.is_exit and self.switch is not None:
            with self.namespace.entered():
                iproute.run("nft", "-f", "-", given=entries.SWITCHED_EXIT_LINES)

    def router_lines(self) -> list[str]:
        if self.switch is None:
            return super().router_lines()
        return entries.switched_router_lines(self.number, is_exit=self.is_exit)

    def tunnel_lines(self, other: int) -> list[str]:
        return super().tunnel_lines(other) if self.switch is None else entries.switched_tunnel_lines(other)

    def beat(self) -> None:
        self.tell()

    def tell(self) -> None:
        """Tells the coordinator what was measured and which hosts were heard, as a heartbeat."""
        now_s = monotonic()
        measured = [[*key, *astuple(one)] for key, one in self.measured.items()]
        heard = [[one.number, now_s - one.heard_s] for one in self.tunnels.values()]
        say({"beat": {"measured": measured, "heard": heard}})


def _change(changes: Changes, guardian: Guardian) -> None:
    """Changes settings of the machine that would outlive this program. The guardian knows first."""
    guardian.will_run([iproute.program("nft"), "delete", "table", "ip", entries.TABLE])
    iproute.run("nft", "-f", "-", given=entries.machine_table(changes.site, changes.forwarding))
    for device in changes.forwarding:
        path = Path(_FORWARDING.format(device))
        guardian.will_write(path, "0")
        path.write_text("1")


class Program:
    """Carries out orders until its input ends. Raises OverlayFailed if a part of the site ends."""

    def __init__(self, site: SiteElsewhere) -> None:
        self._site = site
        self._rest = b""
        self._heard_s = monotonic()
        #: None before the first heartbeat, for which the coordinator waits.
        self._answered: int | None = None
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(sys.stdin.fileno(), self._on_input)
        self._site.listen(loop)
        say({"ready": True})
        if self._site.switch is not None:
            await self._site.switch.serve()
        while not self._ended.is_set() and monotonic() - self._heard_s < SILENT_S:
            if self._site.switch is not None:
                self._site.switch.check()
            answered = sum(one.answered for one in self._site.measured.values())
            if answered != self._answered:
                self._answered = answered
                self._site.tell()
            await asyncio.sleep(_TELL_S)

    def _on_input(self) -> None:
        block = os.read(sys.stdin.fileno(), _BLOCK_BYTES)
        if not block:
            self._ended.set()
        self._heard_s = monotonic()
        *lines, self._rest = (self._rest + block).split(b"\n")
        for line in filter(None, lines):
            self._obey(json.loads(line))

    def _obey(self, order: dict[str, Any]) -> None:
        site = self._site
        match order["do"]:
            case "addresses":
                site.addresses = order["of"]
            case "join_mesh":
                site.join_mesh(order["others"])
                self._tasks.add(asyncio.get_running_loop().create_task(site.live(order["measured"])))
            case "configure":
                site.configure(order["lines"])
            case "openflow":
                if site.switch is not None:
                    site.switch.hand_over(order["connection"], order["bytes"])
            case "ask":
                site.ask(order["other"], through_tunnel=order["through_tunnel"], size=order["size"])
            case "open_tunnel":
                site.open_tunnel(HostTunnel(order["number"], int(order["key"], 16), IPv4Address(order["address"])))
            case "close_tunnel":
                if (tunnel := site.tunnels.get(order["number"])) is not None:
                    site.close_tunnel(tunnel)


def say(message: dict[str, Any]) -> None:
    """Sends a message to the coordinator."""
    sys.stdout.write(json.dumps(message, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def main() -> int:
    """Runs a site. The first line of the input says which one."""
    os.environ["PATH"] = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    given: dict[str, Any] = json.loads(read_line())
    guardian = Guardian()
    try:
        changes = _found(given["site"], is_exit=given["exit"], has_switch=given["switch"])
        say({"changes": changes.lines()})
        if not read_line():
            return 0
        changes.check(given["way_in"])
        _check_is_free()
        asyncio.run(_run(SiteElsewhere(changes, guardian)))
    except (MptcplabError, OSError) as error:
        say({"problem": str(error)})
        return 4
    finally:
        guardian.release()
    return 0


def _found(site: int, *, is_exit: bool, has_switch: bool) -> Changes:
    """Returns the changes of this machine. Raises MachineError if a program is missing."""
    for name in ("ip", "bridge", *(["nft"] if is_exit else []), *(iproute.OPEN_VSWITCH if has_switch else [])):
        iproute.program(name)
    return Changes.found(site, is_exit=is_exit, has_switch=has_switch)


async def _run(site: SiteElsewhere) -> None:
    try:
        await Program(site).run()
    finally:
        if site.switch is not None:
            site.switch.close()


def read_line() -> bytes:
    """Returns the next line of the input, byte by byte, so that nothing after it is taken."""
    line = b""
    while not line.endswith(b"\n") and (byte := os.read(sys.stdin.fileno(), 1)):
        line += byte
    return line


def _check_is_free() -> None:
    """Raises OverlayFailed if another site runs on the machine, or is about to be removed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(("0.0.0.0", PORT))
        except OSError as error:
            raise OverlayFailed(f"UDP port {PORT}: {error.strerror}; allowed: one site on a machine") from None
