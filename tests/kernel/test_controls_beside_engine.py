"""Compares the kernel's controls with the engine's in each cell of
docs/results/kernel-controls-beside-engine.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from mptcplab.experiment import members
from mptcplab.results import Bundle
from mptcplab.results.agreement import agreement
from mptcplab.runner import Nobody, execute, plan

pytestmark = [pytest.mark.kernel, pytest.mark.soak]

HERE = Path(__file__).parent
REPETITIONS = 10
#: The number of runs in real time that a machine with two cores can run at once.
AT_ONCE = 4
#: The allowed relative difference of means, and the allowed difference of the connection's share of
#: a shared link.
BAND, POINTS = 0.15, 0.10
#: Cells, or their controls, with larger differences. The page has the reasons.
DIFFERENT = (
    "disjoint/50ms-1bdp/wvegas",
    "80ms/wvegas",
    "lossy/wvegas",
    "80ms/olia",
    "200ms-fq/",
    "cubic-200ms-half-bdp",
)


def cells(file: str) -> list[Any]:
    found = members(HERE / file)
    differs = pytest.mark.xfail(reason="see the page", strict=False)
    return [
        pytest.param(
            member,
            id=member.name.removeprefix("kernel-controls/"),
            marks=differs if any(word in member.name for word in DIFFERENT) else (),
        )
        for member in found
    ]


def runs(member: Any, on: str, out: Path) -> list[Bundle]:
    jobs = plan([member.resolve().data], on, seed=1, repeat=REPETITIONS, out=out)
    done = [bundle for bundle in execute(jobs, Nobody(), workers=AT_ONCE) if bundle.status == "done"]
    assert len(done) >= REPETITIONS / 2
    return done


def share(bundles: Sequence[Bundle]) -> float:
    """Returns the connection's share of all goodput, as the mean over runs."""
    metrics = [bundle.record["metrics"] for bundle in bundles]
    return fmean(of["flows.tested"]["goodput_bps"] / of["run"]["goodput_bps"] for of in metrics)


@pytest.mark.parametrize("member", cells("controls-disjoint.yaml"))
def test_windows_and_goodput_are_the_engines(member: Any, tmp_path: Path) -> None:
    found = agreement([*runs(member, "sim", tmp_path), *runs(member, "kernel", tmp_path)], BAND)
    assert found is not None
    ratios = {
        (entry["metric"], entry.get("link")): round(entry["ratio"], 3)
        for entry in found["metrics"]
        if entry["metric"] in ("goodput_bps", "cwnd_bytes")
    }
    assert set(ratios) == {("goodput_bps", None), ("cwnd_bytes", "one"), ("cwnd_bytes", "two")}
    assert {what: ratio for what, ratio in ratios.items() if abs(ratio - 1) > BAND} == {}


@pytest.mark.parametrize("member", cells("controls-shared.yaml"))
def test_the_share_beside_tcp_is_the_engines(member: Any, tmp_path: Path) -> None:
    assert share(runs(member, "kernel", tmp_path)) == pytest.approx(share(runs(member, "sim", tmp_path)), abs=POINTS)
