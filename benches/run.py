"""The benchmarks: each prints our figure, its limit and the peer's beside it, and all go to
benches/results.json.

Usage: python benches/run.py [NAME ...]. Figures are medians; the machine is noisy, so read ratios
rather than digits.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import ebpf_statistics
import live_page
import overlay
import port_down

ROOT = Path(__file__).parent.parent
MPTCPLAB = ROOT / ".venv" / "bin" / "mptcplab"
RESULTS = ROOT / "benches" / "results.json"
RUNS = 7

Figure = dict[str, Any]


def _wall_s(*command: str) -> float:
    """Median wall time of a command in seconds, after one run that is not counted."""
    times = []
    for _ in range(RUNS + 1):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def startup() -> dict[str, Figure]:
    """How long the two commands take that people type first; the peer is Python starting and doing
    nothing.
    """
    floor = {"unit": "s", "peer": "python -c pass", "peer_value": _wall_s(sys.executable, "-c", "pass")}
    return {
        "startup": {"value": _wall_s(str(MPTCPLAB), "--help"), "limit": 0.3, **floor},
        "startup-list": {"value": _wall_s(str(MPTCPLAB), "list"), "limit": 0.5, **floor},
    }


def commands() -> dict[str, Figure]:
    """CPU time of a run of 60 simulated seconds and of a paper's quick reproduction, from the start
    of the command to its end; the peer is Python importing the libraries that a run needs.
    """
    libraries = "import numpy, pydantic, typer, yaml"
    peer = {"unit": "s", "peer": "the imports", "peer_value": _cpu_s(RUNS, sys.executable, "-c", libraries)}
    with tempfile.TemporaryDirectory() as folder:
        results = ("--out", folder, "--fresh")
        run = _cpu_s(RUNS, str(MPTCPLAB), "run", str(ROOT / "examples" / "failing-link.yaml"), *results)
        paper = _cpu_s(1, str(MPTCPLAB), "reproduce", "alenazi2019", "--on", "sim", "--quick", *results)
    return {"run": {"value": run, "limit": 0.5, **peer}, "reproduce": {"value": paper, "limit": 45, **peer}}


def _cpu_s(runs: int, *command: str) -> float:
    """Median processor time of a command and its children in seconds, with the modules of Python
    compiled.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = []
    for _ in range(runs):
        before = os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(times)


def resolve() -> dict[str, Figure]:
    """Resolving the whole catalogue in a fresh process, imports too; the peer only reads the same
    files as YAML.
    """
    resolve_all = "from mptcplab.catalogue import catalogue\nfor member in catalogue(): member.resolve()"
    read_all = (
        "import yaml, pathlib, mptcplab.catalogue as c\n"
        "for f in c.PAPERS.rglob('*.yaml'): yaml.load(f.read_text(), yaml.CSafeLoader)"
    )
    return {
        "resolve": {
            "value": _wall_s(sys.executable, "-c", resolve_all),
            "unit": "s",
            "limit": 2.0,
            "peer": "yaml.load of the files",
            "peer_value": _wall_s(sys.executable, "-c", read_all),
        }
    }


def link() -> dict[str, Figure]:
    """One packet through one direction of a busy link; the peer's is a hop of csg-htsim over 8
    parallel links.
    """
    command = ["cargo", "bench", "--quiet", "-p", "emulation", "--bench", "link", "--", "--output-format", "bencher"]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = re.findall(r"^test (\S+)\s.*?bench:\s+([\d,]+) ns/iter", printed, re.MULTILINE)
    return {
        _link_name(name.split("/")[-1]): {
            "value": int(per_iteration.replace(",", "")) / 1000,
            "unit": "ns/packet",
            "limit": 40 if "drop_tail" in name else 80,
            "peer": "htsim, per hop",
            "peer_value": 125,
        }
        for name, per_iteration in found
    }


def _link_name(discipline: str) -> str:
    return "link" if discipline == "drop_tail" else f"link-{discipline}"


def access() -> dict[str, Figure]:
    """One packet over each access network; the peer is a plain link in the same run."""
    command = ["cargo", "bench", "--quiet", "-p", "emulation", "--bench", "access", "--", "--output-format", "bencher"]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    plain_ns = _fastest_sample("access", "plain") / 10_000
    return {
        f"access-{network}": {
            "value": _fastest_sample("access", network) / 10_000,
            "unit": "ns/packet",
            "limit": times * plain_ns,
            "peer": "a plain link",
            "peer_value": plain_ns,
        }
        for network, times in (("wifi", 5), ("cellular", 3.5), ("leo", 2))
    }


def codec() -> dict[str, Figure]:
    """A data segment with DSS and SACK from bytes to a value and back, checksums included, with and
    without payload.
    """
    command = ["cargo", "bench", "--quiet", "-p", "mptcp", "--bench", "codec", "--", "--output-format", "bencher"]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    limits = {"parse-0": 900, "parse-1400": 1300, "emit-0": 850, "emit-1400": 1450}
    times = {f"codec-{case}": _alone(_fastest_sample("codec", case.replace("-", "_")), "ns", 100) for case in limits}
    return times | _instructions("codec", 10_000, limits)


