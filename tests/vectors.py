"""Runs the test vectors, those of the crates through cargo: `make vectors`.

The file is that of MPTCPLAB_VECTORS, else tests/vectors.json. The last line adds up; the status is
1 if any failed.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from mptcplab import metrics
from mptcplab.paths import POLICIES, Edge, Graph, NoWaysError, Way

Inputs = dict[str, Any]
Outputs = dict[str, Any]

ROOT = Path(__file__).parent.parent
CRATES = 2
"""The number of crates that run vectors: the engine and the simulator."""
SUMMARY = re.compile(r"vectors: (\d+) passed, (\d+) failed, (\d+) pending")


def jitter(inputs: Inputs) -> Outputs:
    variance = metrics.interarrival_variance(inputs["arrivals"])
    assert variance is not None
    return {
        "var_interarrival": variance,
        "std_interarrival": variance**0.5,
        "var_arrival_times": float(np.var(inputs["arrivals"])),
        "rfc3550_constant_gap": metrics.rfc3550_jitter_constant_gap(inputs["arrivals"]),
    }


def reordering(inputs: Inputs) -> Outputs:
    found = [
        {"seq": r.sequence, "index": r.index, "extent": r.extent, "n_reordering": r.n_reordering}
        for r in metrics.reordered(inputs["arrivals"])
    ]
    return {"reordered": found, "ratio": metrics.reordering_ratio(inputs["arrivals"])}


def goodput(inputs: Inputs) -> Outputs:
    start, last = inputs["t_start"], inputs["t_last"]
    return {
        "goodput_bps": metrics.goodput(inputs["bytes"], start, last),
        "total_delivery_time": metrics.completion_time(start, last),
    }


def recovery(inputs: Inputs) -> Outputs:
    rates = np.asarray(inputs["throughput_per_s"], dtype=float)
    fail, before = inputs["t_fail"], inputs["pre"]
    baseline = float(rates[fail - before : fail].mean())
    seconds = metrics.recovery_time(np.arange(len(rates)), rates, fail, inputs["frac"] * baseline, hold=inputs["hold"])
    return {"baseline": baseline, "recovery_time": seconds}


def gap(inputs: Inputs) -> Outputs:
    return {"gap": metrics.longest_silence(inputs["deliveries"], inputs["event"], inputs["w"])}


def completion(inputs: Inputs) -> Outputs:
    last = inputs["last_byte_read"]
    return {
        "fct": metrics.completion_time(inputs["connect"], last),
        "fct_no_handshake": metrics.completion_time(inputs["first_byte_sent"], last),
    }


def _graph(costs: dict[str, dict[str, int]]) -> Graph:
    """Returns the graph of a vector, which lists every edge at both of its nodes."""
    return Graph(
        Edge(f"{near}-{far}", (near, far), cost) for near, at in costs.items() for far, cost in at.items() if near < far
    )


def _ways(policy: str, inputs: Inputs, count: int) -> list[Way] | None:
    try:
        return POLICIES[policy].function(_graph(inputs["graph"]), inputs["src"], inputs["dst"], count)
    except NoWaysError:
        return None


def _costs_and_nodes(inputs: Inputs, ways: list[Way] | None) -> object:
    graph = _graph(inputs["graph"])
    return ways and [[graph.cost_of(way), list(graph.nodes_of(way, inputs["src"]))] for way in ways]


def yen(inputs: Inputs) -> Outputs:
    return {"paths": _costs_and_nodes(inputs, _ways("k_shortest", inputs, inputs["k"]))}


def disjoint_pair(policy: str, inputs: Inputs) -> Outputs:
    return {"pair": _costs_and_nodes(inputs, _ways(policy, inputs, 2))}


def maximally_disjoint(inputs: Inputs) -> Outputs:
    ways = _ways("maximally_disjoint", inputs, 2) or []
    shared = sorted(set.intersection(*map(set, ways)))
    return {"paths": _costs_and_nodes(inputs, ways), "shared_edges": [edge.split("-") for edge in shared]}


COMPUTATIONS: dict[str, Callable[[Inputs], Outputs]] = {
    "metric.jain": lambda inputs: {"J": metrics.jain_index(inputs["x"])},
    "metric.jitter": jitter,
    "metric.reorder": reordering,
    "metric.goodput": goodput,
    "metric.recovery": recovery,
    "metric.gap": gap,
    "metric.fct": completion,
    "paths.yen": yen,
    "paths.edge": partial(disjoint_pair, "edge_disjoint"),
    "paths.node": partial(disjoint_pair, "node_disjoint"),
    "paths.maxdis": maximally_disjoint,
}


def agrees(expected: object, found: object, rel_tolerance: float) -> bool:
    """Returns whether two outputs are equal, with a tolerance for numbers."""
    if isinstance(expected, float | int) and isinstance(found, float | int):
        return abs(found - expected) <= max(rel_tolerance * abs(expected), 1e-12)
    return expected == found


def difference(vector: dict[str, Any]) -> str | None:
    """Returns the difference between the expected and the actual outputs of a vector; None without
    one.
    """
    compute = COMPUTATIONS.get(".".join(vector["id"].split(".")[:2]))
    if compute is None:
        return "no family of vectors has such an id"
    found = compute(vector["inputs"])
    for name, expected in vector["outputs"].items():
        if not agrees(expected, found.get(name), vector["rel_tolerance"]):
            return f"{name} is {found.get(name)}, not {expected}"
    return None


def run_python(file: Path) -> tuple[int, int]:
    """Runs the vectors of metrics and paths. Returns how many passed and how many failed."""
    vectors = [v for v in json.loads(file.read_text())["vectors"] if v["id"].split(".")[0] in ("metric", "paths")]
    differences = {vector["id"]: difference(vector) for vector in vectors}
    failed = {identifier: why for identifier, why in differences.items() if why is not None}
    for identifier, why in failed.items():
        print(f"failed {identifier}: {why}")
    return len(vectors) - len(failed), len(failed)


def run_crates(file: Path) -> list[tuple[int, ...]]:
    """Runs the vectors of the crates. Returns for each how many passed, failed and are pending."""
    environment = {**os.environ, "MPTCPLAB_VECTORS": str(file)}
    # Runs the whole workspace, which is already built.
    command = ["cargo", "test", "--quiet", "--workspace", "--no-fail-fast", "--test", "vectors"]
    done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    counts = []
    for line in filter(None, done.stdout.splitlines()):
        if summary := SUMMARY.fullmatch(line):
            counts.append(tuple(map(int, summary.groups())))
        else:
            print(line)
    if len(counts) != CRATES:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode} and {len(counts)} summaries, not {CRATES}")
    return counts


def main() -> int:
    file = Path(os.environ.get("MPTCPLAB_VECTORS", ROOT / "tests" / "vectors.json")).resolve()
    counts = [*run_crates(file), (*run_python(file), 0)]
    passed, failed, pending = map(sum, zip(*counts, strict=True))
    print(f"vectors: {passed} passed, {failed} failed, {pending} pending")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
