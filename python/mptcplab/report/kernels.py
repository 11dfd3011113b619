"""Tables that compare kernels: the counters in which they differ, and what changed upstream between
them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median

from mptcplab.report.grid import Grid
from mptcplab.report.quantities import MISSING
from mptcplab.results import Bundle
from mptcplab.results.entities import Json
from mptcplab.results.host_counters import is_lacking_in

CHANGES = Path(__file__).with_name("kernel_changes.toml")
#: Counters that tell kernels apart: those of Multipath TCP and of TCP (nstat(8)).
OF_TRANSPORT = re.compile(r"(MPTcpExt|TcpExt|Tcp)")
MOST_ROWS = 40

Version = tuple[int, int]


def kernels_of(bundles: Sequence[Bundle]) -> dict[str, list[Bundle]]:
    """Returns the runs on a kernel by the release of the kernel, in the order of versions."""
    found: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        release = release_of(bundle.record)
        if release is not None and any(host.get("counters") for host in _hosts(bundle)):
            found.setdefault(release, []).append(bundle)
    return dict(sorted(found.items(), key=lambda item: (version_of(item[0]) or (0, 0), item[0])))


def version_of(release: str) -> Version | None:
    """Returns (6, 12) of 6.12.117+deb13-cloud-amd64."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return (int(found[1]), int(found[2])) if found else None


def counters_grid(bundles: Sequence[Bundle]) -> Grid | None:
    """Returns the counters whose ranges over the runs of two kernels do not meet, as medians of all
    hosts together. A counter that a kernel lacks is a dash. The largest differences come first. None
    for runs on fewer than two kernels.
    """
    kernels = kernels_of(bundles)
    if len(kernels) < 2:
        return None
    found = {release: [_counters(bundle) for bundle in runs] for release, runs in kernels.items()}
    names = sorted({name for runs in found.values() for run in runs for name in run if OF_TRANSPORT.match(name)})
    rows: list[tuple[float, list[str]]] = []
    for name in names:
        values = [[run.get(name, 0) for run in runs] for runs in found.values()]
        if max(map(min, values)) > min(map(max, values)):
            medians = [median(of_kernel) for of_kernel in values]
            distance = (max(medians) + 1) / (min(medians) + 1)
            lacking = [all(is_lacking_in(run, name) for run in runs) for runs in found.values()]
            cells = [MISSING if lacks else f"{value:g}" for lacks, value in zip(lacking, medians, strict=True)]
            rows.append((distance, [name, *cells]))
    rows.sort(key=lambda row: (-row[0], row[1][0]))
    heads = ["counter", *(f"Linux {release} (n = {len(runs)})" for release, runs in kernels.items())]
    return Grid(heads, [row for _, row in rows[:MOST_ROWS]], frozenset(range(1, len(heads))))


def changes_grid(bundles: Sequence[Bundle]) -> Grid | None:
    """Returns what changed upstream between the oldest and the newest kernel of some runs. None for
    fewer than two.
    """
    versions = [version for release in kernels_of(bundles) if (version := version_of(release))]
    if len(set(versions)) < 2:
        return None
    rows = [
        [
            f"Linux {change['since']}" if "since" in change else f"not checked; also in {change['also']}",
            change["title"],
            change["effect"],
            ", ".join(change["commits"]) or MISSING,
        ]
        for change in _changes()
        if "since" not in change or min(versions) < (version_of(change["since"]) or (0, 0)) <= max(versions)
    ]
    return Grid(["since", "change", "what it concerns", "commits"], rows)


@cache
def _changes() -> list[Json]:
    found: list[Json] = tomllib.loads(CHANGES.read_text(encoding="utf-8"))["change"]
    return found


def release_of(record: Json) -> str | None:
    """Returns the release of the kernel that a run used, or None if it was not on a kernel."""
    if record["backend"].partition("@")[0] not in ("kernel", "userspace"):
        return None
    words = str(record["kernel"]).split()
    return words[1] if len(words) > 1 else None


def _hosts(bundle: Bundle) -> list[Json]:
    hosts: list[Json] = (bundle.record["result"] or {}).get("hosts", [])
    return hosts


def _counters(bundle: Bundle) -> dict[str, int]:
    """Returns the sums of counters over the hosts of a run."""
    total: dict[str, int] = {}
    for host in _hosts(bundle):
        for name, value in (host.get("counters") or {}).items():
            total[name] = total.get(name, 0) + value
    return total