def _fastest_sample(group: str, case: str) -> float:
    """Nanoseconds per iteration in the fastest sample of criterion: what else the machine does
    slows down the rest.
    """
    samples = json.loads((ROOT / "target" / "criterion" / group / case / "new" / "sample.json").read_text())
    return min(time / times for time, times in zip(samples["times"], samples["iters"], strict=True))


def _instructions(bench: str, times: int, limits: dict[str, int]) -> dict[str, Figure]:
    """Instructions of each case of a bench of `mptcp`, which other work of the machine does not
    change.

    The bench has to take the arguments `repeat CASE TIMES`.
    """
    if shutil.which("valgrind") is None:
        print(f"{bench}: instructions left out, as valgrind is not installed")
        return {}
    # What twice as many take more: neither the start nor the end is counted.
    return {
        f"{bench}-{case}-instructions": _alone(
            (_instructions_of(bench, case, 2 * times) - _instructions_of(bench, case, times)) / times,
            "instructions",
            limit,
        )
        for case, limit in limits.items()
    }


def _instructions_of(bench: str, case: str, times: int) -> int:
    runner = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    command = ["cargo", f"--config=target.'cfg(all())'.runner={runner}", "bench", "--quiet", "-p", "mptcp"]
    arguments = ["--bench", bench, "--", "repeat", case, str(times)]
    printed = subprocess.run([*command, *arguments], check=True, cwd=ROOT, stderr=subprocess.PIPE, text=True).stderr
    found = re.search(r"I\s+refs:\s+([\d,]+)", printed)
    if found is None:
        sys.exit(f"{bench}: valgrind says no number of instructions:\n{printed}")
    return int(found[1].replace(",", ""))


def segment() -> dict[str, Figure]:
    """Two endpoints back to back with two subflows; the peer is smoltcp, plain TCP without SACK,
    measured before.
    """
    command = ["cargo", "bench", "--quiet", "-p", "mptcp", "--bench", "stack"]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = {name: float(value) for name, value in (line.split() for line in printed.splitlines())}
    smoltcp = {"unit": "ns/segment", "peer": "smoltcp", "peer_value": SMOLTCP_SEGMENT_NS}
    figures = {
        "segment": {"value": found["segment"], "limit": 500, **smoltcp},
        "segment-allocations": _alone(found["segment-allocations"], "/segment", 0.01),
        "segment-idle-subflow-bytes": _alone(found["segment-idle-subflow-bytes"], "bytes", 2048),
        "segment-unacknowledged-bytes": _alone(found["segment-unacknowledged-bytes"], "bytes", 48),
    }
    return figures | _instructions("stack", 20_000, {"segment": 3000})


SMOLTCP_SEGMENT_NS = 444
"""The best of 444 to 601 ns: two endpoints of smoltcp back to back, without checksums, on our
machine of two cores.
"""


def simulator() -> dict[str, Figure]:
    """A packet-hop of the simulator with UDP over eight parallel links, files included; peer as for
    `link`.
    """
    description = ROOT / "benches" / "eight-links.yaml"
    with tempfile.TemporaryDirectory() as folder:
        command = (str(MPTCPLAB), "run", str(description), "--out", folder, "--fresh", "--json")
        times, hops = [], 0
        for _ in range(RUNS):
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            run = json.loads(printed)["runs"][0]
            times.append(run["wall_s"])
            hops = _delivered_packets(Path(run["bundle"]))
    value = statistics.median(times) / hops * 1e9
    return {"sim-8links-udp": {"value": value, "unit": "ns/hop", "limit": 400, "peer": "htsim", "peer_value": 125}}


def _delivered_packets(bundle: Path) -> int:
    links = json.loads((bundle / "run.json").read_text())["result"]["links"]
    return sum(link["delivered_packets"] for link in links)


def eight_links() -> dict[str, Figure]:
    """A packet-hop with MPTCP over eight parallel links, and a thousand short runs on all
    processors; then UDP.
    """
    htsim = {"peer": "htsim", "peer_value": 125}
    figures = _simulated(
        "sim-8links", "eight-links-mptcp.yaml", {}, limit=400, memory_mb=50, peer=htsim, counted=("2s", "4s")
    )
    short = {"topology.parallel_links.rate": "1mbit", "duration": "10s"}
    with tempfile.TemporaryDirectory() as folder:
        experiment = _resolved(Path(folder), "eight-links-mptcp.yaml", short)
        seeds = [[str(seed) for seed in range(first, 1000, 2)] for first in range(2)]
        begun = time.perf_counter()
        halves = [subprocess.Popen([*SIMULATED, experiment, *half], stdout=subprocess.DEVNULL) for half in seeds]
        if any(half.wait() for half in halves):
            sys.exit("sim-1000runs: a run failed")
        figures["sim-1000runs"] = _alone(time.perf_counter() - begun, "s", 20)
    return figures | simulator()


