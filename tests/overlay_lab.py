"""A network of its own for tests of overlays: a machine that has the overlay, a host and a server
with one link to it each.

The machine forwards. What the host sends to the server directly gets a small rate there, so that
further paths are of use.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from command_line import PROGRAM, Ended, environment

MACHINE, HOST, SERVER = "10.77.1.1", "10.77.1.2", "10.77.2.2"
DIRECT_RATE = "2mbit"
PATIENCE_S = 60.0
PORT = 5000
BYTE_SERVER = Path(__file__).with_name("byte_server.py")
UPLOADED = 1_500_000
#: Captures at the host's devices while it sends to the server by MPTCP.
CAPTURED_UPLOAD = f"""
for device in mptcplab0 mptcplab1 eth0; do
  tcpdump -q -s 160 -U -i $device -w $device.pcap tcp 2>$device.log &
  running="$running $!"
done
for device in mptcplab0 mptcplab1 eth0; do
  until grep -q listening $device.log 2>/dev/null; do sleep 0.05; done
done
{sys.executable} -c '
import socket
with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as connection:
    connection.connect(("{SERVER}", {PORT}))
    connection.sendall(b"put\\n" + bytes({UPLOADED}))
    connection.shutdown(socket.SHUT_WR)
    print(connection.recv(100).split()[0].decode())
'
sleep 0.5
kill $running
wait
"""
#: The columns Recv-Q and Send-Q of ss, after those of the protocol and the state.
QUEUES = re.compile(r"^((?:tcp|udp) +\S+) +\d+ +\d+", re.MULTILINE)
#: The columns of ss are as wide as their longest value, also those of queues.
WIDTHS = re.compile(" +")
#: What a host that has left must show as before.
SHOWN = (
    ("ip", "rule"),
    ("ip", "route", "show", "table", "all"),
    ("ip", "mptcp", "endpoint"),
    ("ip", "mptcp", "limits"),
    ("ip", "-brief", "address"),
    # Sockets that wait in case an old segment arrives are the kernel's, not of a program.
    ("ss", "-tunap", "exclude", "time-wait"),
)


CALL = """
import json, sys
from mptcplab.overlay.client import HostControllerAddress, call
print(json.dumps(call(HostControllerAddress.parse(sys.argv[1]), sys.argv[2], **json.loads(sys.argv[3]))))
"""


class Lab:
    """Three named network namespaces. The names begin with the number of this process, and further
    labs of it have names of their own.
    """

    def __init__(self, directory: Path, name: str = "") -> None:
        self.directory = directory
        self.names = {place: f"mptcplab-{os.getpid()}{name}-{place}" for place in ("machine", "host", "server")}

    def build(self) -> None:
        machine, host, server = self.names.values()
        for name in self.names.values():
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for end, device, own, other in ((host, "to-host", MACHINE, HOST), (server, "to-server", "10.77.2.1", SERVER)):
            run("ip", "-n", machine, "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", end)
            for name, at, address in ((machine, device, own), (end, "eth0", other)):
                run("ip", "-n", name, "address", "add", f"{address}/24", "dev", at)
                run("ip", "-n", name, "link", "set", at, "up")
            run("ip", "-n", end, "route", "add", "default", "via", own)
        self.run("machine", "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        device = ("dev", "to-server")
        self.run("machine", "tc", "qdisc", "add", *device, "root", "handle", "1:", "htb", "default", "1")
        for number, rate in ((1, "1gbit"), (2, DIRECT_RATE)):
            self.run(
                *("machine", "tc", "class", "add", *device, "parent", "1:", "classid", f"1:{number}"),
                *("htb", "rate", rate, "quantum", "1514"),
            )
        match = ("u32", "match", "ip", "src", f"{HOST}/32", "flowid", "1:2")
        self.run("machine", "tc", "filter", "add", *device, "parent", "1:", "protocol", "ip", *match)

    def close(self) -> None:
        for name in self.names.values():
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def inside(self, place: str) -> list[str]:
        """Returns the beginning of a command at a place."""
        return ["ip", "netns", "exec", self.names[place]]

    def run(self, place: str, *command: str | Path) -> str:
        """Runs a command at a place. Returns its output."""
        return run(*self.inside(place), *map(str, command))

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands, with the state of this lab's overlay."""
        return environment(MPTCPLAB_OVERLAY=str(self.directory / "overlay"))

    def mptcplab(self, place: str, *arguments: str | Path) -> Ended:
        """Runs mptcplab at a place to its end."""
        command = [*self.inside(place), str(PROGRAM), *map(str, arguments)]
        ended = subprocess.run(
            command, cwd=self.directory, env=self.environment, capture_output=True, text=True, check=False, timeout=120
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def start(self, place: str, *arguments: str | Path) -> subprocess.Popen[str]:
        """Starts mptcplab at a place. The process is mptcplab's own."""
        return self.popen(place, PROGRAM, *arguments)

    def popen(self, place: str, *command: str | Path) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self.inside(place), *map(str, command)],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def up(self, *arguments: str | Path) -> str:
        """Starts an overlay. Returns the URL for hosts."""
        ended = self.mptcplab("machine", "overlay", "up", *arguments, "--listen", f"{MACHINE}:0", "--json")
        assert ended.status == 0, ended
        url: str = ended.document["url"]
        return url

    def call(self, url: str, method: str, **params: Any) -> Any:
        """Calls the host controller from the machine."""
        return json.loads(self.run("machine", sys.executable, "-c", CALL, url, method, json.dumps(params)))

    @property
    def process(self) -> int:
        """The process of the overlay."""
        return int((self.directory / "overlay" / "lock").read_text())

    def status(self) -> dict[str, Any]:
        """Returns what the operator sees."""
        found = json.loads((self.directory / "overlay" / "overlay.json").read_text())
        url = f"http://{found['address']}:{found['port']}/?token={found['tokens']['operator']}"
        status: dict[str, Any] = self.call(url, "overlay.status")
        return status

    def shown(self, place: str = "host") -> list[str]:
        """Returns what ip and ss show at a place, without the fill of queues and the width of columns."""
        shown = [QUEUES.sub(r"\1", self.run(place, *command)) for command in SHOWN]
        return [WIDTHS.sub(" ", one) for one in shown]


#: The lab of a test, which may have more than three namespaces.
L = TypeVar("L", bound=Lab)


@contextmanager
def serving(made: L) -> Iterator[L]:
    """Builds a lab and starts the byte server of the tests. Removes both at the end."""
    server = None
    try:
        made.build()
        server = made.popen("server", sys.executable, BYTE_SERVER, str(PORT), "mptcp")
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield made
    finally:
        if server is not None:
            server.kill()
            server.communicate()
        made.close()


def run(*command: str) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, (command, ended.stdout, ended.stderr)
    return ended.stdout


def within(condition: Callable[[], Any], what: str) -> Any:
    """Waits until a condition holds, and returns what it returned."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited for {what}"
        time.sleep(0.1)
    return found


def subflow_bytes(captures: Sequence[Path]) -> dict[str, int]:
    """Returns the bytes that the client of the one connection of some captures sent, by its
    address, as `mptcplab pcap` counts them.
    """
    first, *others = map(str, captures)
    further = [word for one in others for word in ("--interface", one)]
    command = [str(PROGRAM), "pcap", first, *further, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    [connection] = json.loads(ended.stdout)["connections"]
    return {
        subflow["local"].rpartition(":")[0]: subflow["directions"]["client"]["bytes"]
        for subflow in connection["subflows"]
    }
