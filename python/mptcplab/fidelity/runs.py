"""Runs cases in the simulator or on a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from mptcplab.backends import ON_KERNEL, SIMULATOR
from mptcplab.behaviours import DEFAULT, presets
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


def with_behaviour(wanted: Wanted, preset: str) -> Wanted:
    """Returns the cases with another preset of behaviour in place of the default one, on all hosts."""
    return replace(wanted, cases=[_behaving(case, preset) for case in wanted.cases])


def _behaving(case: Case, preset: str) -> Case:
    usual = presets()[DEFAULT]
    hosts = []
    for host in case.experiment["hosts"]:
        given = {name: value for name, value in host["behaviour"][0].items() if value != usual[name]}
        hosts.append(host | {"behaviour": [presets()[preset] | given]})
    return replace(case, experiment=case.experiment | {"hosts": hosts})


def on_kernel(wanted: Wanted, place: str = ON_KERNEL, *, jobs: int = AT_ONCE) -> Recorded:
    """Returns the measures of runs on a kernel: that of this machine, or one of ``--on``. A guest
    makes one run at a time, and those that it made before are not repeated. Raises RunFailed if
    some are disturbed every time.
    """
    is_here = place == ON_KERNEL
    light = [case for case in wanted.cases if not case.is_heavy]
    heavy = [case for case in wanted.cases if case.is_heavy]
    bundles: list[Bundle] = []
    for cases, workers in ((light, jobs if is_here else 1), (heavy, 1)):
        made: list[Bundle] = []
        for number in range(TRIES):
            # After the first attempt only disturbed runs are repeated, with fewer at a time.
            fresh = is_here and number == 0
            made = _run(cases, place, wanted, fresh=fresh, workers=max(1, workers >> number))
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