def in_flight() -> dict[str, Figure]:
    """Memory of a datagram on its way: what 4 s of delay take more than 10 ms, with 61,000
    datagrams a second.
    """
    faster = {"topology.parallel_links.rate": "100mbit", "duration": "5s"}
    faster |= {f"flows.f{link}.app.cbr.rate": f"{DATAGRAMS_MBPS}mbit" for link in range(1, 9)}
    memory_bytes = []
    with tempfile.TemporaryDirectory() as folder:
        for delay in ("10ms", "4s"):
            slow = faster | {"topology.parallel_links.delay": delay}
            experiment = _resolved(Path(folder), "eight-links.yaml", slow)
            memory_bytes.append(_lines(_printed(*SIMULATED, experiment))["memory-bytes"])
    more_datagrams = 8 * DATAGRAMS_MBPS * 1e6 / 8 / 1472 * (4 - 0.01)
    return {"sim-in-flight": _alone((memory_bytes[1] - memory_bytes[0]) / more_datagrams, "bytes", 128)}


DATAGRAMS_MBPS = 90


def fattree_k8() -> dict[str, Figure]:
    """A packet-hop in a fat tree of 128 hosts."""
    peer = {"peer": "htsim", "peer_value": 610}
    return _simulated(
        "sim-fattree-k8",
        "fat-tree.yaml",
        {"duration": "500ms"},
        limit=200,
        memory_mb=300,
        peer=peer,
        counted=("50ms", "100ms"),
    )


def fattree_k16() -> dict[str, Figure]:
    """A packet-hop in a fat tree of 1024 hosts."""
    peer = {"peer": "htsim", "peer_value": 1540}
    larger = {"topology.fattree.k": 16, "flows.all.hosts": ["h[1-1024]"], "duration": "50ms"}
    return _simulated(
        "sim-fattree-k16", "fat-tree.yaml", larger, limit=280, memory_mb=300, peer=peer, counted=("10ms", "20ms")
    )


def _simulated(
    name: str,
    description: str,
    changes: dict[str, Any],
    limit: float,
    memory_mb: float,
    peer: Figure,
    counted: tuple[str, str],
) -> dict[str, Figure]:
    """CPU time, memory and instructions of a simulated experiment; htsim, the peer, leaves most of
    TCP out.

    Instructions are those that a run of the second of the `counted` durations takes more than one
    of the first.
    """
    with tempfile.TemporaryDirectory() as folder:
        experiment = _resolved(Path(folder), description, changes)
        runs = [_lines(_printed(*SIMULATED, experiment)) for _ in range(3)]
        ns = statistics.median(run["cpu-ns"] / run["hops"] for run in runs)
        figures = {
            name: {"value": ns, "unit": "ns/hop", "limit": limit, **peer},
            f"{name}-memory": _alone(runs[0]["memory-bytes"] / 1e6, "MB", memory_mb),
        }
        if shutil.which("valgrind") is None:
            print(f"{name}: instructions left out, as valgrind is not installed")
            return figures
        short = _resolved(Path(folder), description, changes | {"duration": counted[0]})
        instructions, hops = _counted(short)
        twice = _resolved(Path(folder), description, changes | {"duration": counted[1]})
        more_instructions, more_hops = _counted(twice)
        each = (more_instructions - instructions) / (more_hops - hops)
        return figures | {f"{name}-instructions": _alone(each, "instructions", 3 * limit)}


def _resolved(folder: Path, description: str, changes: dict[str, Any]) -> str:
    from mptcplab.experiment import Experiment, resolve

    experiment = Experiment.from_yaml(ROOT / "benches" / description).override(changes)
    file = folder / f"{len(list(folder.iterdir()))}.json"
    file.write_text(resolve(experiment).json())
    return str(file)


SIMULATED = (sys.executable, str(ROOT / "benches" / "simulated.py"))
"""The program that runs resolved experiments."""


def _lines(printed: str) -> dict[str, float]:
    return {name: float(value) for name, value in (line.split() for line in printed.splitlines())}


def _counted(experiment: str) -> tuple[int, int]:
    """Instructions and packet-hops of a run."""
    runner = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    # Python hashes differently in each process, unless told otherwise.
    fixed = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run([*runner, *SIMULATED, experiment], check=True, capture_output=True, text=True, env=fixed)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if found is None:
        sys.exit(f"valgrind says no number of instructions:\n{done.stderr}")
    return int(found[1].replace(",", "")), int(_lines(done.stdout)["hops"])


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


