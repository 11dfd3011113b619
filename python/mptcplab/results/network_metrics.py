"""Derived metrics of link directions, probes and the run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from mptcplab import metrics, recovery
from mptcplab.errors import NotAllowed
from mptcplab.results.flow_metrics import FlowView, fct_s, goodput_bps
from mptcplab.results.run_data import Absent, RunData, Value


@dataclass(frozen=True)
class EntityView:
    """A link direction, an interface or a probe of a run, named by its path."""

    run: RunData
    path: str

    def last(self, metric: str) -> float | None:
        """Returns the last sample of a metric."""
        return self.run.samples.last(self.path, metric)


def dropped_packets(link: EntityView) -> Value:
    """Returns the number of drops for all reasons."""
    reasons = [name for name in link.run.samples.metrics(link.path) if name.startswith("dropped_")]
    if not reasons:
        return Absent("the back-end gave no drop counters")
    return float(sum(link.last(reason) or 0.0 for reason in reasons))


def wire_rate_bps(link: EntityView) -> Value:
    """Returns the mean rate of ``wire_bytes``."""
    sent = link.last("wire_bytes")
    if sent is None or link.run.end_s <= 0:
        return Absent("the back-end gave no samples of wire_bytes")
    return 8.0 * sent / link.run.end_s


def utilisation(link: EntityView) -> Value:
    """Returns the share of the bytes that the link could have carried."""
    sent, could = link.last("wire_bytes"), _rate_times_seconds(link)
    if sent is None or could is None:
        return Absent("the link has no rate limit of its own" if could is None else "no samples of wire_bytes")
    used = metrics.utilisation(sent, could, 1.0)
    return Absent("the link could carry nothing") if used is None else used


def queue_bytes_max(link: EntityView) -> Value:
    """Returns the largest sample of the queue."""
    queue = link.run.samples.series(link.path, "queue_bytes")
    return Absent("the back-end gave no samples of queue_bytes") if queue is None else float(queue.values.max())


def queue_delay_s(link: EntityView) -> Value:
    """Returns the mean time that the queue takes to drain."""
    queue, could = link.run.samples.series(link.path, "queue_bytes"), _rate_times_seconds(link)
    if queue is None or not could:
        return Absent("the link has no rate limit of its own")
    return float(queue.values.mean()) * 8.0 * link.run.end_s / could


def _rate_times_seconds(link: EntityView) -> float | None:
    """Returns the bits that the link's rate allows over the run, after the changes by events; None
    without a rate.
    """
    _, name = link.path.split(".", 1)
    link_id, direction = name.rsplit(".", 1)
    edges = [0.0, *(h.actual_s for h in link.run.happenings if h.action["kind"] == "set_link"), link.run.end_s]
    bits = 0.0
    for since, until in pairwise(edges):
        rate = link.run.network_at(since).rates[link_id, direction]
        if rate is None:
            return None
        bits += rate * (until - since)
    return bits


def probe_rtt(percent: float) -> Callable[[EntityView], Value]:
    """Returns a function that computes the percentile of a probe's round-trip times."""

    def of(probe: EntityView) -> Value:
        answers = probe.run.samples.series(probe.path, "rtt_s")
        value = None if answers is None else metrics.percentile(answers.values, percent)
        return Absent("no probe was answered") if value is None else value

    return of


def probe_loss(probe: EntityView) -> Value:
    """Returns the share of the probes without an answer."""
    sent, answered = probe.last("sent"), probe.last("answered")
    return 1.0 - (answered or 0.0) / sent if sent else Absent("no probe was sent")


def jain_index(run: RunData, flows: tuple[str, ...]) -> Value:
    """Returns Jain's fairness index of the goodputs of some flows."""
    if len(flows) < 2:
        return Absent("it compares several flows")
    goodputs = [value for flow in flows if not isinstance(value := goodput_bps(FlowView(run, flow)), Absent)]
    index = metrics.jain_index(np.asarray(goodputs))
    return Absent("no flow carried anything") if index is None else index


def _total_goodput(run: RunData) -> Value:
    goodputs = [goodput_bps(FlowView(run, flow)) for flow in run.flows]
    return sum(value for value in goodputs if not isinstance(value, Absent)) if goodputs else Absent("there is no flow")


def _capacity_reserved(run: RunData) -> Value:
    control = run.resolved["control"]
    if control is None:
        return Absent("no switch is under control")
    try:
        strategy = recovery.strategy_of(run.resolved, control["recovery"]["strategy"])
    except NotAllowed as error:
        return Absent(str(error))
    return recovery.reserved_bps(run.resolved, strategy)


LINK_METRICS: dict[str, Callable[[EntityView], Value]] = {
    "dropped_packets": dropped_packets,
    "wire_rate_bps": wire_rate_bps,
    "utilisation": utilisation,
    "queue_bytes_max": queue_bytes_max,
    "queue_delay_s": queue_delay_s,
}

PROBE_METRICS: dict[str, Callable[[EntityView], Value]] = {
    "rtt_min_s": probe_rtt(0),
    "rtt_p50_s": probe_rtt(50),
    "rtt_p99_s": probe_rtt(99),
    "loss_ratio": probe_loss,
}

RUN_METRICS: dict[str, Callable[[RunData], Value]] = {
    "goodput_bps": _total_goodput,
    "jain_index": lambda run: jain_index(run, tuple(run.flows)),
    "flows_completed": lambda run: float(sum(not isinstance(fct_s(FlowView(run, flow)), Absent) for flow in run.flows)),
    "duration_s": lambda run: run.end_s,
    "capacity_reserved_bps": _capacity_reserved,
    "connections": lambda run: float(
        sum(
            run.flows[flow]["transport"] == "mptcp" and result.get("established_ns") is not None
            for flow, result in run.flow_results.items()
        )
    ),
}
