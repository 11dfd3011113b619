"""The Open vSwitch of a site on another machine: daemons of its own in the namespace of the site,
and one bridge, whose OpenFlow connection begins at a socket of this process.

All of it ends with this process. It neither uses nor changes a service of the machine. It uses
nothing but Python's library, because it runs on machines without mptcplab.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import subprocess
import tempfile
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from mptcplab import iproute
from mptcplab.overlay.addresses import MESH_MTU_BYTES, mac
from mptcplab.overlay.children import end_with
from mptcplab.overlay.entries import PORT_OF_MESH, PORT_OF_TUNNELS, SWITCH, TO_MESH, TUNNELS
from mptcplab.overlay.failure import OverlayFailed
from mptcplab.overlay.guardian import Guardian
from mptcplab.overlay.namespaces import NetworkNamespace

#: How long a daemon may take until it answers.
PATIENCE_S = 10.0
_BLOCK_BYTES = 1 << 16


class OpenVSwitch:
    """The daemons of a site, and its bridge. `tell` gets the messages for the coordinator."""

    def __init__(self, namespace: NetworkNamespace, guardian: Guardian, tell: Callable[[dict[str, Any]], None]) -> None:
        self._namespace = namespace
        self._tell = tell
        self._directory = Path(tempfile.gettempdir(), f"mptcplab-switch-{secrets.token_hex(4)}")
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}
        #: The last connection of the bridge, and its number.
        self._writer: asyncio.StreamWriter | None = None
        self._number = 0
        guardian.will_remove(self._directory)
        self._directory.mkdir(mode=0o700)
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listening.bind(self._file("controller"))
        self._listening.listen()

    def _file(self, name: str) -> str:
        return str(self._directory / name)

    @property
    def _database(self) -> str:
        return f"unix:{self._file('db.sock')}"

    def start(self, site: int) -> None:
        """Starts the daemons, and creates the bridge of a site. Raises OverlayFailed, RunFailed."""
        iproute.run("ovsdb-tool", "create", self._file("conf.db"))
        self._spawn("ovsdb-server", f"--remote=p{self._database}", self._file("conf.db"))
        self._await("db.sock")
        self._spawn("ovs-vswitchd", self._database)
        self._configure(
            _bridge(site),
            _port(TO_MESH, PORT_OF_MESH, "type=internal", f"mtu_request={MESH_MTU_BYTES}"),
            _port(TUNNELS, PORT_OF_TUNNELS),
            _controller(f"unix:{self._file('controller')}"),
        )
        if problem := self._run("--columns=error", "--bare", "list", "interface").strip():
            raise OverlayFailed(f"Open vSwitch refuses a port: {problem}")

    def _spawn(self, name: str, *words: str) -> None:
        parent = os.getpid()
        log = f"--log-file={self._file(f'{name}.log')}"
        environment = {one: str(self._directory) for one in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR")}
        with self._namespace.entered():
            self._daemons[name] = subprocess.Popen(
                [iproute.program(name), *words, "--no-chdir", "-vconsole:off", "-vsyslog:off", log],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=os.environ | environment,
                preexec_fn=lambda: None if end_with(parent) else os._exit(1),
            )

    def _await(self, name: str) -> None:
        deadline = monotonic() + PATIENCE_S
        while not (self._directory / name).exists():
            self.check()
            if monotonic() > deadline:
                raise OverlayFailed(f"ovsdb-server does not answer in {PATIENCE_S:g} s")
            sleep(0.002)

    def _configure(self, *commands: list[str]) -> None:
        self._run(*(word for command in commands for word in ("--", *command)))

    def _run(self, *words: str) -> str:
        return iproute.run("ovs-vsctl", f"--db={self._database}", f"--timeout={PATIENCE_S:.0f}", *words)

    def check(self) -> None:
        """Raises OverlayFailed if a daemon has ended."""
        for name, daemon in self._daemons.items():
            if (status := daemon.poll()) is not None:
                raise OverlayFailed(f"{name} ended with status {status}{self._log(name)}")

    def _log(self, name: str) -> str:
        """Returns the last warning of a daemon."""
        path = self._directory / f"{name}.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        warnings = [line for line in lines if any(f"|{level}|" in line for level in ("WARN", "ERR", "EMER"))]
        return f"; its log: {warnings[-1]}" if warnings else ""

    def close(self) -> None:
        """Ends the daemons."""
        for daemon in self._daemons.values():
            daemon.kill()
        for daemon in self._daemons.values():
            daemon.wait()

    # ---- the OpenFlow connection ----

    async def serve(self) -> None:
        """Hands what the bridge says to the coordinator from now on."""
        await asyncio.start_unix_server(self._relay, sock=self._listening)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._number += 1
        number, self._writer = self._number, writer
        self._tell(openflow(number, b""))
        # The end of the program cancels this, and is no failure.
        with suppress(ConnectionError, asyncio.CancelledError):
            while block := await reader.read(_BLOCK_BYTES):
                self._tell(openflow(number, block))
        writer.close()

    def hand_over(self, number: int, text: str) -> None:
        """Hands bytes of the coordinator to a connection of the bridge, unless it has ended."""
        if number == self._number and self._writer is not None:
            self._writer.write(b64decode(text))


def openflow(number: int, block: bytes) -> dict[str, Any]:
    """Returns bytes of the connection with this number as a message; none when it begins."""
    return {"openflow": number, "bytes": b64encode(block).decode()}


def _bridge(site: int) -> list[str]:
    """Returns the words of ovs-vsctl(8) that create the bridge of a site. Its own port has the same
    name, and a larger MTU than its smallest port.
    """
    settings = (f"datapath-id={site + 1:016x}", f"hwaddr={mac(site)}", "disable-in-band=true")
    return [
        *("add-br", SWITCH, "--", "set", "bridge", SWITCH),
        *("datapath_type=netdev", "fail_mode=secure", "protocols=OpenFlow13"),
        *(f"other_config:{setting}" for setting in settings),
        *("--", "set", "interface", SWITCH, f"mtu_request={MESH_MTU_BYTES}"),
    ]


def _port(device: str, number: int, *settings: str) -> list[str]:
    """Returns the words that add a device as a port."""
    return [
        *("add-port", SWITCH, device, "--", "set", "interface", device, f"ofport_request={number}"),
        *settings,
    ]


def _controller(target: str) -> list[str]:
    """Returns the words that let the bridge connect to its controller."""
    return [
        *("set-controller", SWITCH, target, "--", "set", "controller", SWITCH),
        *("connection_mode=out-of-band", "max_backoff=1000"),
    ]