def switches() -> dict[str, Figure]:
    """Switches under control: set-up until all paths are verified, two disjoint paths, and outages
    by rules.
    """
    if os.geteuid() != 0 or shutil.which("ovs-vswitchd") is None:
        print("sdn: left out, as it needs root and Open vSwitch")
        return {}
    command = ["cargo", "bench", "--quiet", "-p", "realtime", "--bench", "switches"]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = dict(re.findall(r"^(sdn-\S+) ([\d.]+)$", printed, re.MULTILINE))
    return {
        name: {
            "value": float(found[name]),
            "unit": unit,
            "limit": limit,
            "peer": "the limit we set",
            "peer_value": limit,
        }
        for name, (unit, limit) in SWITCHES_LIMITS.items()
    }


SWITCHES_LIMITS = {
    "sdn-setup-mesh5-verified": ("s", 1.5),
    "sdn-setup-100-verified": ("s", 5.0),
    "sdn-outage-50ms-probe-p95": ("ms", 2.0),
    "sdn-outage-100ms-probe-p95": ("ms", 2.0),
    "sdn-outage-1000ms-probe-p95": ("ms", 7.0),
}


def ports_down() -> dict[str, Figure]:
    """The way round a link whose ports go down: pre-installed in the switches, and found by the
    controller.
    """
    if os.geteuid() != 0 or shutil.which("ovs-vswitchd") is None:
        print("sdn-port-down: left out, as it needs root and Open vSwitch")
        return {}
    figures = {}
    for recovery, limit_ms in port_down.LIMITS_MS.items():
        with tempfile.TemporaryDirectory() as folder:
            p95_ms = port_down.percentile_95(port_down.milliseconds(recovery, Path(folder)))
        limit = {"limit": limit_ms, "peer": "the limit we set", "peer_value": limit_ms}
        figures[f"sdn-port-down-{recovery}-p95"] = {"value": p95_ms, "unit": "ms", **limit}
    return figures


def overlays() -> dict[str, Figure]:
    """How long an overlay of 300 sites and a host that joins it take, and the memory of the sites.

    Needs root.
    """
    if os.geteuid() != 0:
        return {}
    return {
        name: {"value": value, "unit": unit, "limit": limit, "peer": "the limit we set", "peer_value": limit}
        for (name, value), (limit, unit) in zip(overlay.figures().items(), overlay.LIMITS.values(), strict=True)
    }


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


def live() -> dict[str, Figure]:
    """What the live page costs. There is no peer, because no other testbed has one to measure."""
    return {name: {"peer": "nothing", "peer_value": 0.0, **figure} for name, figure in live_page.figures().items()}


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


def link_accuracy() -> dict[str, Figure]:
    """How closely live links follow their description (root). The peer is netem, or else tbf, which
    has no delay.
    """
    found = _printed_by_live("link_accuracy")
    figures = {}
    for mbit, goodput, core in ((10, 0.99, 0.06), (100, 0.99, 0.25), (1000, 0.95, 0.9)):
        peer = "netem" if f"netem-{mbit}-goodput" in found else "tbf"
        for name, unit, limit in (
            ("goodput", "of the ceiling", goodput),
            ("ping-median-ms", "ms", 0.5),
            ("ping-p99-ms", "ms", 2),
        ):
            figures[f"link-accuracy-{mbit}-{name}"] = {
                "value": found[f"link-accuracy-{mbit}-{name}"],
                "unit": unit,
                "limit": limit,
                "peer": peer,
                "peer_value": found[f"{peer}-{mbit}-{name}"],
            }
        figures[f"link-accuracy-{mbit}-core"] = _alone(found[f"link-accuracy-{mbit}-core"], "of a core", core)
        figures[f"link-accuracy-{mbit}-late-p99-ms"] = _alone(found[f"link-accuracy-{mbit}-late-p99-ms"], "ms", 5)
    figures["link-accuracy-8x8-goodput"] = _alone(found["link-accuracy-8x8-goodput"], "of the ceiling", 0.99)
    figures["link-accuracy-8x8-core"] = _alone(found["link-accuracy-8x8-core"], "of a core", 0.25)
    simulator = {"peer": "the simulator's link", "peer_value": 0}
    lost = {"value": found["link-accuracy-read-lost-differently"], "unit": "packets", "limit": 0}
    figures["link-accuracy-read-lost-differently"] = lost | simulator
    for place in ("read", "sockets"):
        later = {"value": found[f"link-accuracy-{place}-p99-ms"], "unit": "ms later", "limit": 2}
        figures[f"link-accuracy-{place}-p99-ms"] = later | simulator
    return figures


def unshaped() -> dict[str, Figure]:
    """One TCP flow through a link that does nothing (root); the peer is a plain veth pair in the
    same run.
    """
    found = _printed_by_live("unshaped")
    peer = {"unit": "Gbit/s", "peer": "veth pair", "peer_value": found["veth"] / 1e9}
    return {
        "unshaped": {"value": found["unshaped"] / 1e9, "limit": 10, **peer},
        "unshaped-packets": {"value": found["unshaped-packets"] / 1e9, "limit": 2.5, **peer},
    }


def _printed_by_live(bench: str) -> dict[str, float]:
    command = ["cargo", "bench", "--quiet", "-p", "realtime", "--bench", bench]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return {name: float(value) for name, value in (line.split() for line in printed.splitlines())}


