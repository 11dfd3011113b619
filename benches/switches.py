"""Networks under control: paths, switches, outages and recoveries."""

from __future__ import annotations

import os
import random
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import port_down
from figures import ROOT, RUNS, Figure


def switches() -> dict[str, Figure]:
    """Controlled switches: set-up until all paths are verified, two disjoint paths, and outages
    by rules.
    """
    if os.geteuid() != 0 or shutil.which("ovs-vswitchd") is None:
        print("sdn: left out, as it needs root and Open vSwitch")
        return {}
    command = ["cargo", "bench", "--quiet", "-p", "realtime", "--bench", "switches"]
    printed = subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.PIPE, text=True).stdout
    found = dict(re.findall(r"^(sdn-\S+) ([\d.]+)$", printed, re.MULTILINE))
    limited: dict[str, Figure] = {
        name: {
            "value": float(found[name]),
            "unit": unit,
            "limit": limit,
            "peer": "the limit we set",
            "peer_value": limit,
        }
        for name, (unit, limit) in SWITCHES_LIMITS.items()
    }
    beside: dict[str, Figure] = {name: {"value": float(found[name]), "unit": unit} for name, unit in BESIDE.items()}
    return limited | beside


SWITCHES_LIMITS = {
    "sdn-setup-mesh5-verified": ("s", 1.5),
    "sdn-setup-100-verified": ("s", 5.0),
    "sdn-outage-50ms-probe-p95": ("ms", 2.0),
    "sdn-outage-100ms-probe-p95": ("ms", 2.0),
    "sdn-outage-1000ms-probe-p95": ("ms", 7.0),
}

# The limits count outages during which the machine paused none of its processors. These are the
# number of the others, and the accuracy with them.
BESIDE = {
    f"sdn-outage-{milliseconds}ms-{what}": unit
    for milliseconds in (50, 100, 1000)
    for what, unit in (("paused", "outages"), ("probe-all-p95", "ms"))
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
