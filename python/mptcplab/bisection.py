"""A step of a bisection: judges a kernel, or any other back-end, by runs paired with those of a
good one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Literal

from mptcplab import metrics
from mptcplab.backends import backend
from mptcplab.errors import MachineError, RunFailed, Unsupported, UsageError
from mptcplab.remote.agent_file import agent_file
from mptcplab.remote.guest import Guests
from mptcplab.remote.place import place_of
from mptcplab.results import Absent, Bundle, Evaluation, digest
from mptcplab.runner import Nobody, execute, plan_like

if TYPE_CHECKING:
    from mptcplab.results.entities import Json

#: A run that is invalid or failed is repeated, up to this number of runs.
ATTEMPTS = 3
FEWEST_PAIRS = 2

Verdict = Literal["good", "bad", "undecided"]
Interval = tuple[float, float]


def require_place(on: str) -> None:
    """Raises MachineError if `on` is a place that no commit could be judged at: there is no agent,
    no tool for guests, no such series, or the machine cannot be reached.
    """
    place = place_of(on)
    if place is None:
        return
    agent_file()
    if isinstance(place.way, Guests):
        place.way.prepare(image=False)
    else:
        place.way.open(f"serve {place.stack}").close()


class CannotJudge(Exception):
    """The kernel cannot be judged; the text has the reason."""


@dataclass(frozen=True)
class Judgement:
    """A verdict, and the estimate that it follows from: a ratio of pairs, or a difference."""

    verdict: Verdict
    method: Literal["ratio", "difference"]
    estimate: float
    interval: Interval
    #: What counts as good.
    allowed: Interval


def judged(values: Sequence[float], good: Sequence[float], band: float, error_rate: float) -> Judgement:
    """Judges values by those of the good side with the same seeds, at least two pairs.

    The interval of the mean ratio has the confidence 1 - 2 x `error_rate`. If it is inside
    1 - `band` to 1 + `band`, the verdict is ``good``; outside, ``bad``; else ``undecided``. Each
    wrong verdict has a probability of at most `error_rate`, as in two one-sided t-tests. If a value
    is not above 0, differences replace ratios, and `band` is a fraction of the good mean.
    """
    confidence = 1 - 2 * error_rate
    method: Literal["ratio", "difference"] = "ratio"
    found, allowed = metrics.ratio_of_pairs(values, good, confidence), (1 - band, 1 + band)
    if found is None:
        method, reach = "difference", band * abs(fmean(good))
        found, allowed = metrics.difference_of_pairs(values, good, confidence), (-reach, reach)
    assert found is not None, "fewer than two pairs"
    estimate, (low, high) = found
    is_inside, is_outside = allowed[0] <= low and high <= allowed[1], high < allowed[0] or low > allowed[1]
    verdict: Verdict = "good" if is_inside else "bad" if is_outside else "undecided"
    return Judgement(verdict, method, estimate, (low, high), allowed)


def good_runs(bundles: Sequence[Bundle], experiment: Json, place: Path, pairs: int | None) -> list[Bundle]:
    """Returns the done runs of an experiment by ascending seed, `pairs` of them, or all if it is
    None. Raises UsageError.
    """
    wanted = digest(experiment)
    found = [bundle for bundle in bundles if bundle.status == "done" and bundle.record["digest"] == wanted]
    where, name = f"--good {place}", experiment["name"]
    backends = sorted({bundle.record["backend"] for bundle in found})
    if len(backends) > 1:
        raise UsageError(f"{where}: has runs of {name} on {', '.join(backends)}; allowed: those on one back-end")
    by_seed = {bundle.record["seed"]: bundle for bundle in found}
    least = pairs or FEWEST_PAIRS
    if len(by_seed) < least:
        remedy = f"`mptcplab run SPEC --repeat {least} --out {place}` on the good kernel makes them"
        problem = f"has {len(by_seed)} done runs of {name} as it is described now"
        raise UsageError(f"{where}: {problem}; allowed: at least {least}; {remedy}")
    return [by_seed[seed] for seed in sorted(by_seed)][: pairs or len(by_seed)]


def value_of(bundle: Bundle, metric: str) -> float | Absent:
    """Returns the value of ``ENTITY.METRIC`` in a run."""
    path, _, name = metric.rpartition(".")
    return Evaluation(bundle.load()).value(path, name)


def runs_like(good: Sequence[Bundle], on: str, out: Path) -> list[Bundle]:
    """Repeats the runs on another back-end, with the same seeds. Raises CannotJudge if not all are
    done, and errors of a kernel that does not start or lacks what the experiment needs as the same.
    """
    try:
        backend(on).ready()
        for _ in range(ATTEMPTS):
            # Runs that are done are not repeated.
            bundles = execute([plan_like(bundle, on, out=out) for bundle in good], Nobody())
            left = [bundle for bundle in bundles if bundle.status != "done"]
            if not left:
                return bundles
    except (MachineError, RunFailed, Unsupported) as error:
        raise CannotJudge(str(error)) from error
    record = left[0].record
    raise CannotJudge(f"seed {record['seed']} is {record['status']} after {ATTEMPTS} attempts: {record['why']}")
