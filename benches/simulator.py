"""The simulator: a packet-hop and memory, over a few links and in fat trees."""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import MPTCPLAB, ROOT, RUNS, Figure, alone, printed


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
        figures["sim-1000runs"] = alone(time.perf_counter() - begun, "s", 20)
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
            memory_bytes.append(_lines(printed(*SIMULATED, experiment))["memory-bytes"])
    more_datagrams = 8 * DATAGRAMS_MBPS * 1e6 / 8 / 1472 * (4 - 0.01)
    return {"sim-in-flight": alone((memory_bytes[1] - memory_bytes[0]) / more_datagrams, "bytes", 128)}


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
        runs = [_lines(printed(*SIMULATED, experiment)) for _ in range(3)]
        ns = statistics.median(run["cpu-ns"] / run["hops"] for run in runs)
        figures = {
            name: {"value": ns, "unit": "ns/hop", "limit": limit, **peer},
            f"{name}-memory": alone(runs[0]["memory-bytes"] / 1e6, "MB", memory_mb),
        }
        if shutil.which("valgrind") is None:
            print(f"{name}: instructions left out, as valgrind is not installed")
            return figures
        short = _resolved(Path(folder), description, changes | {"duration": counted[0]})
        instructions, hops = _counted(short)
        twice = _resolved(Path(folder), description, changes | {"duration": counted[1]})
        more_instructions, more_hops = _counted(twice)
        each = (more_instructions - instructions) / (more_hops - hops)
        return figures | {f"{name}-instructions": alone(each, "instructions", 3 * limit)}


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
