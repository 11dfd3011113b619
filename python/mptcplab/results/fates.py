"""What happened to each subflow that a failure hit: whether and when it resumed or was replaced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mptcplab.results.recovery import repair_of
from mptcplab.results.run_data import Happening, RunData, once_a_run
from mptcplab.results.subflows import Subflow, before_it, carried, hit_by, subflows_of


@dataclass(frozen=True)
class Fate:
    """A subflow that was open when a part of its path failed. Times are in seconds of the run.

    ``resumed_s`` is when the subflow or its replacement (opened at ``recreated_s``) carried new
    data after ``back_s``, when the path was whole again. ``stale_s`` is when the scheduler first
    considered the subflow failed. ``timeouts`` counts timeouts until it resumed.
    """

    subflow: Subflow
    hit_s: float
    back_s: float | None
    closed_s: float | None
    recreated_s: float | None
    resumed_s: float | None
    stale_s: float | None
    timeouts: float | None


@once_a_run
def fates(run: RunData, flow: str) -> list[Fate]:
    """Returns the fate of every subflow of a flow that was hit, for its first failure, in the order
    of the failures.
    """
    found = subflows_of(run, flow)
    hit = [(failure, one) for failure in run.happenings for one in found if _is_hit(run, one, failure)]
    first: dict[int, Happening] = {}
    for failure, one in hit:
        first.setdefault(one.id, failure)
    return [_fate(run, one, first[one.id], found) for one in found if one.id in first]


def _is_hit(run: RunData, subflow: Subflow, failure: Happening) -> bool:
    # Subflows are observed only in samples, so the last sample before the failure decides.
    every_s = run.resolved["measure"]["every_ns"] / 1e9
    return subflow.alive_at(failure.actual_s - every_s) and hit_by(run, subflow, failure)


def _fate(run: RunData, subflow: Subflow, failure: Happening, found: Sequence[Subflow]) -> Fate:
    repair = repair_of(run, failure)
    back_s = None if repair is None else repair.actual_s
    later = [
        other for other in found if subflow in before_it(found, other) and (other.opened_s or 0.0) > failure.actual_s
    ]
    successor = later[0] if later else None
    resumed = [
        at
        for one in (subflow, successor)
        if one is not None and back_s is not None and (at := _carries_from(run, one, back_s)) is not None
    ]
    resumed_s = min(resumed, default=None)
    return Fate(
        subflow,
        failure.actual_s,
        back_s,
        subflow.closed_s,
        None if successor is None else successor.opened_s,
        resumed_s,
        _first_stale(run, subflow, failure.actual_s),
        _timeouts(run, subflow, failure.actual_s, run.end_s if resumed_s is None else resumed_s),
    )


def _carries_from(run: RunData, subflow: Subflow, at_s: float) -> float | None:
    """Returns the time of the first sample after ``at_s`` whose counter exceeds the value at
    ``at_s``.
    """
    series = carried(run, subflow)
    if series is None:
        return None
    before = float(np.interp(at_s, series.times_s, series.values)) if series.times_s[0] <= at_s else 0.0
    grown = np.flatnonzero((series.times_s > at_s) & (series.values > before))
    return float(series.times_s[grown[0]]) if len(grown) else None


def _first_stale(run: RunData, subflow: Subflow, since_s: float) -> float | None:
    series = run.samples.series(subflow.entity, "stale")
    if series is None:
        return None
    stale = np.flatnonzero((series.times_s >= since_s) & (series.values > 0.5))
    return float(series.times_s[stale[0]]) if len(stale) else None


def _timeouts(run: RunData, subflow: Subflow, since_s: float, until_s: float) -> float | None:
    series = run.samples.series(subflow.entity, "rto_count")
    if series is None:
        return None
    first, last = np.interp([since_s, until_s], series.times_s, series.values)
    return float(last - first)
