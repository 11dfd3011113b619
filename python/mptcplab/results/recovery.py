"""How a flow recovers from an event: recovery times, silence, and the rates before, during and
after.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.metrics.recovery import BASELINE_S, FRACTION, HOLD_BINS
from mptcplab.results.capacity import capacity_bps, lowers_capacity
from mptcplab.results.entities import DOWN, UP, Json
from mptcplab.results.offered import offered_bps, pause_s
from mptcplab.results.run_data import Absent, Happening, NotConcerned, RunData, Value, once_a_run
from mptcplab.results.tables import NANOS_PER_SECOND

Effect = Literal["failure", "repair"]
Target = Literal["before", "remaining_capacity"]

BIN_S = 1.0
GAP_WINDOW_S = 5.0
UNRECOVERED = "the flow did not hold"
NO_FAILURE = "the event takes nothing from the flow"
NOT_RUNNING = "the flow was not running at the event"
LATE_EFFECT_S = 3.0


@dataclass(frozen=True)
class Recovery:
    """A recovery time of a flow: the event, whether it counts from the failure or the repair, and
    the target.
    """

    event: str
    since: Effect
    of: Target
    seconds: Value


@once_a_run
def effect_of(run: RunData, flow: str, happening: Happening) -> Effect | None:
    """Returns whether an event takes connectivity or capacity from a flow's paths or restores it;
    None if neither.
    """
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
    """Returns whether an event acts on a link of the flow's paths or on an interface at the ends of
    such a link.
    """
    return subject_of(happening.action) in run.parts_of_paths[flow]


@once_a_run
def repair_of(run: RunData, failure: Happening) -> Happening | None:
    """Returns the first later event that undoes a failure of the same
    interface, address or link.
    """
    undo = {"interface_down": "interface_up", "link_down": "link_up", "address_remove": "address_add"}
    wanted = undo.get(failure.action["kind"], failure.action["kind"])
    subject = subject_of(failure.action)
    for later in run.happenings:
        if later.actual_s > failure.actual_s and later.action["kind"] == wanted and subject_of(later.action) == subject:
            return later
    return None


@once_a_run
def failure_before(run: RunData, repair: Happening) -> Happening | None:
    """Returns the last failure that a repair undoes."""
    failures = [happening for happening in run.happenings if repair_of(run, happening) is repair]
    return failures[-1] if failures else None


@once_a_run
def first_of_outage(run: RunData, flow: str, failure: Happening) -> Happening:
    """Returns the first failure since which some part was always down. The rate before it is the
    target of recovery.
    """
    for earlier in run.happenings:
        if earlier.actual_s >= failure.actual_s:
            break
        repair = repair_of(run, earlier)
        lasted = repair is None or repair.actual_s > failure.actual_s
        if lasted and effect_of(run, flow, earlier) == "failure" and run.start_s(flow) < earlier.actual_s:
            return first_of_outage(run, flow, earlier)
    return failure


def recoveries(run: RunData, flow: str) -> list[Recovery]:
    """Returns all recovery times of a flow: of each failure and its repair, and of each repair
    without a failure.
    """
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
    """Returns the seconds from an event until the flow uses the capacity: ``recovery_s`` of the
    metric table.
    """
    effect = effect_of(run, flow, happening)
    if effect is None:
        return NotConcerned("the event neither takes capacity from the flow nor gives it back")
    failure = happening if effect == "failure" else failure_before(run, happening) or happening
    return recovery_s(run, flow, first_of_outage(run, flow, failure), happening, "remaining_capacity")


def full_rate_s(run: RunData, flow: str, happening: Happening) -> Value:
    """Returns the seconds from a failure until the flow has its earlier rate: ``full_rate_s`` of
    the metric table.
    """
    if effect_of(run, flow, happening) != "failure":
        return NotConcerned(NO_FAILURE)
    return recovery_s(run, flow, happening, happening, "before")


@once_a_run
def recovery_s(run: RunData, flow: str, failure: Happening, since: Happening, of: Target) -> Value:
    """Returns the seconds from ``since`` until the flow holds 0.9 of its target.

    The target is at most the rate before ``failure``.
    """
    before, counter = target_before_bps(run, flow, failure.actual_s), run.in_order(flow)
    if isinstance(before, Absent) or counter is None:
        return before
    if before <= 0:
        return NotConcerned("the flow carried nothing before the event")
    width = max(BIN_S, _interval_s(run))
    pause = _pause_s(run, flow)
    if pause > width:
        return NotConcerned(f"its application sends every {pause:.3g} s, more seldom than the bins of {width:g} s")
    starts, rates, apart = _sliding_bins(
        run, counter.times_s, counter.values, since.actual_s, run.flow_end_s(flow), width
    )
    targets = np.full(len(starts), before)
    if of == "remaining_capacity":
        targets = targets_bps(run, flow, before, starts, starts + width, since.actual_s)
    # While the network can carry nothing, the flow has not recovered.
    reached = np.divide(rates, targets, out=np.zeros(len(rates)), where=targets > 0)
    late = _late_dip(run, since, starts, reached)
    seconds = metrics.recovery_time(starts[late:], reached[late:], since.actual_s, FRACTION, bins_apart=apart)
    return Absent(_unrecovered(run, flow, before, since, of, width)) if seconds is None else round(seconds, 9)


def _unrecovered(run: RunData, flow: str, before: float, since: Happening, of: Target, width_s: float) -> str:
    left = capacity_bps(run, flow, since.actual_s)
    if of == "remaining_capacity" and left == 0 and capacity_bps(run, flow, run.flow_end_s(flow)) == 0:
        return "no path of the flow was left"
    after_s, hold_s = run.flow_end_s(flow) - since.actual_s, HOLD_BINS * width_s
    if after_s < hold_s:
        return f"the flow ran for {after_s:.3g} s after the event; recovery takes at least {hold_s:g} s to see"
    what = f"{before:.4g} bit/s"
    if of == "remaining_capacity":
        what = f"what the network could carry, at most {what},"
    return f"{UNRECOVERED} {FRACTION:g} of {what} for {hold_s:g} s before its end"


def targets_bps(
    run: RunData, flow: str, before: float, starts_s: Floats, ends_s: Floats, gains_until_s: float = np.inf
) -> Floats:
    """Returns the target rate of each interval: what the network can carry then, at most
    ``before``.

    Capacity gained after ``gains_until_s`` does not raise the target, because that is another event
    with its own recovery time.
    """
    changes = [0.0, *(happening.actual_s for happening in run.happenings)]
    known = [capacity_bps(run, flow, at) for at in changes]
    least = np.inf
    for place, (at, capacity) in enumerate(zip(changes, known, strict=True)):
        if at >= gains_until_s and capacity:
            known[place] = least = min(least, capacity)
    since, until = (np.array(times)[:, np.newaxis] for times in (changes, [*changes[1:], np.inf]))
    rates = [before if capacity is None else min(before, capacity) for capacity in known]
    seconds = np.maximum(np.minimum(ends_s, until) - np.maximum(starts_s, since), 0)
    # In the order of time, also for a single interval, which sum() would add in parts.
    # Zero seconds without a rate limit are no bits, whereas 0 * inf is not a number.
    carried = np.multiply(seconds, np.array(rates)[:, np.newaxis], out=np.zeros_like(seconds), where=seconds > 0)
    bits: Floats = np.add.accumulate(carried)[-1]
    return bits / (ends_s - starts_s)


@once_a_run
def target_before_bps(run: RunData, flow: str, event_s: float) -> Value:
    """Returns the mean goodput before an event, at most the capacity then and the offer of the
    application.

    Late data released in a burst can make the mean larger than both.
    """
    mean = mean_before_bps(run, flow, event_s)
    if isinstance(mean, Absent):
        return mean
    start = max(run.start_s(flow), event_s - BASELINE_S)
    at_most = targets_bps(run, flow, np.inf, np.array([start]), np.array([event_s]))
    return float(min(mean, at_most[0], offered_bps(run.flows[flow]) or np.inf))


def shortfall_s(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    """Returns for how many seconds between two times the flow had less than 0.9 of what the network
    could carry.
    """
    before, counter = target_before_bps(run, flow, start_s), run.in_order(flow)
    if isinstance(before, Absent) or counter is None:
        return before
    if before <= 0:
        return NotConcerned("the flow carried nothing before the event")
    if _pause_s(run, flow) > BIN_S:
        return NotConcerned(f"its application sends more seldom than the bins of {BIN_S:g} s")
    starts, rates = metrics.binned_rate(
        counter.times_s, counter.values, start_s, min(end_s, run.flow_end_s(flow)), BIN_S
    )
    return BIN_S * float(np.count_nonzero(rates < FRACTION * targets_bps(run, flow, before, starts, starts + BIN_S)))


def mean_before_bps(run: RunData, flow: str, event_s: float) -> Value:
    """Returns the mean goodput of the 5 s before an event, or of less if the
    flow had just started.
    """
    counter = run.in_order(flow)
    if counter is None:
        return Absent("the back-end gave no samples of bytes_in_order")
    if not run.start_s(flow) < event_s < run.flow_end_s(flow):
        return Absent(NOT_RUNNING)
    mean = metrics.mean_rate(counter.times_s, counter.values, max(run.start_s(flow), event_s - BASELINE_S), event_s)
    return Absent(NOT_RUNNING) if mean is None else mean


def gap_s(run: RunData, flow: str, happening: Happening, until_s: float) -> Value:
    """Returns the longest time between deliveries that overlaps the time from an event to
    ``until_s``.

    If an unfinished flow stays silent, the silence counts to the end of the run.
    """
    if not run.start_s(flow) < happening.actual_s < run.flow_end_s(flow):
        return Absent(NOT_RUNNING)
    edges = [run.start_s(flow), *run.deliveries_s(flow).tolist(), run.flow_end_s(flow)]
    silence = metrics.longest_silence(edges, happening.actual_s, until_s - happening.actual_s)
    return Absent("nothing was delivered") if silence is None else round(silence, 9)


def _times(run: RunData, flow: str, failure: Happening, since: Happening, effect: Effect) -> list[Recovery]:
    first = first_of_outage(run, flow, failure)
    return [
        Recovery(failure.id, effect, "before", recovery_s(run, flow, failure, since, "before")),
        Recovery(failure.id, effect, "remaining_capacity", recovery_s(run, flow, first, since, "remaining_capacity")),
    ]


def subject_of(action: Json) -> str | None:
    """Returns the id of the interface or link that an action acts on."""
    return action.get("interface") or action.get("link")


def _late_dip(run: RunData, since: Happening, starts: Floats, reached: Floats) -> int:
    """Returns the first bin of a collapse soon after the event, else 0. A full queue delays the
    effect of a failure.
    """
    nexts = [other.actual_s for other in run.happenings if other.actual_s > since.actual_s]
    soon = min([since.actual_s + LATE_EFFECT_S, *nexts])
    dips = np.flatnonzero((reached < FRACTION / 2) & (starts < soon))
    return int(dips[0]) if len(dips) else 0


@once_a_run
def _pause_s(run: RunData, flow: str) -> float:
    """Returns the time between two units of an application that sends at its own rate, else 0."""
    units = run.units.of(flow)
    return pause_s(run.flows[flow], float(np.median(units.bytes))) if len(units) else 0.0


def _interval_s(run: RunData) -> float:
    return float(run.resolved["measure"]["every_ns"] / NANOS_PER_SECOND)


def _sliding_bins(
    run: RunData, times_s: Floats, counter: Floats, start_s: float, end_s: float, width_s: float
) -> tuple[Floats, Floats, int]:
    """Returns bins that start at every sample interval: starts, rates in bit/s, and entries between
    disjoint bins.
    """
    apart = int(np.ceil(width_s / _interval_s(run) - 1e-9))
    step = width_s / apart
    edges = start_s + step * np.arange(max(0, int((end_s - start_s) / step + 1e-9)) + 1)
    at_edges = metrics.counter_at(times_s, counter, edges)
    rates = 8.0 * (at_edges[apart:] - at_edges[: len(at_edges) - apart]) / width_s if len(edges) > apart else edges[:0]
    return edges[: len(rates)], rates, apart
