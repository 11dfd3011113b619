"""Metrics of the division of capacity."""

from __future__ import annotations

import numpy as np

from mptcplab.metrics.arrays import Numbers


def jain_index(shares: Numbers) -> float | None:
    """Returns Jain's fairness index, 1/n to 1; None if the sum is 0. A multipath connection is one
    share.
    """
    x = np.asarray(shares, dtype=np.float64)
    squares = float(np.sum(x * x))
    return float(np.sum(x) ** 2 / (len(x) * squares)) if squares > 0 else None


def load_balance(shares: Numbers) -> float | None:
    """Returns the smallest over the largest share, 0 to 1 (1: even); None if
    nothing was carried.
    """
    x = np.asarray(shares, dtype=np.float64)
    return float(x.min() / x.max()) if len(x) and x.max() > 0 else None


def aggregation_benefit(goodput_bps: float, single_path_bps: Numbers) -> float | None:
    """Returns the benefit of several paths, -1 to 1: 0 is the best path alone, 1 the sum of all
    paths.

    The definition is that of Kaspar and of Paasch et al. Returns None for fewer than two paths, or
    if the other paths add nothing to the best.
    """
    paths = np.asarray(single_path_bps, dtype=np.float64)
    if len(paths) < 2:
        return None
    best, total = float(paths.max()), float(paths.sum())
    scale = total - best if goodput_bps >= best else best
    return (goodput_bps - best) / scale if scale > 0 else None