def _alone(value: float, unit: str, limit: float) -> Figure:
    return {"value": value, "unit": unit, "limit": limit, "peer": "the limit we set", "peer_value": limit}


def install() -> dict[str, Figure]:
    """Size of the base install in an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        wheels, environment = Path(folder, "wheels"), Path(folder, "venv")
        maturin = ROOT / ".venv" / "bin" / "maturin"
        subprocess.run([maturin, "build", "--quiet", "--release", "--out", wheels], check=True, cwd=ROOT)
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
        wheel = next(wheels.glob("*.whl"))
        pip = [ROOT / ".venv" / "bin" / "pip", "--python", environment / "bin" / "python"]
        subprocess.run([*pip, "install", "--quiet", wheel], check=True)
        size = sum(os.lstat(file).st_size for file in environment.rglob("*") if file.is_file())
        shutil.rmtree(environment)
    return {"install": {"value": size / 1e6, "unit": "MB", "limit": 250, "peer": "the limit we set", "peer_value": 250}}


def stack_kernel() -> dict[str, Figure]:
    """Goodput of our stack with the kernel at the other end, sending and receiving; the peer is the
    kernel twice.
    """
    peer = _goodputs_mbps("kernel", "kernel", "kernel")
    ours = {
        "sends": _goodputs_mbps("userspace", "userspace", "kernel"),
        "receives": _goodputs_mbps("userspace", "kernel", "userspace"),
    }
    return {
        f"stack-kernel-{links}-{doing}": {
            "value": goodputs[links],
            "unit": "Mbit/s",
            "limit": 0.98 * kernel,
            "peer": "kernel to kernel",
            "peer_value": kernel,
        }
        for links, kernel in peer.items()
        for doing, goodputs in ours.items()
    }


def _goodputs_mbps(on: str, client: str, server: str) -> dict[str, float]:
    """By experiment of own-stack.yaml: the median of three runs with these stacks."""
    stacks = [f"--set=hosts.client.stack={client}", f"--set=hosts.server.stack={server}"]
    with tempfile.TemporaryDirectory() as folder:
        command = [MPTCPLAB, "run", ROOT / "benches" / "own-stack.yaml", "--on", on, *stacks]
        command += ["--repeat", "3", "--out", folder, "--json"]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, list[float]] = {}
    for run in json.loads(printed)["runs"]:
        found.setdefault(Path(run["experiment"]).name, []).append(run["flows"][0]["goodput_bps"] / 1e6)
    return {links: statistics.median(goodputs) for links, goodputs in found.items()}


def wire() -> dict[str, Figure]:
    """Goodput from our stack to the kernel's over links that shape nothing, and their processor
    time (root); the peer is the kernel twice.
    """
    ours, kernel = _unshaped("userspace", "userspace"), _unshaped("kernel", "kernel")
    figures: dict[str, Figure] = {}
    for links, gbps in (("one", 3), ("two", 4)):
        for name, unit, limit, what in (("", "Gbit/s", gbps, 0), ("-cpu", "s/GB", 2.0, 1)):
            figures[f"wire-{links}{name}"] = {
                "value": ours[links][what],
                "unit": unit,
                "limit": limit,
                "peer": "kernel to kernel",
                "peer_value": kernel[links][what],
            }
    return figures


def _unshaped(on: str, client: str) -> dict[str, tuple[float, float]]:
    """With one link and with two: Gbit/s and s/GB with this stack at the client, medians of three
    runs.
    """
    found = {}
    for n, links in enumerate(("one", "two"), start=1):
        runs = []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                command = [MPTCPLAB, "run", ROOT / "benches" / "wire.yaml", "--on", on, "--out", folder, "--json"]
                command += [f"--set=hosts.client.stack={client}", "--set=hosts.server.stack=kernel"]
                command += [f"--set=topology.parallel_links.n={n}"]
                before = os.times()
                printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
                after = os.times()
            [flow] = json.loads(printed)["runs"][0]["flows"]
            cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
            runs.append((flow["goodput_bps"] / 1e9, cpu_s / (flow["bytes"] / 1e9)))
        goodputs, cpu = zip(*runs, strict=True)
        found[links] = statistics.median(goodputs), statistics.median(cpu)
    return found


def live_wifi() -> dict[str, Figure]:
    """100 Mbit/s of datagrams over 802.11ac (root): how far the emulator's goodput and its 99th
    percentile of the delay are from the simulator's. Medians of five runs that are valid.
    """
    live, simulated = (_streams_over_wifi(on) for on in ("kernel", "sim"))
    goodput, delay_s = (statistics.median(of) for of in zip(*live, strict=True))
    expected, expected_s = (statistics.median(of) for of in zip(*simulated, strict=True))
    peer = {"peer": "the simulator", "peer_value": 0}
    print(f"live-wifi: {goodput / 1e6:.2f} Mbit/s and {1e3 * delay_s:.2f} ms", end="; ")
    print(f"the simulator: {expected / 1e6:.2f} Mbit/s and {1e3 * expected_s:.2f} ms")
    return {
        "live-wifi-goodput": {"value": abs(goodput / expected - 1), "unit": "of it away", "limit": 0.03, **peer},
        "live-wifi-p99-ms": {"value": 1e3 * abs(delay_s - expected_s), "unit": "ms away", "limit": 2, **peer},
    }


def _streams_over_wifi(on: str) -> list[tuple[float, float]]:
    """Goodput in bit/s and 99th percentile of the delay in s of five valid runs, of at most 15."""
    found = []
    for seed in range(1, 16):
        with tempfile.TemporaryDirectory() as folder:
            command = [MPTCPLAB, "run", ROOT / "benches" / "live-wifi.yaml", "--on", on, "--out", folder]
            # A busy machine makes a run invalid, and its status is not 0 then.
            command += ["--seed", str(seed), "--json"]
            printed = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True).stdout
            [run] = json.loads(printed)["runs"]
            stream = json.loads((Path(run["bundle"]) / "run.json").read_text())["metrics"]["flows.stream"]
        if run["status"] == "done":
            found.append((stream["goodput_bps"], stream["delay_p99_s"]))
        if len(found) == 5:
            return found
    sys.exit(f"live-wifi: only {len(found)} of 15 runs on {on} are valid, because the machine is too busy")


def proxy() -> dict[str, Figure]:
    """iperf3 through a proxy (root); the peer is iperf3 by the kernel's, of whose processor time
    not all is seen.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [MPTCPLAB, "run", ROOT / "benches" / "proxy.yaml", "--on", "kernel", "--repeat", "3", "--out", folder]
        # A proxy is root's.
        command += ["--allow-programs", "--root-programs"]
        path = os.pathsep.join([str(MPTCPLAB.parent), os.environ["PATH"]])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | {"PATH": path})
        found = {
            by: [_of_iperf3(json.loads(run.read_text())) for run in Path(folder).rglob(f"*{by}*/**/run.json")]
            for by in ("kernel", "ours")
        }
    goodput = {by: statistics.median(goodput for goodput, _ in runs) for by, runs in found.items()}
    cpu = {by: statistics.median(cpu for _, cpu in runs) for by, runs in found.items()}
    peer = "iperf3 by the kernel's"
    return {
        "proxy": {
            "value": goodput["ours"],
            "unit": "Mbit/s",
            "limit": 0.95 * goodput["kernel"],
            "peer": peer,
            "peer_value": goodput["kernel"],
        },
        "proxy-cpu": {"value": cpu["ours"], "unit": "s/GB", "limit": 20, "peer": peer, "peer_value": cpu["kernel"]},
    }


