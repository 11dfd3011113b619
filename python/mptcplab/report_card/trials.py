"""The trials of congestion controls by the goals of a report card, as experiments to run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mptcplab import algorithms, benchmark
from mptcplab.backends import backend
from mptcplab.errors import UsageError
from mptcplab.experiment import resolve
from mptcplab.report_card.goals import GOALS, Goal
from mptcplab.report_card.worlds import PATHS, Cell, Connection

Json = dict[str, Any]


@dataclass(frozen=True)
class Trial:
    """A cell of a goal with a control: the resolved experiments, that of the control first."""

    goal: Goal
    cell: Cell
    control: str
    experiments: Mapping[str, Json]


@dataclass(frozen=True)
class Examination:
    """All trials of some controls on a back-end."""

    controls: tuple[str, ...]
    goals: tuple[Goal, ...]
    trials: tuple[Trial, ...]
    on: str

    def by_backend(self) -> dict[str, list[Json]]:
        """Returns the experiments of each back-end. A program runs only its own controls."""
        found: dict[str, list[Json]] = {}
        for trial in self.trials:
            for role, experiment in trial.experiments.items():
                is_own = role == "own" and algorithms.is_in_crate(trial.control)
                found.setdefault("sim" if "/" in self.on and not is_own else self.on, []).append(experiment)
        return found


def examination(
    controls: Sequence[str], on: str = "sim", goal: str | None = None, *, full: bool = False
) -> Examination:
    """Returns the trials of controls by all goals, or by one.

    In real time, only the rivals change, because all cells would take an hour. Raises UsageError
    for an unknown control or goal.
    """
    names = _controls(controls, on)
    goals = [one for one in GOALS if goal in (None, one.name)]
    if not goals:
        raise UsageError(f"--goal {goal}: unknown; allowed: {', '.join(one.name for one in GOALS)}")
    column = backend(on).in_real_time and not full
    trials = [
        Trial(one, cell, name, _experiments(one, cell, name))
        for one in goals
        for cell in one.cells(full=full, column=column)
        for name in names
    ]
    return Examination(names, tuple(goals), tuple(trials), on)


def _experiments(goal: Goal, cell: Cell, control: str) -> dict[str, Json]:
    connections = {"own": Connection(control, PATHS)} | {path: Connection(None, (path,)) for path in goal.references}
    return {role: resolve(goal.world(cell, one)).data for role, one in connections.items()}


def _controls(names: Sequence[str], on: str) -> tuple[str, ...]:
    """Returns the controls by their names in the engine. Raises UsageError."""
    if not names:
        raise UsageError(
            f"no congestion control is named; allowed: ./FILE.py:CLASS, or {', '.join(algorithms.CC.names)}"
        )
    if "/" in on or any(algorithms.is_in_crate(name) for name in names):
        benchmark.check_program(on, names)
    return tuple(dict.fromkeys(_control(name) for name in names))


def _control(name: str) -> str:
    found = name if algorithms.is_users(name) else algorithms.CC.find(name)
    if found is None:
        raise UsageError(algorithms.unknown(algorithms.CC.kind, name, algorithms.CC.names))
    return found
