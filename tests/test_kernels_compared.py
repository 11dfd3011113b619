"""Tests the tables that compare kernels: counters that differ, and upstream
changes between them.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mptcplab.errors import UsageError
from mptcplab.report.comparison import arms_of
from mptcplab.report.kernels import chance, changes_grid, counters_grid
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


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        # Two of the three counters vary; 2 / (4 over 2) and 2 / (6 over 3).
        (2, 2, "up to 0.667 counters would differ by chance: 2 vary between the runs, each with a probability"),
        (3, 3, "up to 0.2 counters would differ by chance: 2 vary"),
        (1, 1, "up to 2 counters would differ by chance: 2 vary"),
    ],
)
def test_the_page_says_how_many_counters_differ_by_chance(old: int, new: int, words: str) -> None:
    runs = [run_on("6.12.117", n, joins=n) for n in range(old)] + [run_on("7.3.4", 9, joins=9) for _ in range(new)]
    for run in runs:
        run.record["result"]["hosts"][0]["counters"]["TcpInSegs"] = 5
    assert words in str(chance(runs))


def test_runs_of_one_experiment_on_two_kernels_are_two_arms() -> None:
    common = {"experiment": "shares", "digest": "0" * 8, "status": "done", "substitutions": [], "started": ""}
    found = [run_on(release, 0) for release in ("6.12.117", "7.3.4", "7.3.4")]
    bundles = [Bundle(Path(str(number)), one.record | common) for number, one in enumerate(found)]
    for bundle in bundles:
        bundle.asked = {"origins": {}}
    arms = arms_of(bundles)
    assert {name: len(runs) for name, runs in arms.items()} == {"kernel (Linux 6.12.117)": 1, "kernel (Linux 7.3.4)": 2}
    with pytest.raises(UsageError, match="found 2 of one"):
        arms_of(bundles[1:])


def test_one_kernel_is_not_compared() -> None:
    runs = [
        run_on("6.18.44", 1),
        run_on("6.18.44", 5, backend="kernel@lab2-6.18.44"),
        run_on("7.3.4", 9, backend="sim"),
    ]
    assert counters_grid(runs) is None
    assert changes_grid(runs) is None
    assert chance(runs) is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("6.18.15", "6.18.44", {"da23be77e129": ("no", "yes"), "issue 612": ("no", "yes")}),
        ("6.12.90", "6.12.117", {"da23be77e129": ("no", "yes"), "issue 612": ("not known", "yes")}),
        ("6.12.117", "6.18.15", {"da23be77e129": ("yes", "no"), "issue 612": ("yes", "no"), "laminar": ("no", "yes")}),
        ("6.1.0-50", "6.12.117", {"SYNs with MP_CAPABLE, ": ("no", "yes")}),
        ("6.12.117", "6.16.12", {"syn_retrans_before_tcp_fallback": ("no", "yes"), "path_manager": ("no", "yes")}),
        ("6.18.44", "7.3.4", {"c8646664fbf1": ("no", "yes"), "at least 255 endpoints": ("no", "yes")}),
    ],
)
def test_changes_are_told_of_each_kernel(old: str, new: str, told: dict[str, tuple[str, str]]) -> None:
    grid = changes_grid([run_on(new, 0), run_on(old, 0)])
    assert grid is not None
    assert grid.heads[2:4] == [f"in {old}", f"in {new}"]
    for words, cells in told.items():
        assert cells in {tuple(row[2:4]) for row in grid.rows if words in " ".join(row)}, words


def test_changes_are_those_in_which_kernels_differ() -> None:
    def since(*releases: str) -> list[str]:
        grid = changes_grid([run_on(release, 0) for release in releases])
        assert grid is not None
        return list(dict.fromkeys(row[0] for row in grid.rows if re.fullmatch(r"Linux \d\.\d+", row[0])))

    assert since("6.18.15", "6.12.117") == ["Linux 6.18"]
    assert since("7.2.12", "7.3.4") == ["Linux 7.3"]
    assert since("6.12.117", "7.3.4") == ["Linux 6.18", "Linux 7.2", "Linux 7.3"]
    assert since("6.18.15", "6.18.44") == []
