"""What a trace is like in numbers."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from mptcplab.traces.model import Step, Trace, averaged

#: The rate is told for intervals of this length, because schedulers and congestion controls see no
#: finer one.
INTERVAL_NS = 100_000_000
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True)
class Statistics:
    """The length in seconds; of a trace with a capacity the mean rate and the quantiles of the rate
    in 100 ms, in bit/s, and the longest time without any; and the quantiles of the delay in
    seconds, and the mean loss.
    """

    length_s: float
    mean_rate_bps: float | None
    rate_bps: dict[str, float] | None
    longest_outage_s: float | None
    delay_s: dict[str, float] | None
    mean_loss: float | None


def statistics(trace: Trace) -> Statistics:
    """Returns the statistics of a trace."""
    has_capacity = trace.has_capacity
    return Statistics(
        trace.period_ns / 1e9,
        trace.mean_rate_bps(),
        _quantiles([(step.value, end - step.from_ns) for step, end in _intervals(trace)]) if has_capacity else None,
        longest_outage_ns(trace) / 1e9 if has_capacity else None,
        _quantiles([(step.value / 1e9, end - step.from_ns) for step, end in trace.spans(trace.delays)])
        if trace.delays
        else None,
        sum(step.value * (end - step.from_ns) for step, end in trace.spans(trace.losses)) / trace.period_ns
        if trace.losses
        else None,
    )


def _intervals(trace: Trace) -> list[tuple[Step[int], int]]:
    return list(trace.spans(averaged(trace, min(INTERVAL_NS, trace.period_ns))))


def longest_outage_ns(trace: Trace) -> int:
    """Returns the longest time without an opportunity, or with a rate of 0, in a trace that
    repeats.
    """
    if trace.opportunities_ns:
        instants = [*trace.opportunities_ns, trace.opportunities_ns[0] + trace.period_ns]
        return max(later - earlier for earlier, later in itertools.pairwise(instants))
    longest = current = 0
    # Twice, because an outage at the end goes on at the start.
    for step, end in [*trace.spans(trace.rates)] * 2:
        current = 0 if step.value else current + end - step.from_ns
        longest = max(longest, min(current, trace.period_ns))
    return longest


def _quantiles(values: Sequence[tuple[float, int]]) -> dict[str, float]:
    """Returns quantiles of values by the time that they hold."""
    ordered = sorted(values)
    total = sum(span for _, span in ordered)
    found: dict[str, float] = {}
    passed = 0
    waiting = list(QUANTILES)
    for value, span in ordered:
        passed += span
        while waiting and passed >= waiting[0] * total:
            found[f"p{round(100 * waiting.pop(0))}"] = value
    return found
