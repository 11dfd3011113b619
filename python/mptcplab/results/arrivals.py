"""The bytes of a flow that have arrived, in any order, and what the network
could carry over time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.results.capacity import capacity_bps
from mptcplab.results.run_data import RunData, once_a_run
from mptcplab.results.subflows import subflows_of, tells_arrivals
from mptcplab.results.tables import Series

#: An application whose rate is a smaller part of what its flow could carry is not limited by the
#: network.
SMALL_PART = 0.25


@once_a_run
def arrived(run: RunData, flow: str) -> Series | None:
    """Returns the counter of bytes that a flow's receiver has, also those that wait for earlier
    ones.

    If the back-end does not report the out-of-order queue, returns the sum over the subflows. If it
    does not report their arrivals either, returns what was delivered in order, which jumps when a
    gap is filled.
    """
    in_order = run.in_order(flow)
    waiting = run.samples.series(f"flows.{flow}", "out_of_order_bytes")
    if in_order is not None and waiting is not None:
        held = np.asarray(waiting.values)[np.searchsorted(waiting.times_s, in_order.times_s, side="right") - 1]
        held = np.where(in_order.times_s >= waiting.times_s[0], held, 0.0)
        # A sample of the queue that is older than the delivery would count bytes twice.
        return Series(in_order.times_s, np.maximum.accumulate(in_order.values + held))
    return _over_subflows(run, flow) or in_order


def tells_only_order(run: RunData, flow: str) -> bool:
    """Returns whether the bytes of a stream are known only when they are delivered in order."""
    counter, in_order = arrived(run, flow), run.in_order(flow)
    is_stream = run.flows[flow]["transport"] != "udp"
    return is_stream and counter is not None and in_order is not None and counter.values is in_order.values


def capacity_steps(run: RunData, flows: Iterable[str]) -> tuple[Floats, Floats] | None:
    """Returns the times at which it changes what the network can carry, in bit/s, for the flow that
    can have most.

    The last time is the end of the run. Flows that offer far less than they could carry do not
    count, because a curve of theirs would lie on the axis below it. Returns None if there are no
    others, or if a flow has no rate limit.
    """
    flows = [flow for flow in flows if not _is_far_below(run.flows[flow])]
    changes = sorted({0.0, *(h.actual_s for h in run.happenings if 0 < h.actual_s < run.end_s)})
    values = [[capacity_bps(run, flow, at_s) for flow in flows] for at_s in changes]
    known = [[value for value in of_time if value is not None] for of_time in values]
    if not flows or not all(known):
        return None
    most = [max(of_time) for of_time in known]
    return np.array([*changes, run.end_s]), np.array([*most, most[-1]])


def _is_far_below(flow: Mapping[str, Any]) -> bool:
    """Returns whether the application sends at a rate of its own that is a small part of the
    ceiling.
    """
    offered_bps, ceiling_bps = flow["app"].get("rate_bps"), flow["ceiling_bps"]
    return bool(offered_bps and ceiling_bps and offered_bps < SMALL_PART * ceiling_bps)


def _over_subflows(run: RunData, flow: str) -> Series | None:
    """Returns the sum of the bytes that arrived on the subflows; None if one of them does not
    report them.
    """
    sampled = [s for s in subflows_of(run, flow) if run.samples.metrics(s.entity)]
    counters = [run.samples.series(s.entity, "bytes_received") for s in sampled if tells_arrivals(run, s)]
    found = [counter for counter in counters if counter is not None]
    if not found or len(found) < len(sampled):
        return None
    times = np.unique(np.concatenate([counter.times_s for counter in found]))
    # A subflow had nothing before its first sample.
    starting = [(np.append(c.times_s[0] - 1e-6, c.times_s), np.append(0.0, c.values)) for c in found]
    return Series(times, np.sum([metrics.counter_at(t, v, times) for t, v in starting], axis=0))
