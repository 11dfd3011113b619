"""Derived metrics of events, over all flows or one."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.recovery import BASELINE_S
from mptcplab.results import recovery
from mptcplab.results.entities import Json
from mptcplab.results.run_data import Absent, Happening, NotConcerned, RunData, Value, worst
from mptcplab.results.subflows import recreated_after, reused
from mptcplab.results.tables import NANOS_PER_SECOND, Series

NO_OUTAGE = "the event takes nothing down"
NO_REPAIR = "nothing undoes the event before the run ends"
NO_RULE = "no rule of a switch makes this outage"
NO_REACTION = "the controller did not react to it"


@dataclass(frozen=True)
class EventView:
    """An event, or the primitive events of a compound one, for some flows."""

    run: RunData
    happenings: tuple[Happening, ...]
    flows: tuple[str, ...]

    @cached_property
    def failures(self) -> list[Happening]:
        """The members that take capacity from one of the flows."""
        return [h for h in self.happenings if "failure" in self._effects(h)]

    @cached_property
    def outage_end(self) -> Happening | None:
        """The last event that repairs a failure or, in a compound event, adds capacity."""
        ends = [h for h in self.happenings if "repair" in self._effects(h)]
        ends += [repair for f in self.failures if (repair := recovery.repair_of(self.run, f)) is not None]
        return max(ends, key=lambda h: h.actual_s, default=None)

    def _effects(self, happening: Happening) -> set[recovery.Effect | None]:
        return {recovery.effect_of(self.run, flow, happening) for flow in self.flows}

    def concerned(self, happening: Happening) -> list[str]:
        """Returns the running flows whose paths an event acts on. If it acts on none, like a
        command, returns all running flows.
        """
        at = happening.actual_s
        running = [flow for flow in self.flows if self.run.start_s(flow) < at < self.run.flow_end_s(flow)]
        return [flow for flow in running if recovery.touches(self.run, flow, happening)] or running


def recovery_s(event: EventView) -> Value:
    """Returns the longest time, over flows and members, until a flow has what the network can
    carry.
    """
    return worst(
        (recovery.default_recovery(event.run, flow, h) for h in event.happenings for flow in event.concerned(h)), max
    )


def full_rate_s(event: EventView) -> Value:
    """Returns the longest time, over flows, from the failures until a flow has its earlier rate."""
    if not event.failures:
        return Absent(NO_OUTAGE)
    return worst((recovery.full_rate_s(event.run, flow, h) for h in event.failures for flow in event.concerned(h)), max)


def shortfall_s(event: EventView) -> Value:
    """Returns the largest time of the outage in which a flow had less than the
    network could carry.
    """
    outage = _outage(event)
    if isinstance(outage, Absent):
        return outage
    return worst((recovery.shortfall_s(event.run, flow, *outage) for flow in event.concerned(event.failures[0])), max)


def gap_s(event: EventView) -> Value:
    """Returns the longest silence of the flows, from the first member to 5 s after the last."""
    until_s = max(h.actual_s for h in event.happenings) + recovery.GAP_WINDOW_S
    return worst(
        (recovery.gap_s(event.run, flow, h, until_s) for h in event.happenings for flow in event.concerned(h)), max
    )


def unaffected_fraction(event: EventView) -> Value:
    """Returns the smallest share of its rate that a flow kept during the outage."""
    outage = _outage(event)
    if isinstance(outage, Absent):
        return outage
    flows = {flow for failure in event.failures for flow in event.concerned(failure)}
    return worst((_kept(event.run, flow, *outage) for flow in sorted(flows)), min)


def mean_before_bps(event: EventView) -> Value:
    """Returns the mean rate of all flows before the first failure."""
    outage = _outage(event)
    return outage if isinstance(outage, Absent) else _mean(event, max(0.0, outage[0] - BASELINE_S), outage[0])


def mean_during_bps(event: EventView) -> Value:
    """Returns the mean rate of all flows during the outage."""
    outage = _outage(event)
    return outage if isinstance(outage, Absent) else _mean(event, *outage)


def min_during_bps(event: EventView) -> Value:
    """Returns the smallest rate of all flows together in a second of the outage."""
    outage = _outage(event)
    if isinstance(outage, Absent):
        return outage
    bins = [metrics.binned_rate(c.times_s, c.values, *outage, recovery.BIN_S)[1] for c in _counters(event)]
    total = np.sum(bins, axis=0) if bins else np.zeros(0)
    return float(total.min()) if len(total) else Absent("the outage is shorter than a bin")


def mean_after_bps(event: EventView) -> Value:
    """Returns the mean rate of all flows from the end of the outage to the end of the run."""
    if event.outage_end is None:
        return Absent(NO_REPAIR)
    return _mean(event, event.outage_end.actual_s, event.run.end_s)


def full_recovery(event: EventView) -> Value:
    """Returns 1 if the mean after the outage is at least 0.95 of the mean before it, or of what the
    links could carry then; otherwise 0.
    """
    outage, after = _outage(event), mean_after_bps(event)
    if isinstance(outage, Absent):
        return outage
    running = [flow for flow in event.flows if event.run.start_s(flow) < outage[0] < event.run.flow_end_s(flow)]
    before = worst((recovery.target_before_bps(event.run, flow, outage[0]) for flow in running), sum)
    if isinstance(before, Absent):
        return before
    return after if isinstance(after, Absent) else float(after >= 0.95 * before)


def outage_s(event: EventView, *, asked: bool) -> Value:
    """Returns the length of the outage, as described or as carried out."""
    if not event.failures:
        return Absent(NO_OUTAGE)
    if event.outage_end is None:
        return Absent(NO_REPAIR)
    first = event.failures[0]
    if asked:
        return event.outage_end.asked_s - first.asked_s
    return event.outage_end.actual_s - first.actual_s


def outage_measured_s(event: EventView) -> Value:
    """Returns the longest silence of a probe around the outage, less the interval of the probes."""
    outage = _outage(event)
    if isinstance(outage, Absent):
        return outage
    found = []
    for probe in event.run.samples.entities("probes."):
        answers = event.run.samples.series(probe, "rtt_s")
        if answers is not None and len(answers.times_s) > 1:
            asked_at = answers.times_s - answers.values
            silence = metrics.longest_silence(asked_at, outage[0], outage[1] - outage[0])
            found.append((silence or 0.0) - metrics.median(np.diff(asked_at)))
    return max(0.0, *found) if found else Absent("no probe was answered")


def outage_barrier_s(event: EventView) -> Value:
    """Returns the longest time between the rules that make the outage and their removal."""
    return _longest(event)[0]


def outage_barrier_error_s(event: EventView) -> Value:
    """Returns the least error of ``outage_barrier_s``."""
    return _longest(event)[1]


def _longest(event: EventView) -> tuple[Value, Value]:
    """Returns the length of the longest outage by rules and its least error, in seconds."""
    rules = _control(event).get("rules", [])
    added = [rule for rule in rules if rule["added"] and rule["event"] in _ids(event)]
    if not added:
        return Absent(NO_RULE), Absent(NO_RULE)
    outages = []
    for rule in added:
        later = (other for other in rules if other["link"] == rule["link"] and other["sent_ns"] > rule["sent_ns"])
        removal = next((other for other in later if not other["added"]), None)
        if removal is None:
            return Absent(NO_REPAIR), Absent(NO_REPAIR)
        (start_ns, start_error_ns), (end_ns, end_error_ns) = _middle(rule), _middle(removal)
        outages.append(((end_ns - start_ns) / NANOS_PER_SECOND, (start_error_ns + end_error_ns) / NANOS_PER_SECOND))
    return max(outages)


def _middle(rule: Json) -> tuple[float, float]:
    """Returns the middle between the request and the answer, and the time from there to either."""
    sent_ns, answered_ns = rule["sent_ns"], rule["answered_ns"]
    return (sent_ns + answered_ns) / 2, (answered_ns - sent_ns) / 2


def detection_s(event: EventView) -> Value:
    """Returns the longest time from a failure until the controller knew of it."""
    found = _reactions(event)
    times = [reaction["detected_ns"] / NANOS_PER_SECOND - happening.actual_s for happening, reaction in found]
    return max(times) if times else Absent(NO_REACTION)


def route_install_s(event: EventView) -> Value:
    """Returns the longest time from the controller's knowledge until the last
    entry was installed.
    """
    times = [
        (reaction["installed_ns"] - reaction["detected_ns"]) / NANOS_PER_SECOND for _, reaction in _reactions(event)
    ]
    return max(times) if times else Absent(NO_REACTION)


def _reactions(event: EventView) -> list[tuple[Happening, Json]]:
    """Returns the first reaction to each member: to its link or to itself."""
    all_of_run = _control(event).get("controller", {}).get("reactions", [])
    found = []
    for happening in event.happenings:
        causes = {happening.id, happening.action.get("link")}
        at_ns = happening.actual_s * NANOS_PER_SECOND
        later = (one for one in all_of_run if one["cause"] in causes and one["detected_ns"] >= at_ns)
        found += [(happening, reaction) for reaction in later][:1]
    return found


def _control(event: EventView) -> Json:
    """Returns what switches and controller did; empty if there are none."""
    return event.run.result.get("control") or {}


def _ids(event: EventView) -> set[str]:
    return {happening.id for happening in event.happenings}


def subflows_reused(event: EventView) -> Value:
    """Returns the number of subflows hit by the outages of the event that continued after them."""
    return total(reused(event.run, flow, event.happenings) for flow in event.flows)


def subflows_recreated(event: EventView) -> Value:
    """Returns the number of subflows that were re-created because of the failures of the event."""
    return total(recreated_after(event.run, flow, event.happenings) for flow in event.flows)


def total(values: Iterable[Value]) -> Value:
    """The sum over the flows that the question concerns; absent as soon as one of them is."""
    return worst(values, sum, "no flow has subflows")


def _outage(event: EventView) -> tuple[float, float] | Absent:
    """Returns the time from the first failure to the last repair, or to the end of the run."""
    if not event.failures:
        return Absent(NO_OUTAGE)
    end = event.run.end_s if event.outage_end is None else event.outage_end.actual_s
    return event.failures[0].actual_s, end


def _counters(event: EventView) -> list[Series]:
    return [counter for flow in event.flows if (counter := event.run.in_order(flow)) is not None]


def _mean(event: EventView, start_s: float, end_s: float) -> Value:
    means = [metrics.mean_rate(c.times_s, c.values, start_s, end_s) for c in _counters(event)]
    known = [mean for mean in means if mean is not None]
    return sum(known) if known else Absent("the run has no time there")


def _kept(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    before, counter = recovery.mean_before_bps(run, flow, start_s), run.in_order(flow)
    if isinstance(before, Absent) or counter is None:
        return before
    during = metrics.mean_rate(counter.times_s, counter.values, start_s, min(end_s, run.flow_end_s(flow)))
    kept = None if during is None else metrics.unaffected_fraction(before, during)
    return NotConcerned("the flow carried nothing before the event") if kept is None else kept


EVENT_METRICS: dict[str, Callable[[EventView], Value]] = {
    "asked_s": lambda event: min(h.asked_s for h in event.happenings),
    "actual_s": lambda event: min(h.actual_s for h in event.happenings),
    "recovery_s": recovery_s,
    "full_rate_s": full_rate_s,
    "shortfall_s": shortfall_s,
    "gap_s": gap_s,
    "unaffected_fraction": unaffected_fraction,
    "mean_before_bps": mean_before_bps,
    "mean_during_bps": mean_during_bps,
    "min_during_bps": min_during_bps,
    "mean_after_bps": mean_after_bps,
    "full_recovery": full_recovery,
    "outage_asked_s": lambda event: outage_s(event, asked=True),
    "outage_actual_s": lambda event: outage_s(event, asked=False),
    "outage_barrier_s": outage_barrier_s,
    "outage_barrier_error_s": outage_barrier_error_s,
    "outage_measured_s": outage_measured_s,
    "subflows_reused": subflows_reused,
    "subflows_recreated": subflows_recreated,
    "detection_s": detection_s,
    "route_install_s": route_install_s,
}
"""Functions of the derived metrics of events."""
