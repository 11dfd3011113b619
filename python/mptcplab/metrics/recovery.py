"""The effect of an event on a flow: recovery time, silence, and the remaining rate."""

from __future__ import annotations

import numpy as np

from mptcplab.metrics.arrays import Numbers

FRACTION = 0.9
"""A flow has recovered when it reaches this share of its target rate..."""

HOLD_BINS = 3
"""...in this number of successive bins."""

BASELINE_S = 5.0
"""The time before the event whose mean rate is the rate before the event."""


def recovery_time(
    bin_starts_s: Numbers, rates: Numbers, event_s: float, target: float, *, bins_apart: int = 1, hold: int = HOLD_BINS
) -> float | None:
    """Returns the seconds from the event to the first of ``hold`` successive bins at or above
    ``target``, or None.

    ``bins_apart`` is the distance in entries between a bin and the next that does not overlap it.
    It is 1 if the bins are disjoint.
    """
    starts = np.asarray(bin_starts_s, dtype=np.float64)
    reached = np.asarray(rates, dtype=np.float64) >= target
    held = np.ones(max(0, len(reached) - (hold - 1) * bins_apart), dtype=bool)
    for k in range(hold):
        held &= reached[k * bins_apart : k * bins_apart + len(held)]
    candidates = np.flatnonzero(held & (starts[: len(held)] >= event_s - 1e-9))
    return float(max(0.0, starts[candidates[0]] - event_s)) if len(candidates) else None


def longest_silence(deliveries_s: Numbers, event_s: float, window_s: float) -> float | None:
    """Returns the longest time in seconds between deliveries that overlaps ``[event, event +
    window]``, or None.
    """
    deliveries = np.asarray(deliveries_s, dtype=np.float64)
    before, after = deliveries[:-1], deliveries[1:]
    overlapping = (after > event_s) & (before < event_s + window_s)
    return float((after - before)[overlapping].max()) if overlapping.any() else None


def unaffected_fraction(rate_before: float, rate_during: float) -> float | None:
    """Returns the mean rate during an outage over the mean rate before it; None if the rate before
    was 0.
    """
    return rate_during / rate_before if rate_before > 0 else None
