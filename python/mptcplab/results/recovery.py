"""How a flow gets over an event: recovery times, silence, and the rates before, during and after."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.metrics.recovery import BASELINE_S, FRACTION, HOLD_BINS
from mptcplab.results.capacity import capacity_bps, lowers_capacity
from mptcplab.results.entities import DOWN, UP, Json
from mptcplab.results.run_data import Absent, Happening, NotConcerned, RunData, Value, once_a_run
from mptcplab.results.tables import NANOS_PER_SECOND

Effect = Literal["failure", "repair"]
Target = Literal["before", "remaining_capacity"]

BIN_S = 1.0
SHORT_BIN_S = 0.1
GAP_WINDOW_S = 5.0
NOT_RUNNING = "the flow was not running at the event"
LATE_EFFECT_S = 3.0


@dataclass(frozen=True)
class Recovery:
    """One recovery time of a flow: from which moment of which event, to which target."""

    event: str
    since: Effect
    of: Target
    seconds: Value


@once_a_run
def effect_of(run: RunData, flow: str, happening: Happening) -> Effect | None:
    """Whether an event takes connectivity or capacity from a flow's paths, or gives it back; None if neither."""
    kind = happening.action["kind"]
    if not touches(run, flow, happening):
        return None
    if kind in DOWN:
        return "failure"
    if kind in UP:
        return "repair"
    lowered = lowers_capacity(run, flow, happening) if kind == "set_link" else None
    return None if lowered is None else "failure" if lowered else "repair"


def touches(run: RunData, flow: str, happening: Happening) -> bool:
    """Whether an event acts on a link of the flow's paths or on an interface at its ends."""
    return subject_of(happening.action) in run.parts_of_paths[flow]


@once_a_run
def repair_of(run: RunData, failure: Happening) -> Happening | None:
    """The first later event that undoes a failure: of the same interface, address or link."""
    undo = {"interface_down": "interface_up", "link_down": "link_up", "address_remove": "address_add"}
    wanted = undo.get(failure.action["kind"], failure.action["kind"])
    subject = subject_of(failure.action)
    for later in run.happenings:
        if later.actual_s > failure.actual_s and later.action["kind"] == wanted and subject_of(later.action) == subject:
            return later
    return None


def failure_before(run: RunData, repair: Happening) -> Happening | None:
    """The last failure that a repair undoes."""
    failures = [happening for happening in run.happenings if repair_of(run, happening) is repair]
    return failures[-1] if failures else None


def recoveries(run: RunData, flow: str) -> list[Recovery]:
    """All recovery times of a flow: each failure from itself and from its repair, and each repair of no failure."""
    found: list[Recovery] = []
    for happening in run.happenings:
        effect = effect_of(run, flow, happening)
        if effect == "failure":
            found += _times(run, flow, happening, happening, "failure")
            repair = repair_of(run, happening)
            if repair is not None:
                found += _times(run, flow, happening, repair, "repair")
        elif effect == "repair" and failure_before(run, happening) is None:
            found += _times(run, flow, happening, happening, "repair")
    return found


def default_recovery(run: RunData, flow: str, happening: Happening) -> Value:
    """The recovery time that an expectation means: see ``recovery_s`` in the metric table."""
    effect = effect_of(run, flow, happening)
    if effect is None:
        return NotConcerned("the event neither takes capacity from the flow nor gives it back")
    if effect == "repair":
        return recovery_s(run, flow, failure_before(run, happening) or happening, happening, "before")
    left = capacity_bps(run, flow, happening.actual_s)
    return recovery_s(run, flow, happening, happening, "remaining_capacity" if left else "before")


