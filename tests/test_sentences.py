"""Tests the sentences of a page about sequences of failures against the samples
of simulated runs.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from mptcplab import load, run
from mptcplab.report.verdict import sentences
from mptcplab.results import Bundle, RunData

LINKS = 4
DURATION_S = 40.0
DESCRIPTION = """
name: storm
topology:
  parallel_links: {{n: {links}, between: [client, server], rate: 2mbit, delay: 10ms, queue: {queue}p}}
flows:
  bulk: {{from: client, to: server, transport: mptcp, scheduler: {scheduler}, app: {app}}}
events:
  - {{id: storm, at: {at}s, sequence: {{down: "eth[1-{failing}]", on: [client], every: {every}ms, then: {then}}}}}
duration: 40s
"""
TOLD = re.compile(r"storm from (\S+) s to (\S+) s: (.*)")


def storm(out: Path, seed: int) -> tuple[Bundle, RunData]:
    """Makes a run with successive failures, whose number and times depend on the seed."""
    chance = random.Random(seed)
    text = DESCRIPTION.format(
        links=LINKS,
        app="{cbr: {rate: 300kbit, size: 500}}" if seed % 4 == 0 else "bulk",
        scheduler="redundant" if seed % 4 == 0 else "min_rtt",
        queue=chance.choice([20, 100]),
        at=chance.randint(7, 12),
        failing=chance.randint(2, LINKS - 1),
        every=chance.randint(4, 30) * 100,
        then=chance.choice(["restore", "restore_in_reverse"]),
    )
    file = out / f"storm-{seed}.yaml"
    file.write_text(text)
    (bundle,) = run(*load(file), seed=seed, out=out)
    return bundle, bundle.load()


def carried_bytes(run: RunData, at_s: np.ndarray) -> np.ndarray:
    series = run.samples.series("flows.bulk", "bytes_in_order")
    assert series is not None
    return np.interp(at_s, series.times_s, series.values)


def capacity_bits(run: RunData, since_s: float, until_s: float) -> float:
    """Returns what the links can carry of the flow between two times, from the number of interfaces
    that are up.
    """
    changes = [(e["actual_ns"] / 1e9, -1 if down_of(run, e["id"]) else 1) for e in run.result["events"]]
    edges = [since_s, *(at for at, _ in changes if since_s < at < until_s), until_s]
    up = [LINKS + sum(change for at, change in changes if at <= edge) for edge in edges[:-1]]
    seconds = np.diff(edges)
    return float(run.flows["bulk"]["ceiling_bps"] * (np.array(up) * seconds).sum() / LINKS)


def down_of(run: RunData, event: str) -> bool:
    kinds = {e["id"]: e["action"]["kind"] for e in run.resolved["events"]}
    return bool(kinds[event] == "interface_down")


@pytest.mark.parametrize("seed", range(1, 9))
def test_what_is_said_of_a_sequence_is_true_of_the_whole_of_it(tmp_path: Path, seed: int) -> None:
    bundle, run_data = storm(tmp_path, seed)
    (said,) = (s for s in sentences(bundle.record, run_data) if s.startswith("storm"))
    times = [event["actual_ns"] / 1e9 for event in run_data.result["events"]]
    first, last = min(times), max(times)
    before = 8 * float(np.diff(carried_bytes(run_data, np.array([first - 5, first])))[0]) / 5
    before = min(before, capacity_bits(run_data, first - 5, first) / 5)
    edges = np.arange(first, last + 1e-9, 1.0)
    rates = 8 * np.diff(carried_bytes(run_data, edges))
    targets = [min(before, capacity_bits(run_data, edge, edge + 1)) for edge in edges[:-1]]
    short = int(np.count_nonzero(rates < 0.9 * np.array(targets)))

    told = TOLD.match(said)
    assert told is not None, said
    assert [float(told[1]), float(told[2])] == pytest.approx([first, last], rel=5e-3)
    less = re.search(r"it had less in (\d+) s of", told[3])
    assert (int(less[1]) if less else 0) == short, said
    if "every flow kept" in told[3]:
        assert short == 0
        assert np.all(rates >= 0.9 * np.array(targets))
    else:
        recovery_holds(run_data, bundle, before)


def recovery_holds(run: RunData, bundle: Bundle, before: float) -> None:
    """Checks that after the stated time from the last change, the flow has nine tenths of its rate
    for a second.
    """
    recovery = bundle.record["metrics"]["events.storm"]["recovery_s"]
    last = max(event["actual_ns"] / 1e9 for event in run.result["events"])
    of_last = bundle.record["metrics"][f"events.{run.result['events'][-1]['id']}"]["recovery_s"]
    assert recovery is None or of_last <= recovery
    start = last + of_last
    rate = 8 * float(np.diff(carried_bytes(run, np.array([start, start + 1])))[0])
    assert rate >= 0.9 * min(before, capacity_bits(run, start, start + 1)) * (1 - 1e-6)


def test_storms_are_of_both_kinds(tmp_path: Path) -> None:
    """Some flows lose nothing and some lose much, so the test above covers both sentences."""
    shortfalls = [storm(tmp_path, seed)[0].record["metrics"]["events.storm"]["shortfall_s"] for seed in range(1, 9)]
    assert min(shortfalls) == 0
    assert max(shortfalls) > 2
