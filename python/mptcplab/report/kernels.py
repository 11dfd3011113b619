"""Tables that compare kernels: the counters in which they differ, and what changed upstream between
them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import comb
from pathlib import Path
from statistics import median

from mptcplab.report.grid import Grid
from mptcplab.report.linux_versions import Version, Versions, names, ranges, version_of
from mptcplab.report.quantities import MISSING
from mptcplab.results import Bundle
from mptcplab.results.entities import Json
from mptcplab.results.host_counters import is_lacking_in

CHANGES = Path(__file__).with_name("kernel_changes.toml")
#: Counters that tell kernels apart: those of Multipath TCP and of TCP (nstat(8)).
OF_TRANSPORT = re.compile(r"(MPTcpExt|TcpExt|Tcp)")
MOST_ROWS = 40
#: Whether a kernel has a change, in the table of changes.
HAS = {True: "yes", False: "no", None: "not known"}


@dataclass(frozen=True)
class Change:
    """A change upstream, the versions that lack it, and those of which it is not known."""

    since: str
    title: str
    effect: str
    commits: str
    before: tuple[Versions, ...]
    unknown: tuple[Versions, ...]

    def is_in(self, version: Version) -> bool | None:
        """Returns whether a version has the change; None if it is not known."""
        return None if names(version, self.unknown) else not names(version, self.before)


def kernels_of(bundles: Sequence[Bundle]) -> dict[str, list[Bundle]]:
    """Returns the runs on a kernel by the release of the kernel, in the order of versions."""
    found: dict[str, list[Bundle]] = {}
    for bundle in bundles:
        release = release_of(bundle.record)
        if release is not None and any(host.get("counters") for host in _hosts(bundle)):
            found.setdefault(release, []).append(bundle)
    return dict(sorted(found.items(), key=lambda item: (version_in(item[1][0].record) or (0, 0, 0), item[0])))


def counters_grid(bundles: Sequence[Bundle]) -> Grid | None:
    """Returns the counters whose ranges over the runs of two kernels do not meet, as medians of all
    hosts together. A counter that a kernel lacks is a dash. The largest differences come first. None
    for runs on fewer than two kernels.
    """
    kernels = kernels_of(bundles)
    if len(kernels) < 2:
        return None
    found = {release: [_counters(bundle) for bundle in runs] for release, runs in kernels.items()}
    rows: list[tuple[float, list[str]]] = []
    for name in _varying(found):
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


def chance(bundles: Sequence[Bundle]) -> str | None:
    """Returns how many counters `counters_grid` would list if the kernels did not differ. None for
    runs on fewer than two kernels.

    Of n and m runs alike, all of one kernel are above all of the other in 2 of the (n + m over n)
    orders. Equal values make it rarer, and several pairs of kernels add up at most, so it is an
    upper limit.
    """
    kernels = kernels_of(bundles)
    if len(kernels) < 2:
        return None
    counts = [len(runs) for runs in kernels.values()]
    probability = min(1.0, sum(2 / comb(n + m, n) for n, m in combinations(counts, 2)))
    varying = len(_varying({release: [_counters(one) for one in runs] for release, runs in kernels.items()}))
    return (
        f"If the kernels did not differ, up to {varying * probability:.3g} counters would differ by chance: "
        f"{varying} vary between the runs, each with a probability of at most {probability:.2g}."
    )


def _varying(found: dict[str, list[dict[str, int]]]) -> list[str]:
    """Returns the counters that are not the same in all runs."""
    runs = [run for of_kernel in found.values() for run in of_kernel]
    every = sorted({name for run in runs for name in run if OF_TRANSPORT.match(name)})
    return [name for name in every if len({run.get(name, 0) for run in runs}) > 1]


def changes_grid(bundles: Sequence[Bundle]) -> Grid | None:
    """Returns the changes upstream that some kernels have and others lack, or that may be so. None
    for runs on fewer than two versions.
    """
    kernels = kernels_of(bundles)
    versions = {release: found for release, runs in kernels.items() if (found := version_in(runs[0].record))}
    if len(set(versions.values())) < 2:
        return None
    rows = [
        [change.since, change.title, *(HAS[has] for has in present), change.effect, change.commits]
        for change in _changes()
        if len(set(present := [change.is_in(version) for version in versions.values()])) > 1 or None in present
    ]
    heads = ["since", "change", *(f"in {release}" for release in versions), "what it concerns", "commits"]
    return Grid(heads, rows)


@cache
def _changes() -> list[Change]:
    return [_change(row) for row in tomllib.loads(CHANGES.read_text(encoding="utf-8"))["change"]]


def _change(row: Json) -> Change:
    before, unknown = ranges(row["before"]), ranges(row["unknown"]) if "unknown" in row else ()
    if before is None or unknown is None:
        raise ValueError(f"{CHANGES.name}: {row['title']}: before or unknown is not a list of ranges")
    since = f"Linux {row['since'] if 'since' in row else row['before']}"
    return Change(since, row["title"], row["effect"], ", ".join(row["commits"]) or MISSING, before, unknown)


def version_in(record: Json) -> Version | None:
    """Returns the version of the kernel that a run used, or None if it was not on a kernel."""
    return version_of(str(record["kernel"]).partition(" ")[2]) if release_of(record) else None


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
