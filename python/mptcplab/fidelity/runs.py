"""Runs cases in the simulator or on this kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from mptcplab.backends import ON_KERNEL, SIMULATOR
from mptcplab.errors import RunFailed
from mptcplab.fidelity.cases import Case
from mptcplab.fidelity.measures import measures_of
from mptcplab.fidelity.recorded import Measures, Recorded
from mptcplab.results import Bundle
from mptcplab.runner import Nobody, execute, plan

#: Number of cases at a time in real time. Runs wait most of the time, and detect whether they were
#: disturbed.
AT_ONCE = 6
#: Number of repetitions of runs that a busy machine disturbed.
TRIES = 5

BySeed = dict[int, Measures]


@dataclass(frozen=True)
class Wanted:
    """Cases, the number of seeds (from 1), and the directory of bundles."""

    cases: Sequence[Case]
    seeds: int
    out: Path


def simulated(wanted: Wanted) -> dict[str, BySeed]:
    """Returns the measures of simulated runs by case and seed."""
    return _measures(_run(wanted.cases, SIMULATOR, wanted, fresh=True))


def on_this_kernel(wanted: Wanted, *, jobs: int = AT_ONCE) -> Recorded:
    """Returns the measures of runs on the kernel of this machine. Raises RunFailed if some are
    disturbed every time.
    """
    light = [case for case in wanted.cases if not case.is_heavy]
    heavy = [case for case in wanted.cases if case.is_heavy]
    bundles: list[Bundle] = []
    for cases, workers in ((light, jobs), (heavy, 1)):
        made: list[Bundle] = []
        for number in range(TRIES):
            # After the first attempt only disturbed runs are repeated, with fewer at a time.
            made = _run(cases, ON_KERNEL, wanted, fresh=number == 0, workers=max(1, workers >> number))
            if not _disturbed(made):
                break
        bundles += _undisturbed(made)
    descriptions = {case.name: case.description_sha256 for case in wanted.cases}
    return Recorded(bundles[0].record["kernel"], _today(), _measures(bundles), descriptions)


def _run(
    cases: Sequence[Case], backend: str, wanted: Wanted, *, fresh: bool, workers: int | None = None
) -> list[Bundle]:
    experiments = [case.experiment for case in cases]
    jobs = plan(experiments, backend, seed=1, repeat=wanted.seeds, out=wanted.out, fresh=fresh) if cases else []
    return execute(jobs, Nobody(), workers=workers)


def _disturbed(bundles: Iterable[Bundle]) -> list[Bundle]:
    return [bundle for bundle in bundles if bundle.status != "done"]


def _undisturbed(bundles: list[Bundle]) -> list[Bundle]:
    disturbed = _disturbed(bundles)
    if disturbed:
        names = ", ".join(f"{one.record['experiment']} seed {one.record['seed']}" for one in disturbed)
        raise RunFailed(f"{names}: disturbed {TRIES} times; the last says: {disturbed[-1].record['why']}")
    return bundles


def _measures(bundles: Iterable[Bundle]) -> dict[str, BySeed]:
    found: dict[str, BySeed] = {}
    for bundle in bundles:
        if bundle.status != "done":
            raise RunFailed(f"{bundle.path}: {bundle.status} ({bundle.record['why']})")
        found.setdefault(bundle.record["experiment"], {})[bundle.record["seed"]] = measures_of(bundle)
    return found


def _today() -> str:
    return datetime.now(UTC).date().isoformat()
