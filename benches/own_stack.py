"""Our stack on the wire, against the kernel's."""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from figures import MPTCPLAB, ROOT, Figure


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
