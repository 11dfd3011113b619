"""Tests the tables that compare kernels: counters that differ, and upstream
changes between them.
"""

from __future__ import annotations

from pathlib import Path

from mptcplab.report.kernels import changes_grid, counters_grid
from mptcplab.results import Bundle


def run_on(release: str, drops: int, joins: int = 2, backend: str = "kernel") -> Bundle:
    counters = [{"MPTcpExtNoDSSInWindow": drops, "MPTcpExtMPJoinAckRx": joins}, {"IpExtInOctets": drops}]
    hosts = [{"id": str(number), "counters": found} for number, found in enumerate(counters)]
    return Bundle(Path(), {"backend": backend, "kernel": f"Linux {release} #1 SMP", "result": {"hosts": hosts}})


def test_counters_whose_ranges_do_not_meet_are_listed() -> None:
    old = [run_on("6.12.117+deb13-cloud-amd64", drops, joins=drops) for drops in (40, 50, 60)]
    new = [run_on("7.3.4", drops, joins=60 - drops, backend="kernel@qemu-7.3.4") for drops in (0, 0, 20)]
    grid = counters_grid([*new, *old])
    assert grid is not None
    assert grid.heads == ["counter", "Linux 6.12.117+deb13-cloud-amd64 (n = 3)", "Linux 7.3.4 (n = 3)"]
    # Those of IP say what was sent, and joins overlap.
    assert grid.rows == [["MPTcpExtNoDSSInWindow", "50", "0"]]


def test_a_counter_that_a_kernel_lacks_is_a_dash() -> None:
    old, new = run_on("6.1.0-50", 0), run_on("7.3.4", 0)
    new.record["result"]["hosts"][0]["counters"]["MPTcpExtBlackhole"] = 3
    grid = counters_grid([old, new])
    assert grid is not None
    assert grid.rows == [["MPTcpExtBlackhole", "\N{EN DASH}", "3"]]


def test_one_kernel_is_not_compared() -> None:
    runs = [
        run_on("6.18.44", 1),
        run_on("6.18.44", 5, backend="kernel@lab2-6.18.44"),
        run_on("7.3.4", 9, backend="sim"),
    ]
    assert counters_grid(runs) is None
    assert changes_grid(runs) is None


def test_changes_are_those_between_the_oldest_and_the_newest() -> None:
    def since(*releases: str) -> list[str]:
        grid = changes_grid([run_on(release, 0) for release in releases])
        assert grid is not None
        return sorted({row[0] for row in grid.rows if row[0].startswith("Linux")})

    assert since("6.18.15", "6.12.117") == ["Linux 6.18"]
    assert since("7.2.12", "7.3.4") == ["Linux 7.3"]
    assert since("6.12.117", "7.3.4") == ["Linux 6.18", "Linux 7.2", "Linux 7.3"]
    grid = changes_grid([run_on("6.18.44", 0), run_on("7.3.4", 0)])
    assert grid is not None
    assert any("c8646664fbf1" in row[-1] for row in grid.rows)
    assert any("da23be77e129" in row[-1] for row in grid.rows)
