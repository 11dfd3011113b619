"""Open vSwitch in namespaces of a test's own: the switches and hosts of a resolved experiment,
joined by veth pairs.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mptcplab.controller.network import Network

PATIENCE_S = 15.0
DATAGRAMS = Path(__file__).with_name("datagrams.py")
SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"


class Fabric:
    """The daemons, one bridge for each switch, and a namespace for each host.
    All end with `close`.
    """

    def __init__(self, experiment: dict[str, Any], folder: Path) -> None:
        self.network = Network(experiment)
        self.folder = folder
        self._environment = os.environ | {name: str(folder) for name in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR")}
        #: Processes that hold the namespaces: of the switches, and of each host.
        self._holders: dict[str, subprocess.Popen[bytes]] = {}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def build(self, experiment: dict[str, Any]) -> None:
        """Makes everything. What was made before an error is there for `close`."""
        for place in ("", *(host["id"] for host in experiment["hosts"])):
            self._hold(place)
        # Reports of groups from the ports would count as packets of the links.
        self.run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; ip link set lo up")
        self._start_daemons()
        self._make_links(experiment)
        self._make_bridges()

    def _hold(self, place: str) -> None:
        command = ["unshare", "--net", "sh", "-c", "echo here; exec sleep infinity"]
        holder = self._holders[place] = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"here\n"

    def inside(self, place: str = "") -> list[str]:
        """Returns the beginning of a command in the namespace of a host, or of the switches."""
        return ["nsenter", f"--net=/proc/{self._holders[place].pid}/ns/net"]

    def run(self, *command: str, at: str = "", text: str | None = None) -> str:
        """Runs a command in a namespace. Returns its output."""
        ended = subprocess.run(
            [*self.inside(at), *command], env=self._environment, input=text, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
        return ended.stdout

    def popen(self, *command: str, at: str = "", **settings: Any) -> subprocess.Popen[str]:
        """Starts a command in a namespace."""
        return subprocess.Popen([*self.inside(at), *command], env=self._environment, text=True, **settings)

    def _start_daemons(self) -> None:
        database, remote = self.folder / "conf.db", f"punix:{self.folder}/db.sock"
        self.run("ovsdb-tool", "create", str(database), SCHEMA)
        for command in (
            ["ovsdb-server", str(database), f"--remote={remote}"],
            ["ovs-vswitchd", f"unix:{self.folder}/db.sock"],
        ):
            log = (self.folder / f"{command[0]}.txt").open("wb")
            self._daemons.append(
                subprocess.Popen([*self.inside(), *command], env=self._environment, stdout=log, stderr=log)
            )
            log.close()
            within(lambda: list(self.folder.glob(f"{command[0]}.*.ctl")), "the control socket of " + command[0])  # noqa: B023

    def _make_links(self, experiment: dict[str, Any]) -> None:
        for link in experiment["links"]:
            ends = [(end, self.device(end), self.place(end)) for end in (link["a"], link["b"])]
            (_, a, _), (_, b, peer) = ends
            self.run(
                "ip",
                "link",
                "add",
                a,
                "type",
                "veth",
                "peer",
                "name",
                b,
                "netns",
                str(self._holders[peer].pid),
                at=ends[0][2],
            )
            for interface, device, place in ends:
                self._set_up(interface, device, place)
        for host in (one["id"] for one in experiment["hosts"]):
            self._make_neighbours(host)

    def _set_up(self, interface: str, device: str, place: str) -> None:
        mac = self.network.mac(interface)
        self.run("ip", "link", "set", device, "address", mac, "up", at=place)
        # Open vSwitch in userspace does not fill in the checksums that a host leaves to its device.
        self.run("ethtool", "-K", device, "tx", "off", "tso", "off", "gso", "off", "gro", "off", at=place)
        for family in ("ipv4", "ipv6"):
            address = self.network.interfaces[interface][family]
            if address:
                self.run(
                    "ip", "address", "add", address, "dev", device, *(["nodad"] if family == "ipv6" else []), at=place
                )

    def _make_neighbours(self, host: str) -> None:
        """Tells a host all others, and gives each of its addresses a table of routes of its own."""
        mine = [one for one in self.network.interfaces.values() if one["node"] == host]
        for number, interface in enumerate(mine, start=1):
            device = self.device(interface["id"])
            for address, other in self.network.interface_by_address.items():
                if self.network.node(other) != host:
                    self.run(
                        "ip", "neigh", "replace", address, "lladdr", self.network.mac(other), "dev", device, at=host
                    )
            for family in ("ipv4", "ipv6"):
                subnet = "10.0.0.0/16" if family == "ipv4" else "fd00::/64"
                version = "-4" if family == "ipv4" else "-6"
                address = interface[family].partition("/")[0]
                self.run("ip", version, "route", "add", subnet, "dev", device, "table", str(number), at=host)
                self.run("ip", version, "rule", "add", "from", address, "table", str(number), at=host)

    def _make_bridges(self) -> None:
        commands = []
        for switch, number in self.network.switches.items():
            bridge = self.bridge(switch)
            commands += [
                "--",
                "add-br",
                bridge,
                "--",
                "set",
                "bridge",
                bridge,
                "datapath_type=netdev",
                "fail-mode=secure",
                "protocols=OpenFlow13",
                f"other-config:datapath-id={number:016x}",
            ]
            for port in self.network.ports.values():
                if port.switch == switch:
                    device = self.device(port.interface)
                    commands += [
                        "--",
                        "add-port",
                        bridge,
                        device,
                        "--",
                        "set",
                        "interface",
                        device,
                        f"ofport_request={port.number}",
                    ]
        self.vsctl("--no-wait", "init")
        self.vsctl(*commands)

    def connect(self) -> None:
        """Tells the switches their controller. One that does not listen yet would be tried again
        after a second.
        """
        bridges = [self.bridge(switch) for switch in self.network.switches]
        commands = [["--", "set-controller", bridge, "tcp:127.0.0.1:6653"] for bridge in bridges]
        commands += [["--", "set", "controller", bridge, "max_backoff=1000"] for bridge in bridges]
        self.vsctl(*(word for command in commands for word in command))

    def bridge(self, switch: str) -> str:
        """Returns the name of the bridge of a switch."""
        return f"s{self.network.switches[switch]}"

    def device(self, interface: str) -> str:
        """Returns the name of the device of an interface."""
        return f"p{list(self.network.interfaces).index(interface)}"

    def place(self, interface: str) -> str:
        """Returns the namespace of an interface."""
        node = self.network.node(interface)
        return node if self.network.is_host(node) else ""

    # ---- what tests do and see ----

    def vsctl(self, *arguments: str) -> None:
        """Changes the configuration of the switches."""
        self.run("ovs-vsctl", f"--db=unix:{self.folder}/db.sock", *arguments)

    def entries(self, switch: str) -> list[str]:
        """Returns the entries of a switch, as ovs-ofctl shows them."""
        rows = self.run("ovs-ofctl", "-O", "OpenFlow13", "dump-flows", self.bridge(switch))
        return [row.strip() for row in rows.splitlines() if "cookie" in row]

    def packets(self, interface: str) -> int:
        """Returns how many packets a device has sent."""
        shown = self.run("ip", "-json", "-stats", "link", "show", self.device(interface), at=self.place(interface))
        return int(json.loads(shown)[0]["stats64"]["tx"]["packets"])

    def set_link(self, link: str, *, up: bool) -> None:
        """Takes both ports of a link down or up."""
        both = "".join(
            f"link set {self.device(self.network.links[link][end])} {'up' if up else 'down'}\n" for end in ("a", "b")
        )
        self.run("ip", "-batch", "-", text=both)

    def answered(self, count: int, *, source: str = "10.0.0.1", target: str = "10.0.0.2") -> int:
        """Sends datagrams from h1 to an echo at h2, one each 10 ms. Returns how many came back."""
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with self.popen(sys.executable, str(DATAGRAMS), "echo", target, at="h2", **pipes) as echo:
            assert echo.stdin is not None
            assert echo.stdout is not None
            assert echo.stdout.readline() == "here\n"
            found = int(self.run(sys.executable, str(DATAGRAMS), "ask", source, target, str(count), "0.01", at="h1"))
            echo.stdin.close()
        return found

    def close(self) -> None:
        """Ends everything, the namespaces last."""
        for process in (*self._daemons, *self._holders.values()):
            process.send_signal(signal.SIGKILL)
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


class Controller:
    """The controller of a fabric, as a process of its own."""

    def __init__(self, fabric: Fabric, experiment: dict[str, Any]) -> None:
        path = fabric.folder / "experiment.json"
        path.write_text(json.dumps(experiment))
        self.process = fabric.popen(
            sys.executable, "-m", "mptcplab.controller", str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._said: queue.Queue[dict[str, Any]] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._said.put(json.loads(line))

    def wait_for(self, said: str) -> dict[str, Any]:
        """Returns the next message of a kind. A problem fails the test unless it is waited for."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            message = self._said.get(timeout=max(deadline - time.monotonic(), 0.01))
            if message["said"] == said:
                return message
            assert message["said"] != "problem", message

    def order(self, **order: Any) -> None:
        """Gives an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Ends it without a chance to tidy up."""
        self.process.kill()
        self._ended()

    def close(self) -> None:
        """Ends it by the end of its input."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        assert self.process.wait(PATIENCE_S) in (0, 4, -signal.SIGKILL)
        self._ended()

    def _ended(self) -> None:
        self.process.wait()
        self._reader.join()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()  # type: ignore[union-attr]


@contextlib.contextmanager
def fabric_of(experiment: dict[str, Any], folder: Path) -> Iterator[Fabric]:
    """Builds a fabric, and ends it."""
    fabric = Fabric(experiment, folder)
    try:
        fabric.build(experiment)
        yield fabric
    finally:
        fabric.close()


@contextlib.contextmanager
def controlled(experiment: dict[str, Any], folder: Path) -> Iterator[tuple[Fabric, Controller]]:
    """Builds a fabric with its controller, and waits until all entries are in."""
    with fabric_of(experiment, folder) as fabric:
        controller = Controller(fabric, experiment)
        try:
            controller.wait_for("listening")
            fabric.connect()
            controller.wait_for("ready")
            yield fabric, controller
        finally:
            controller.close()


def within(condition: Callable[[], Any], what: str) -> None:
    """Waits until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.01)
