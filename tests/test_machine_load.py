"""Tests the signs of a busy machine in a run, their sentence, and that such a
run decides no claim.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mptcplab.report.verdict import busy
from mptcplab.reproduction.claims import Comparison
from mptcplab.reproduction.observation import Observation
from mptcplab.reproduction.outcome import _values
from mptcplab.results import CpuTimes, why_busy

Json = dict[str, Any]
RESOLVED: Json = {"vary": {"start_ns": 10_000_000}, "flows": [{"id": "bulk", "start_ns": 1_000_000_000}]}


def record(late_s: float = 0.0003, standstill_s: float = 0.005, start_s: float = 1.005, stolen: float = 0.0) -> Json:
    return {
        "machine": {"load": {"used": 0.9, "stolen": stolen}},
        "result": {
            "links": [{"id": "wifi", "late": {"mean_s": 0.0001, "p99_s": late_s, "max_s": 0.01, "deliveries": 99}}],
            "longest_standstill_s": standstill_s,
            "flows": [{"id": "bulk", "start_ns": int(1e9 * start_s)}],
            "hosts": [{"id": "server", "counters": {}}],
        },
    }


def test_a_run_on_time_was_on_no_busy_machine() -> None:
    assert why_busy(record(), RESOLVED) is None
    assert busy(record(), RESOLVED) == []
    simulated = {"machine": {}, "result": {"links": [{"id": "wifi"}], "flows": [{"id": "bulk", "start_ns": 0}]}}
    assert why_busy(simulated, RESOLVED) is None
    assert why_busy({"machine": {}, "result": None}, RESOLVED) is None


@pytest.mark.parametrize(
    ("sign", "words"),
    [
        ({"late_s": 0.002}, "1 packet in 100 came more than 2.0 ms late"),
        ({"standstill_s": 0.08}, "the emulator stood still for 80 ms"),
        ({"start_s": 1.16}, "a flow started 150 ms late"),
        ({"stolen": 0.12}, "12 % of its time went to other machines"),
    ],
)
def test_each_sign_of_a_busy_machine_is_told(sign: dict[str, float], words: str) -> None:
    assert why_busy(record(**sign), RESOLVED) == f"the machine was busy: {words}"
    [sentence] = busy(record(**sign), RESOLVED)
    assert sentence == f"The machine was busy: {words}. The load of the machine may have influenced the results."


def test_what_the_kernel_drops_by_its_own_fault_is_told() -> None:
    faulty = record()
    faulty["result"]["hosts"][0]["counters"]["MPTcpExtNoDSSInWindow"] = 21
    [sentence] = busy(faulty, RESOLVED)
    assert "dropped 21 segments" in sentence


def test_a_run_on_a_busy_machine_says_nothing_of_a_claim() -> None:
    metrics: dict[str, dict[str, float | None]] = {"flows.bulk": {"goodput_bps": 5e6}}
    comparison = Comparison(of="flows.bulk.goodput_bps @ fig5/mptcp", holds="6e6..8e6")
    nothing: Any = None
    runs = {
        1: Observation(1, "one", metrics, {}, nothing, busy="the machine was busy: it slept"),
        2: Observation(2, "two", metrics, {}, nothing),
    }
    assert _values(comparison.above, runs) == ({2: 5e6}, "the machine was busy: it slept")


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="the system does not tell its load")
def test_the_load_of_the_machine_is_in_parts_of_its_time() -> None:
    before = CpuTimes.now()
    assert before is not None
    later = CpuTimes(before.total + 1000, before.idle + 250, before.stolen + 100)
    assert before.until(later) == {"used": pytest.approx(0.65), "stolen": pytest.approx(0.1)}