@once_a_run
def recovery_s(run: RunData, flow: str, failure: Happening, since: Happening, of: Target) -> Value:
    """Seconds from ``since`` until the flow holds 0.9 of its rate before ``failure``, or of what is left if less."""
    before = mean_before_bps(run, flow, failure.actual_s)
    counter = run.in_order(flow)
    if isinstance(before, Absent) or counter is None:
        return before
    target = before
    if of == "remaining_capacity":
        left = capacity_bps(run, flow, since.actual_s)
        if not left:
            return Absent("no path of the flow was left" if left == 0 else "a path of the flow has no rate limit")
        target = min(before, left)
    if target <= 0:
        return NotConcerned("the flow carried nothing before the event")
    width = _bin_width(run, since)
    starts, rates, apart = _sliding_bins(
        run, counter.times_s, counter.values, since.actual_s, run.flow_end_s(flow), width
    )
    late = _late_dip(run, since, starts, rates, FRACTION * target / 2)
    seconds = metrics.recovery_time(starts[late:], rates[late:], since.actual_s, FRACTION * target, bins_apart=apart)
    unrecovered = f"the flow did not hold {FRACTION:g} of {target:.4g} bit/s for {HOLD_BINS * width:g} s before its end"
    return Absent(unrecovered) if seconds is None else round(seconds, 9)


def mean_before_bps(run: RunData, flow: str, event_s: float) -> Value:
    """Mean goodput of the 5 s before an event, less if the flow had just started."""
    counter = run.in_order(flow)
    if counter is None:
        return Absent("the back-end gave no samples of bytes_in_order")
    if not run.start_s(flow) < event_s < run.flow_end_s(flow):
        return Absent(NOT_RUNNING)
    mean = metrics.mean_rate(counter.times_s, counter.values, max(run.start_s(flow), event_s - BASELINE_S), event_s)
    return Absent(NOT_RUNNING) if mean is None else mean


def gap_s(run: RunData, flow: str, happening: Happening) -> Value:
    """Longest silence around an event; one that lasts to the end of an unfinished flow counts until there."""
    if not run.start_s(flow) < happening.actual_s < run.flow_end_s(flow):
        return Absent(NOT_RUNNING)
    edges = [run.start_s(flow), *run.deliveries_s(flow).tolist(), run.flow_end_s(flow)]
    silence = metrics.longest_silence(edges, happening.actual_s, GAP_WINDOW_S)
    return Absent("nothing was delivered") if silence is None else round(silence, 9)


def _times(run: RunData, flow: str, failure: Happening, since: Happening, effect: Effect) -> list[Recovery]:
    targets: tuple[Target, ...] = ("before", "remaining_capacity")
    return [Recovery(failure.id, effect, of, recovery_s(run, flow, failure, since, of)) for of in targets]


def subject_of(action: Json) -> str | None:
    """Id of the interface or link that an action acts on."""
    return action.get("interface") or action.get("link")


def _late_dip(run: RunData, since: Happening, starts: Floats, rates: Floats, below: float) -> int:
    """The first bin of a collapse soon after the event, else 0: a full queue hides a failure until it has drained."""
    nexts = [other.actual_s for other in run.happenings if other.actual_s > since.actual_s]
    soon = min([since.actual_s + LATE_EFFECT_S, *nexts])
    dips = np.flatnonzero((rates < below) & (starts < soon))
    return int(dips[0]) if len(dips) else 0


def _bin_width(run: RunData, since: Happening) -> float:
    """1 s, or 0.1 s if the next event would fall into the bins; never below the sample interval."""
    soon = since.actual_s + (HOLD_BINS + 1) * BIN_S
    crowded = any(since.actual_s < other.actual_s < soon for other in run.happenings)
    return max(SHORT_BIN_S if crowded else BIN_S, _interval_s(run))


def _interval_s(run: RunData) -> float:
    return float(run.resolved["measure"]["every_ns"] / NANOS_PER_SECOND)


def _sliding_bins(
    run: RunData, times_s: Floats, counter: Floats, start_s: float, end_s: float, width_s: float
) -> tuple[Floats, Floats, int]:
    """Bins that start at every sample interval: starts, rates in bit/s, number of entries between disjoint bins."""
    apart = int(np.ceil(width_s / _interval_s(run) - 1e-9))
    step = width_s / apart
    edges = start_s + step * np.arange(max(0, int((end_s - start_s) / step + 1e-9)) + 1)
    at_edges = metrics.counter_at(times_s, counter, edges)
    rates = 8.0 * (at_edges[apart:] - at_edges[: len(at_edges) - apart]) / width_s if len(edges) > apart else edges[:0]
    return edges[: len(rates)], rates, apart
