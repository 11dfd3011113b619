"""Tests how runs in real time share a rate."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from mptcplab.experiment import members
from mptcplab.shared_rate import SharedRate, rate_bps

TOTAL_BPS = 100


def test_parts_never_exceed_the_total_unless_one_alone_does() -> None:
    shared, taken = SharedRate(TOTAL_BPS), []
    draw = random.Random(1)

    def take(part_bps: int) -> list[int]:
        with shared.taken(part_bps):
            taken.append(part_bps)
            seen = list(taken)
            time.sleep(0.001)
            taken.remove(part_bps)
        return seen

    with ThreadPoolExecutor(8) as pool:
        seen = list(pool.map(take, [draw.randint(1, 150) for _ in range(200)]))
    assert all(sum(parts) <= TOTAL_BPS or len(parts) == 1 for parts in seen)
    assert any(len(parts) > 1 for parts in seen)


@pytest.mark.parametrize(
    ("example", "expected_mbps"),
    [
        # The flows of the first have more capacity along their paths than all links together.
        ("two-paths-mptcp", 30),
        ("failing-link", 8.512),
    ],
)
def test_an_experiment_has_at_most_the_rate_of_its_links_and_of_its_flows(example: str, expected_mbps: float) -> None:
    [member] = members(f"examples/{example}.yaml")
    assert rate_bps(member.resolve().data) / 1e6 == pytest.approx(expected_mbps, rel=1e-3)
