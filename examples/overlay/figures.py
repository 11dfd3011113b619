"""Figures 6 and 7 of Sonkoly et al. with real tunnels: a host with a regular path to a server joins an
overlay for a second one. Needs root. Rates, delays and losses are those of the catalogue.

    sudo python figures.py sonkoly2014/fig6 sonkoly2014/fig7/ntnu_bme
    sudo python figures.py sonkoly2014/fig6/mptcp_overlay/45ms --seconds 5

Host, server and the machine of the overlay are network namespaces, and end with this program. The
kernel's controls are not coupled: subflows use cubic. Losses are the kernel's, without a seed.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from mptcplab import iproute
from mptcplab.catalogue import find
from mptcplab.overlay.internet import End, Internet
from mptcplab.overlay.namespaces import NetworkNamespace, tun

HOST, SERVER, PORT = "10.78.1.1", "10.78.2.1", 5001
CONTROL = b"cubic"
PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "mptcp": socket.IPPROTO_MPTCP}
#: linux/mptcp.h: level and name of an option that a connection has unless it fell back to TCP.
SOL_MPTCP, MPTCP_INFO = 284, 1
#: The part of the time that does not count, as in the catalogue: 5 s of 20.
START = 0.25
BLOCK = bytes(1 << 16)


class Lab:
    """A host and a server, which the regular path joins, and a machine between them."""

    def __init__(self, regular: dict[str, Any]) -> None:
        self.machine, self.host, self.server = (NetworkNamespace() for _ in range(3))
        with self.machine.entered():
            iproute.batch(["link set lo up"])
            Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
            self._wire("to-host", "10.77.1", self.host)
            self._wire("to-server", "10.77.2", self.server)
            iproute.batch([f"route add {SERVER} via 10.77.2.2"])
        ends = [self._regular(self.host, HOST, SERVER, regular), self._regular(self.server, SERVER, HOST, regular)]
        with self.host.entered():
            iproute.batch(["mptcp limits set subflows 2", f"mptcp endpoint add {HOST} dev regular subflow"])
        self._orders, self._pid = started(ends)

    def _wire(self, device: str, network: str, end: NetworkNamespace) -> None:
        iproute.batch(
            [
                f"link add {device} type veth peer name eth0 netns {end.path}",
                f"addr add {network}.1/24 dev {device}",
                f"link set {device} up",
            ]
        )
        with end.entered():
            lines = ["link set lo up", f"addr add {network}.2/24 dev eth0", "link set eth0 up"]
            iproute.batch([*lines, f"route add default via {network}.1"])

    def _regular(self, where: NetworkNamespace, own: str, other: str, path: dict[str, Any]) -> End:
        with where.entered():
            fd = tun("regular")
            iproute.batch([f"addr add {own}/32 dev regular", "link set regular up", f"route add {other} dev regular"])
            if path["loss"]:
                iproute.run("nft", "-f", "-", given=dropping(path["loss"]))
        return End(fd, IPv4Address(own), path["rtt_ns"] // 4, path["rate_bps"])

    def close(self) -> None:
        os.close(self._orders)
        os.waitpid(self._pid, 0)


def dropping(probability: float) -> str:
    """Returns the lines for nft(8) that drop arriving packets of the regular path."""
    drop = f'iifname "regular" numgen random mod 100000 < {round(probability * 1e5)} drop'
    return f"table ip loss {{\n chain in {{\n  type filter hook prerouting priority raw\n  {drop}\n }}\n}}\n"


def started(ends: list[End]) -> tuple[int, int]:
    """Starts the process of the regular path. Returns the pipe that ends it, and its id."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(writing)
        with suppress(BaseException):
            Internet(ends, reading).run()
        os._exit(0)
    os.close(reading)
    for end in ends:
        os.close(end.fd)
    return writing, pid


@contextmanager
def overlay(lab: Lab, tunnel: dict[str, Any]) -> Iterator[str]:
    """Starts an overlay of one site, the node of the paper. Yields the URL for hosts. Packets of a
    tunnel go into the site and out of it, in both directions.
    """
    with tempfile.TemporaryDirectory() as directory:
        os.environ["MPTCPLAB_OVERLAY"] = directory
        spec = Path(directory, "node.yaml")
        site = f"{{delay: {tunnel['rtt_ns'] // 4}ns, rate: {tunnel['rate_bps']}bit, exit: true}}"
        spec.write_text(f"name: node\nsites: {{ple: {site}}}\n")
        with lab.machine.entered():
            up = mptcplab("overlay", "up", str(spec), "--listen", "10.77.1.1:0", "--json")
            try:
                yield json.loads(up)["url"]
            finally:
                mptcplab("overlay", "down")


