"""What all benchmarks use: the form of a figure, and ways of measuring one."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
MPTCPLAB = ROOT / ".venv" / "bin" / "mptcplab"
RUNS = 7
Figure = dict[str, Any]


def wall_s(*command: str) -> float:
    """Median wall time of a command in seconds, after one run that is not counted."""
    times = []
    for _ in range(RUNS + 1):
        begun = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[1:])


def cpu_s(runs: int, *command: str) -> float:
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


def fastest_sample(group: str, case: str) -> float:
    """Nanoseconds per iteration in the fastest sample of criterion: what else the machine does
    slows down the rest.
    """
    samples = json.loads((ROOT / "target" / "criterion" / group / case / "new" / "sample.json").read_text())
    return min(time / times for time, times in zip(samples["times"], samples["iters"], strict=True))


def printed_by_live(bench: str) -> dict[str, float]:
    command = ["cargo", "bench", "--quiet", "-p", "realtime", "--bench", bench]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    return {name: float(value) for name, value in (line.split() for line in printed.splitlines())}


def alone(value: float, unit: str, limit: float) -> Figure:
    return {"value": value, "unit": unit, "limit": limit, "peer": "the limit we set", "peer_value": limit}


def printed(*command: str | Path) -> str:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
