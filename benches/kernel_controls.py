"""The coupled congestion controls on the kernel."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import ebpf_statistics
from figures import MPTCPLAB, ROOT, Figure

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
