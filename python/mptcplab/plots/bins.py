"""The time axis of all figures, and how finely rates are binned on it."""

from __future__ import annotations

import numpy as np

from mptcplab.results import RunData

TIME = "Time in s"
BINS = 120


def bin_width(run: RunData) -> float:
    """Width of bins in seconds: 1, 2 or 5 times a power of ten, about 120 in a run, not below the sample interval."""
    least = max(run.end_s / BINS, run.resolved["measure"]["every_ns"] / 1e9)
    power = 10.0 ** np.floor(np.log10(max(least, 1e-9)))
    return next(float(step * power) for step in (1, 2, 5, 10) if step * power >= least - 1e-12)
