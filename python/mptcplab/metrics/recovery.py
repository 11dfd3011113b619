"""What an event does to a flow: recovery time, silence, what is left."""

from __future__ import annotations

import numpy as np

from mptcplab.metrics.arrays import Numbers

FRACTION = 0.9
"""A flow has recovered at this share of its target rate."""

HOLD_BINS = 3
"""...in so many successive bins."""

BASELINE_S = 5.0
"""Time before the event whose mean rate is what the flow had."""


def recovery_time(
    bin_starts_s: Numbers, rates: Numbers, event_s: float, target: float, *, bins_apart: int = 1, hold: int = HOLD_BINS
) -> float | None:
    """Seconds from the event to the first of ``hold`` successive bins at ``target`` or above; None if there is none.

    ``bins_apart``: how many entries lie between a bin and the next that does not overlap it (1: the bins are disjoint).
    """
    starts = np.asarray(bin_starts_s, dtype=np.float64)
    reached = np.asarray(rates, dtype=np.float64) >= target
    held = np.ones(max(0, len(reached) - (hold - 1) * bins_apart), dtype=bool)
    for k in range(hold):
        held &= reached[k * bins_apart : k * bins_apart + len(held)]
    candidates = np.flatnonzero(held & (starts[: len(held)] >= event_s - 1e-9))
    return float(max(0.0, starts[candidates[0]] - event_s)) if len(candidates) else None


def longest_silence(deliveries_s: Numbers, event_s: float, window_s: float) -> float | None:
    """Longest time in seconds between deliveries that overlaps ``[event, event + window]``; None if none does."""
    deliveries = np.asarray(deliveries_s, dtype=np.float64)
    before, after = deliveries[:-1], deliveries[1:]
    overlapping = (after > event_s) & (before < event_s + window_s)
    return float((after - before)[overlapping].max()) if overlapping.any() else None


def unaffected_fraction(rate_before: float, rate_during: float) -> float | None:
    """Mean rate during an outage over the mean rate before it; None if nothing was there before."""
    return rate_during / rate_before if rate_before > 0 else None
