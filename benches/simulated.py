"""Prints CPU time and memory of whole runs of a resolved experiment, in the lines `cpu-ns`, `hops`
and `memory-bytes`.

Usage: python benches/simulated.py FILE.json [SEED ..]. Makes one run for each seed, one after the
other, with the extension that is installed. Hops are the packets that links sent. CPU time is that
of the runs, from the first event to the last. Memory is the largest that the process had, beyond
what it had before (Linux).
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import time
from pathlib import Path

from mptcplab import _core

FOREVER_NS = (1 << 64) - 1


def run(experiment: str, seed: int) -> tuple[int, int]:
    with tempfile.TemporaryDirectory() as folder:
        simulation = _core.Simulation(experiment, seed, folder)
        begun = time.thread_time_ns()
        simulation.advance(FOREVER_NS)
        cpu_ns = time.thread_time_ns() - begun
        links = json.loads(simulation.finish())["links"]
    return cpu_ns, sum(link["wire_packets"] for link in links)


def memory_bytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


def main(file: str, *seeds: str) -> None:
    experiment = Path(file).read_text()
    before_bytes = memory_bytes("VmRSS")
    runs = [run(experiment, int(seed)) for seed in seeds or ["1"]]
    print("cpu-ns", sum(cpu_ns for cpu_ns, _ in runs))
    print("hops", sum(hops for _, hops in runs))
    print("memory-bytes", memory_bytes("VmHWM") - before_bytes)


if __name__ == "__main__":
    main(*sys.argv[1:])