def mptcplab(*words: str) -> str:
    command = [sys.executable, "-m", "mptcplab", *words]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def measured(lab: Lab, kind: dict[str, Any], seconds: float) -> dict[str, float]:
    """Uploads for some seconds. Returns the goodput and the share of the tunnel."""
    words = [sys.executable, __file__, "--send", json.dumps({**kind, "seconds": seconds})]
    with lab.server.entered():
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, PROTOCOLS[kind["transport"]])
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("", PORT))
        listener.listen()
        listener.settimeout(60)
    with listener:
        if kind["tunnel"] is None:
            return sent(lab, words, listener, seconds)
        with overlay(lab, kind["tunnel"]) as url:
            return sent(lab, [sys.executable, "-m", "mptcplab", "join", url, "--", *words], listener, seconds)


def sent(lab: Lab, command: list[str], listener: socket.socket, seconds: float) -> dict[str, float]:
    with lab.host.entered():
        sender = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        connection, _ = listener.accept()
        with connection:
            goodput_bps = received(connection, seconds)
        return {"goodput_bps": goodput_bps, **json.loads(sender.communicate(timeout=60)[0])}
    finally:
        # Not kill(), after which the program that `join` runs would go on.
        sender.terminate()
        sender.wait()


def received(connection: socket.socket, seconds: float) -> float:
    """Returns the rate of what arrives after the start, in bits per second."""
    begun = time.monotonic()
    connection.settimeout(60)
    count = 0
    while part := connection.recv(1 << 20):
        age_s = time.monotonic() - begun
        count += len(part) if START * seconds <= age_s < seconds else 0
    return count * 8 / (seconds * (1 - START))


def send(kind: dict[str, Any]) -> None:
    """Uploads from the primary path of this host, and prints what the devices have sent."""
    addresses = {"regular": HOST}
    for one in iproute.told("-4", "address", "show"):
        if one["ifname"].startswith("mptcplab"):
            addresses["tunnel"] = one["addr_info"][0]["local"]
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, PROTOCOLS[kind["transport"]]) as connection:
        # The default of the machine may be another one.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONTROL)
        connection.bind((addresses[kind["primary"]], 0))
        connection.connect((SERVER, PORT))
        until = time.monotonic() + kind["seconds"]
        while time.monotonic() < until:
            connection.sendall(BLOCK)
        connection.shutdown(socket.SHUT_WR)
        # The tunnel ends with this program, so all data has to have arrived before.
        connection.recv(1)
        used = {name: sent_bytes(device) for name, device in (("regular", "regular"), ("tunnel", "mptcplab0"))}
        transport = "mptcp" if is_mptcp(connection) else "tcp"
    print(json.dumps({"transport": transport, "share_of_tunnel": used["tunnel"] / (sum(used.values()) or 1)}))


def is_mptcp(connection: socket.socket) -> bool:
    try:
        connection.getsockopt(SOL_MPTCP, MPTCP_INFO, 256)
    except OSError:
        return False
    return True


def sent_bytes(device: str) -> int:
    found = iproute.told("-statistics", "link", "show")
    return sum(one["stats64"]["tx"]["bytes"] for one in found if one["ifname"] == device)


def kind_of(member: dict[str, Any]) -> dict[str, Any]:
    """Returns what an experiment of the catalogue measures: its flow and its two paths."""
    [flow] = member["flows"]
    links = {link["id"]: link for link in member["links"]}
    found: dict[str, Any] = {"name": member["name"], "transport": flow["transport"], "tunnel": None, "regular": None}
    for path in flow["paths"]:
        name = "tunnel" if path["local"].endswith(".tun0") else "regular"
        loss = links[path["hops"][0]["link"]]["forward"]["loss"].get("probability", 0.0)
        found[name] = {"rate_bps": path["rate_bps"], "rtt_ns": path["rtt_ns"], "loss": loss}
        found.setdefault("primary", name)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("specs", nargs="*", default=["sonkoly2014/fig6", "sonkoly2014/fig7/ntnu_bme"])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--scale", default="1", help="divides rates and multiplies delays, as in the catalogue")
    parser.add_argument("--send", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.send:
        send(given.send)
        return
    for spec in given.specs:
        for member in find(spec, {"scale": given.scale}):
            kind = kind_of(member.resolve().data)
            # A flow that uses the tunnel alone still has a regular path beside it.
            lab = Lab(kind["regular"] or {"rate_bps": None, "rtt_ns": 0, "loss": 0.0})
            try:
                print(json.dumps({"experiment": kind["name"], **measured(lab, kind, given.seconds)}), flush=True)
            finally:
                lab.close()


if __name__ == "__main__":
    main()