def _of_iperf3(record: dict[str, Any]) -> tuple[float, float]:
    """Goodput in Mbit/s and processor time in s/GB: benches/proxy.yaml prints a JSON document, then
    `times`.
    """
    [printed] = [program["stdout"] for program in record["result"]["programs"] if program["flow"] == "load"]
    document, end = json.JSONDecoder().raw_decode(printed)
    of_children = re.findall(r"(\d+)m([\d.]+)s", printed[end:])[2:]
    received = document["end"]["sum_received"]
    seconds = sum(60 * int(minutes) + float(seconds) for minutes, seconds in of_children)
    return received["bits_per_second"] / 1e6, seconds / (received["bytes"] / 1e9)


COUPLED = ("lia", "olia", "balia", "wvegas", "ewtcp", "semicoupled")
#: By name of a hook: how many nanoseconds it ran and how often.
Hooks = dict[str, tuple[int, int]]


def cc_cost() -> dict[str, Figure]:
    """All hooks for an acknowledgment, over two and eight subflows on the kernel (root, clang),
    without what its statistics cost; the peer is its own CUBIC, called through the same hooks. In
    the medians of three turns.
    """
    with tempfile.TemporaryDirectory() as scratch, ebpf_statistics.statistics():
        folder = Path(scratch)
        shutil.copy(ROOT / "benches" / "coupled.yaml", folder)
        peers = {name: _compiled(f"kernel_{name}", folder) for name in ("reno", "cubic")}
        figures: dict[str, Figure] = {}
        for subflows in (2, 8):
            costs: dict[str, list[float]] = {}
            for _ in range(3):
                of_turn = {name: _hooks_of_a_run(folder, name, subflows) for name in (*peers.values(), *COUPLED)}
                time_ns, times = of_turn[peers["reno"]]["pkts_acked"]
                for name, hooks in of_turn.items():
                    costs.setdefault(name, []).append(_ns_per_ack(hooks, idle_ns=time_ns / times))
            medians = {name: statistics.median(values) for name, values in costs.items()}
            peer = {"unit": "ns/ack", "peer": "the kernel's CUBIC", "peer_value": medians[peers["cubic"]]}
            for name in ("reno", *COUPLED):
                value = medians[peers.get(name, name)]
                figures[f"cc-cost-{subflows}-{name}"] = {"value": value, "limit": 120, **peer}
    return figures


