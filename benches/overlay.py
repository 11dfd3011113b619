"""How long an overlay of 300 sites takes to come up, what it occupies, and how long a host takes to
join it.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from figures import MPTCPLAB
from mptcplab.overlay.client import HostControllerAddress, call
from mptcplab.overlay.namespaces import NetworkNamespace
from mptcplab.overlay.nearest import nearest
from mptcplab.overlay.state import VARIABLE, State

SITES = 300
MACHINE, HOST = "10.77.1.1", "10.77.1.2"
#: linux/if_ether.h: ETH_P_ALL
ALL_PACKETS = 0x0003
#: Times that are measured more than once: how often.
REPETITIONS = 5
#: What each figure must not exceed, with its unit.
LIMITS = {
    "overlay-300-up": (30.0, "s"),
    "overlay-300-memory": (1500.0, "MB"),
    "overlay-nearest-of-300": (2.0, "s"),
    "overlay-join-first-packet": (1.0, "s"),
    "overlay-lost-site-dropped": (7.0, "s"),
}


def figures() -> dict[str, float]:
    """Returns each figure of `LIMITS`. Needs root."""
    with tempfile.TemporaryDirectory() as folder, _network() as (machine, host):
        os.environ[VARIABLE] = folder
        free_mb, begun = _available_mb(), time.monotonic()
        with machine.entered():
            subprocess.run(
                [MPTCPLAB, "overlay", "up", "--sites", str(SITES), "--exit", "s1", "--listen", f"{MACHINE}:0"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
        up_s = time.monotonic() - begun
        memory_mb = free_mb - _available_mb()
        try:
            with host.entered():
                nearest_s, join_s, lost_s = _of_host(machine)
        finally:
            with machine.entered():
                subprocess.run([MPTCPLAB, "overlay", "down"], check=True, stdout=subprocess.DEVNULL)
    return dict(zip(LIMITS, (up_s, memory_mb, nearest_s, join_s, lost_s), strict=True))


@contextmanager
def _network() -> Iterator[tuple[NetworkNamespace, NetworkNamespace]]:
    """A machine and a host with one link between them."""
    machine, host = NetworkNamespace(), NetworkNamespace()
    with host.entered(), subprocess.Popen(["sleep", "infinity"]) as holder:
        try:
            lines = f"link add eth0 type veth peer name eth0 netns {holder.pid}"
            machine.run(
                ["ip", "-batch", "-"], f"link set lo up\n{lines}\naddr add {MACHINE}/24 dev eth0\nlink set eth0 up\n"
            )
            lines = f"addr add {HOST}/24 dev eth0\nlink set eth0 up\nroute add default via {MACHINE}\n"
            host.run(["ip", "-batch", "-"], f"link set lo up\n{lines}")
            machine.set([("ipv4/ip_forward", "1")])
            yield machine, host
        finally:
            holder.kill()


def _available_mb() -> float:
    words = Path("/proc/meminfo").read_text().split()
    return int(words[words.index("MemAvailable:") + 1]) / 1e3


def _of_host(machine: NetworkNamespace) -> tuple[float, float, float]:
    """Returns the times of the nearest sites, of a join, and until a lost site is dropped."""
    running = State().running()
    nodes = call(running.host, "overlay.nodes")["nodes"]
    sites = {one["node"]: (one["address"], one["port"]) for one in nodes}
    measured = [_seconds(lambda: nearest(sites, 2)) for _ in range(REPETITIONS)]
    joined = [_join_s(running.host, machine) for _ in range(REPETITIONS)]
    begun = time.monotonic()
    call(running.operator, "overlay.cut", node=f"s{SITES}")
    while any(one["node"] == f"s{SITES}" for one in call(running.host, "overlay.nodes")["nodes"]):
        time.sleep(0.05)
    return sorted(measured)[REPETITIONS // 2], sorted(joined)[REPETITIONS // 2], time.monotonic() - begun


def _seconds(function: Any) -> float:
    begun = time.monotonic()
    function()
    return time.monotonic() - begun


def _join_s(server: HostControllerAddress, machine: NetworkNamespace) -> float:
    """Returns the time from the start of `mptcplab join` to the first packet of the subflow that an
    open connection gets.
    """
    with machine.entered():
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP)
        listener.bind((MACHINE, 0))
        listener.listen()
    watching = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_PACKETS))
    with listener, watching, socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_MPTCP) as connection:
        connection.connect(listener.getsockname())
        accepted, _ = listener.accept()
        # A connection takes further subflows once both sides have sent data.
        for one, other in ((connection, accepted), (accepted, connection)):
            one.sendall(b"x")
            other.recv(1)
        begun = time.monotonic()
        with accepted, subprocess.Popen([MPTCPLAB, "join", str(server)], stderr=subprocess.DEVNULL) as joining:
            while not _is_of_subflow(*watching.recvfrom(200)):
                pass
            found_s = time.monotonic() - begun
            joining.send_signal(signal.SIGINT)
    return found_s


def _is_of_subflow(packet: bytes, source: tuple[str, int, int, int, bytes]) -> bool:
    return source[0].startswith("mptcplab") and packet[9] == socket.IPPROTO_TCP


if __name__ == "__main__":
    print(json.dumps(figures(), indent=1))
