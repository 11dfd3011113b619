"""The common time axis of figures, and the width of the bins of rates."""

from __future__ import annotations

import numpy as np

from mptcplab.results import RunData

TIME = "Time in s"
BINS = 120


def bin_width(run: RunData) -> float:
    """Returns the width of bins in seconds: 1, 2 or 5 times a power of ten, at least the sample interval.

    A run has about 120 bins.
    """
    least = max(run.end_s / BINS, run.resolved["measure"]["every_ns"] / 1e9)
    power = 10.0 ** np.floor(np.log10(max(least, 1e-9)))
    return next(float(step * power) for step in (1, 2, 5, 10) if step * power >= least - 1e-12)