def _compiled(name: str, folder: Path) -> str:
    """What descriptions in this folder call the control of benches/peers."""
    target = folder / f"{name}.bpf.o"
    compiler = ["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-I", ROOT / "bpf"]
    subprocess.run([*compiler, "-c", ROOT / "benches" / "peers" / f"{name}.bpf.c", "-o", target], check=True)
    return f"./{target.name}"


def _ns_per_ack(hooks: Hooks, idle_ns: float) -> float:
    """Of all hooks, without what one that does nothing is said to take."""
    return sum(time_ns - times * idle_ns for time_ns, times in hooks.values()) / hooks["cong_avoid"][1]


def _hooks_of_a_run(folder: Path, control: str, subflows: int) -> Hooks:
    """As of the last look before the run was over."""
    counted: Hooks = {}
    before = ebpf_statistics.programs().keys()
    with tempfile.TemporaryDirectory() as results:
        command = [MPTCPLAB, "run", "coupled.yaml", "--on", "kernel", "--out", results, "--allow-programs"]
        command += [f"--set=cc={control}", f"--set=subflows={subflows}"]
        run = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=folder)
        while run.poll() is None:
            for number, (name, time_ns, times) in ebpf_statistics.programs().items():
                # Others on this machine may register controls, too: the busiest is ours.
                if number not in before and times >= counted.get(name, (0, 0))[1]:
                    counted[name] = (time_ns, times)
            time.sleep(0.2)
    return counted


def cc_goodput() -> dict[str, Figure]:
    """Goodput of the coupled controls on the kernel (root) over 2 x 500 Mbit/s, in parts of that of
    its Reno in the same turn: medians of five turns.
    """
    goodputs: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as results:
        for turn in range(5):
            for control in ("reno", *COUPLED):
                command = [MPTCPLAB, "run", ROOT / "benches" / "coupled.yaml", "--on", "kernel", "--json"]
                command += [f"--set=cc={control}", "--set=subflows=2", "--set=topology.parallel_links.rate=500mbit"]
                command += ["--out", Path(results, str(turn))]
                printed = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout
                goodputs.setdefault(control, []).append(json.loads(printed)["runs"][0]["flows"][0]["goodput_bps"])
    reno = goodputs.pop("reno")
    return {
        f"cc-goodput-{control}": {
            "value": statistics.median(ours / its for ours, its in zip(values, reno, strict=True)),
            "unit": "of Reno's",
            "limit": 0.97,
            "peer": "Reno, Mbit/s",
            "peer_value": statistics.median(reno) / 1e6,
        }
        for control, values in goodputs.items()
    }


