"""The common time axis of figures, and the width of the bins of rates."""

from __future__ import annotations

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.plots.specification import Axis
from mptcplab.results import RunData, Series

TIME = Axis("Time", "s")
BINS = 120


def time_of(run: RunData) -> Axis:
    """Returns the axis from 0 to the end of a run."""
    return Axis(TIME.quantity, TIME.unit, run.end_s)


def rate_axis() -> Axis:
    """Returns the axis of rates in bins."""
    return Axis("Throughput", "Mbit/s")


def bins_told(width_s: float) -> str:
    """Returns the remark on the width of the bins."""
    return f"Means of {width_s:g} s."


def bin_width(run: RunData) -> float:
    """Returns the width of bins in seconds: 1, 2 or 5 times a power of ten, at least the sample
    interval.

    A run has about 120 bins.
    """
    least = max(run.end_s / BINS, run.resolved["measure"]["every_ns"] / 1e9)
    power = 10.0 ** np.floor(np.log10(max(least, 1e-9)))
    return next(float(step * power) for step in (1, 2, 5, 10) if step * power >= least - 1e-12)


def bin_starts(run: RunData, width_s: float) -> Floats:
    """Returns the left edges of the bins of a run, at least one."""
    return np.asarray(width_s * np.arange(max(1, int(run.end_s / width_s + 1e-9))))


def per_bin(counter: Series, starts_s: Floats, width_s: float) -> Floats:
    """Returns by how much a counter grows in each bin."""
    edges = np.append(starts_s, starts_s[-1] + width_s)
    return np.diff(metrics.counter_at(counter.times_s, counter.values, edges))
