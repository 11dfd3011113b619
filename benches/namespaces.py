"""Hosts in namespaces of the kernel: built, verified and removed."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time

from figures import ROOT, Figure


def setup() -> dict[str, Figure]:
    """Hosts in namespaces: built, verified by echoes over the links, removed.

    The peer `ip -b` builds the same of veth. Mininet and NeST, where they are installed, have rows
    of their own: they build the hosts, links and IPv4 addresses, without rules and IPv6. Their
    interpreters are named by the environment variables MININET_PYTHON and NEST_PYTHON; without,
    they are /usr/bin/python3 and the first python3 of PATH.
    """
    if os.geteuid() != 0:
        print("setup: left out, as it needs root")
        return {}
    command = ["cargo", "bench", "--quiet", "-p", "realtime", "--bench", "setup"]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = dict(re.findall(r"^(setup-\S+) ([\d.]+)$", printed, re.MULTILINE))
    peers = {
        "setup-8links-up": _ip_batch_s(*_parallel_links(8)),
        "setup-star100-up": _ip_batch_s(*_star(100)),
        "setup-1000interfaces-up": _ip_batch_s(*_parallel_links(500)),
    }
    figures = {}
    for name, limit in SETUP_LIMITS_S.items():
        has_peer = name in peers
        figures[name] = {
            "value": float(found[name]),
            "unit": "s",
            "limit": limit,
            "peer": "ip -b" if has_peer else "the limit we set",
            "peer_value": peers[name] if has_peer else limit,
        }
    for peer in SETUP_PEERS:
        figures |= _beside(peer, figures)
    return figures


SETUP_LIMITS_S = {
    "setup-8links-up": 0.05,
    "setup-8links-verified": 0.3,
    "setup-star100-up": 0.2,
    "setup-1000interfaces-up": 1.0,
    "setup-1000interfaces-down": 0.5,
}


SETUP_PEERS = {"Mininet": ("MININET_PYTHON", "/usr/bin/python3"), "NeST": ("NEST_PYTHON", "python3")}
"""Programs that build networks: the variable that names their interpreter, and
what it is without.
"""


PEER_TOPOLOGIES = {"setup-8links-up": ("links", "8"), "setup-star100-up": ("star", "100")}


# Whatever they leave behind ends with them.
IN_NEW_NAMESPACES = ("unshare", "--net", "--mount-proc", "--pid", "--fork", "--kill-child")


def _beside(peer: str, ours: dict[str, Figure]) -> dict[str, Figure]:
    """Our figures with another program beside them, where it builds the same; nothing if it is not
    installed.
    """
    try:
        return {
            f"{name}-{peer.lower()}": ours[name] | {"peer": peer, "peer_value": _peer_s(peer, *topology)}
            for name, topology in PEER_TOPOLOGIES.items()
        }
    except subprocess.CalledProcessError as error:
        why = error.stderr.strip().splitlines()[-1]
        print(f"setup: {peer} left out, as it does not run here ({why})")
        return {}


def _peer_s(peer: str, *topology: str) -> float:
    """Median time that another program needs, its start not counted."""
    variable, interpreter = SETUP_PEERS[peer]
    script = ROOT / "benches" / "peers" / f"build_with_{peer.lower()}.py"
    command = [*IN_NEW_NAMESPACES, os.environ.get(variable, interpreter), str(script), *topology]
    times = []
    # NeST writes a log where it is started.
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(3):
            run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
            times.append(float(run.stdout.splitlines()[-1]))
    return statistics.median(times)


Batches = dict[str, list[str]]
"""Commands of ip(8) by the namespace they are for."""


def _ip_batch_s(first: list[str], batches: Batches) -> float:
    """Median time of `ip -b` for the commands of `first`, and then once or twice for each
    namespace.
    """
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        try:
            _ip_batch([*(f"netns add {name}" for name in batches), *first])
            for name, commands in batches.items():
                _ip_batch([command for command in commands if "::" not in command], "-n", name)
                _ip_batch([command for command in commands if "::" in command], "-6", "-n", name)
            times.append(time.perf_counter() - begun)
        finally:
            _ip_batch([f"netns delete {name}" for name in batches], "-force")
    return statistics.median(times)


def _ip_batch(commands: list[str], *options: str) -> None:
    if not commands:
        return
    subprocess.run(["ip", *options, "-b", "-"], input="\n".join(commands), check=True, text=True)


def _namespace(host: object) -> str:
    return f"mptcplab-bench-{os.getpid()}-{host}"


def _parallel_links(n: int) -> tuple[list[str], Batches]:
    """Two hosts, `n` links, and what leads packets out by the interface of their address."""
    ends = _namespace(1), _namespace(2)
    first = [f"link add eth{i} netns {ends[0]} type veth peer name eth{i} netns {ends[1]}" for i in range(n)]
    return first, {end: _host_commands(n, me) for end, me in zip(ends, (1, 2), strict=True)}


def _host_commands(n: int, me: int) -> list[str]:
    commands = ["link set lo up"]
    for i in range(n):
        ipv4, ipv6 = f"10.{1 + i // 250}.{i % 250}.", f"fd00:1:{i:x}::"
        commands.append(f"link set eth{i} up")
        commands += [f"address add {ipv4}{me}/24 dev eth{i}", f"address add {ipv6}{me}/64 dev eth{i} nodad"]
        for prefix, everything in ((ipv4, "0.0.0.0/0"), (ipv6, "::/0")):
            commands += [
                f"rule add from {prefix}{me} lookup {1000 + i}",
                f"route add unreachable {everything} table {1000 + i}",
                f"route add {prefix}{3 - me} dev eth{i} table {1000 + i}",
            ]
    return commands


def _star(n: int) -> tuple[list[str], Batches]:
    """`n` hosts on a bridge, each with a route to the next."""
    hub = _namespace("hub")
    first = [f"link add eth0 netns {_namespace(i)} type veth peer name p{i} netns {hub}" for i in range(n)]
    ports = [command for i in range(n) for command in (f"link set p{i} master br0", f"link set p{i} up")]
    batches = {hub: ["link add br0 type bridge", *ports, "link set br0 up"]}
    for i in range(n):
        batches[_namespace(i)] = [
            "link set lo up",
            "link set eth0 up",
            f"address add 10.1.0.{i + 1}/24 dev eth0",
            f"rule add from 10.1.0.{i + 1} lookup 1000",
            "route add unreachable default table 1000",
            f"route add 10.1.0.{(i + 1) % n + 1} dev eth0 table 1000",
        ]
    return first, batches