#: Options that take part in the analysis of a capture, as tshark calls them.
TSHARK_FIELDS = (
    *("frame.number", "frame.time_relative", "tcp.stream", "mptcp.stream", "tcp.seq_raw", "tcp.ack_raw", "tcp.len"),
    *(f"tcp.options.mptcp.{name}" for name in ("rawdataseqno", "rawdataack", "datalvllen")),
)
#: Prints packets, seconds of the full analysis, and the most memory of the process in kB.
EXPLAIN = """
import json, resource, sys, time
from mptcplab import _core
def once():
    captures = _core.Captures([sys.argv[1]])
    begun = time.perf_counter()
    while captures.advance(1 << 20):
        pass
    return time.perf_counter() - begun, json.loads(captures.summary())["frames"]["frames"]
seconds, frames = min(once() for _ in range(5))
print(frames, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
PAGE = """
import pathlib, sys, time
from mptcplab.captures import explain
from mptcplab.report.capture import capture_page
series = pathlib.Path(sys.argv[2])
document = explain([pathlib.Path(sys.argv[1])], series=series)
begun = time.perf_counter()
capture_page(document, series)
print(time.perf_counter() - begun)
"""


def pcap() -> dict[str, Figure]:
    """Explaining a capture of seven subflows, 385,000 packets; the peer is tshark writing ten
    fields of each.
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        subprocess.run(
            [MPTCPLAB, "run", ROOT / "benches" / "seven-subflows.yaml", "--out", folder, "--json"],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        [whole] = folder.rglob("client.eth0.pcapng")
        capture, rows = folder / "capture.pcapng", folder / "rows.parquet"
        subprocess.run(["editcap", "-s", "128", whole, capture], check=True)
        frames, seconds, kilobytes = map(float, _printed(sys.executable, "-c", EXPLAIN, capture).split())
        page_s = float(_printed(sys.executable, "-c", PAGE, capture, rows))
        tshark = ["tshark", "-r", capture, "-T", "fields", *(word for name in TSHARK_FIELDS for word in ("-e", name))]
        begun = time.perf_counter()
        subprocess.run(tshark, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        tshark_s = time.perf_counter() - begun
    peer = {"peer": "tshark", "peer_value": frames / tshark_s / 1e6}
    return {
        "pcap": {"value": frames / seconds / 1e6, "unit": "M packets/s", "limit": 3, **peer},
        "pcap-memory": _alone(kilobytes / 1000, "MB", 50),
        "pcap-page": _alone(page_s, "s", 2),
    }


def _printed(*command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def sdn_paths() -> dict[str, Figure]:
    """Eight ways and disjoint pairs of ways between 15 pairs of nodes, in a network of 1000 nodes
    and 3000 links.

    The peers of networkx take no parallel links, and their disjoint ways are not the cheapest.
    """
    import networkx
    from mptcplab.paths import edge_disjoint, k_shortest, node_disjoint

    graph, peer, pairs = _random_network()
    yen = {"unit": "ms", "limit": 1000, "peer": "networkx.shortest_simple_paths"}
    by_edges = {"unit": "ms", "limit": 50, "peer": "networkx.edge_disjoint_paths"}
    by_nodes = {"unit": "ms", "limit": 50, "peer": "networkx.node_disjoint_paths"}
    return {
        "sdn-paths-yen": {
            "value": _median_ms(pairs, lambda a, b: k_shortest(graph, a, b, 8)),
            "peer_value": _median_ms(
                pairs, lambda a, b: list(islice(networkx.shortest_simple_paths(peer, a, b, weight="cost"), 8))
            ),
            **yen,
        },
        "sdn-paths-edge-disjoint": {
            "value": _median_ms(pairs, lambda a, b: edge_disjoint(graph, a, b, 2)),
            "peer_value": _median_ms(pairs, lambda a, b: list(networkx.edge_disjoint_paths(peer, a, b, cutoff=2))),
            **by_edges,
        },
        "sdn-paths-node-disjoint": {
            "value": _median_ms(pairs, lambda a, b: node_disjoint(graph, a, b, 2)),
            "peer_value": _median_ms(pairs, lambda a, b: list(networkx.node_disjoint_paths(peer, a, b, cutoff=2))),
            **by_nodes,
        },
    }


def _random_network() -> tuple[Any, Any, list[tuple[str, str]]]:
    """A ring with random chords, the same as a graph of networkx, and pairs of its nodes."""
    import networkx
    from mptcplab.paths import Edge, Graph

    draws = random.Random(1)
    nodes = [f"s{index}" for index in range(1000)]
    links = {tuple(sorted((node, nodes[index - 1]))) for index, node in enumerate(nodes)}
    while len(links) < 3000:
        links.add(tuple(sorted(draws.sample(nodes, 2))))
    costs = {ends: draws.randint(1, 100) for ends in sorted(links)}
    peer: Any = networkx.Graph()
    peer.add_edges_from((*ends, {"cost": cost}) for ends, cost in costs.items())
    graph = Graph(Edge(f"{near}-{far}", (near, far), cost) for (near, far), cost in costs.items())
    return graph, peer, [tuple(draws.sample(nodes, 2)) for _ in range(15)]


def _median_ms(pairs: list[tuple[str, str]], find: Callable[[str, str], Any]) -> float:
    """Median CPU time over pairs of nodes, each the median of several calls: other work of the
    machine counts less.
    """
    medians = []
    for pair in pairs:
        times = []
        for _ in range(RUNS):
            begun = time.process_time()
            find(*pair)
            times.append(time.process_time() - begun)
        medians.append(statistics.median(times))
    return statistics.median(medians) * 1000


BENCHES: dict[str, Callable[[], dict[str, Figure]]] = {
    "startup": startup,
    "commands": commands,
    "resolve": resolve,
    "link": link,
    "access": access,
    "codec": codec,
    "segment": segment,
    "sim-8links": eight_links,
    "sim-in-flight": in_flight,
    "sim-fattree-k8": fattree_k8,
    "sim-fattree-k16": fattree_k16,
    "setup": setup,
    "sdn": switches,
    "sdn-port-down": ports_down,
    "overlay": overlays,
    "link-accuracy": link_accuracy,
    "unshaped": unshaped,
    "stack-kernel": stack_kernel,
    "wire": wire,
    "live-wifi": live_wifi,
    "proxy": proxy,
    "pcap": pcap,
    "cc-cost": cc_cost,
    "cc-goodput": cc_goodput,
    "live-page": live,
    "install": install,
    "sdn-paths": sdn_paths,
}


def main(names: list[str]) -> None:
    unknown = set(names) - set(BENCHES)
    if unknown:
        sys.exit(f"no benchmark is called {', '.join(sorted(unknown))}; allowed: {', '.join(BENCHES)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in names or BENCHES:
        for figure_name, figure in BENCHES[name]().items():
            results[figure_name] = figure
            print(
                f"{figure_name:<32} {figure['value']:10.3f} {figure['unit']:<12} limit {figure['limit']:<6} "
                f"{figure['peer']}: {figure['peer_value']:.3f}"
            )
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
