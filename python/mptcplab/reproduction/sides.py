"""Compares single runs: a run with others of its back-end, and with their
twins in the simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mptcplab.backends import ON_KERNEL, SIMULATOR
from mptcplab.errors import MptcplabError
from mptcplab.reproduction.arms import Arm, chosen
from mptcplab.results import Bundle
from mptcplab.runner import Job, plan_chosen, plan_like

Json = dict[str, Any]


@dataclass(frozen=True)
class Side:
    """The runs of one arm and seed, by experiment, and the reason for each that is missing."""

    arm: Arm
    runs: Mapping[str, Bundle]
    why_not: Mapping[str, str]

    @classmethod
    def of(cls, bundle: Bundle, others: Mapping[str, Bundle], why_not: Mapping[str, str]) -> Side:
        """Makes the side of a run and of similar runs."""
        return cls(arm_of(bundle), {bundle.record["experiment"]: bundle, **others}, why_not)


def arm_of(bundle: Bundle) -> Arm:
    """Returns the arm of a run. Runs on a kernel, or with second choices, belong to the stack of
    today.
    """
    record = bundle.record
    is_todays = record["backend"] == ON_KERNEL or bool(record["substitutions"])
    return Arm("today" if is_todays else "then", record["backend"])


@dataclass(frozen=True)
class Twins:
    """The simulations to compare with a side, by experiment, and the reason for each that is not
    possible.
    """

    arm: Arm
    jobs: Mapping[str, Job]
    why_not: Mapping[str, str]

    @classmethod
    def of(cls, side: Side, experiments: Mapping[str, Json], *, seed: int, out: Path) -> Twins:
        """Makes the twins of resolved experiments: each as it ran on the side, or else as it would
        run in its arm.
        """
        arm = Arm(side.arm.name, SIMULATOR)
        jobs, why_not = {}, {}
        for name, experiment in experiments.items():
            try:
                ran = side.runs.get(name)
                jobs[name] = plan_like(ran, SIMULATOR, out=out) if ran else _plan(arm, experiment, seed, out)
            except MptcplabError as error:
                why_not[name] = str(error)
        return cls(arm, jobs, why_not)

    def side(self, bundles: Sequence[Bundle]) -> Side:
        """Returns the side of the bundles that the jobs produced."""
        made = dict(zip(self.jobs, bundles, strict=True))
        failed = {name: str(one.record["why"]) for name, one in made.items() if one.status != "done"}
        runs = {name: one for name, one in made.items() if name not in failed}
        return Side(self.arm, runs, {**self.why_not, **failed})


def _plan(arm: Arm, experiment: Json, seed: int, out: Path) -> Job:
    """Returns the job of an experiment in an arm. Raises MptcplabError if the experiment cannot run
    there.
    """
    found = chosen(arm, experiment)
    if found.choice is None:
        raise MptcplabError(found.why_not or "")
    (job,) = plan_chosen([(experiment, found.choice)], arm.backend, seed=seed, repeat=1, out=out)
    return job
