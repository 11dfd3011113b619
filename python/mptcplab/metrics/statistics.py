"""Statistics over repetitions and over a family."""

from __future__ import annotations

from itertools import pairwise
from math import comb, sqrt

import numpy as np

from mptcplab.metrics.arrays import Floats, Numbers

SMALLEST_SAMPLE = 6
"""From this number of runs on, the range contains the median with 95 %. With fewer, the range
replaces the interval.
"""


def median(values: Numbers) -> float:
    """Returns the median of at least one value. np.median would do the same, but loads numpy.ma,
    which takes longer than all metrics of a short run.
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return float(ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def median_interval(values: Numbers, confidence: float = 0.95) -> tuple[float, float, float] | None:
    """Returns the median and the order statistics that enclose it with at least ``confidence``;
    None without values.

    The interval is the narrowest symmetric one. Below six values it is the range.
    """
    if len(values) == 0:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    rank = _interval_rank(len(ordered), confidence)
    return median(ordered), float(ordered[rank]), float(ordered[-1 - rank])


def share_interval(successes: int, n: int) -> tuple[float, float, float] | None:
    """Returns the share of successes and its interval of 95 % (Wilson 1927); None without values.

    The interval ends at 0 without a success and at 1 without a failure.
    """
    if n == 0:
        return None
    share, z = successes / n, 1.959964
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return share, max(0.0, middle - half) if successes else 0.0, min(1.0, middle + half) if successes < n else 1.0


def _interval_rank(n: int, confidence: float) -> int:
    """Returns the largest k (from 0) for which the k-th smallest and largest values enclose the
    median.

    The probability is at least ``confidence``.
    """
    rank, outside = 0, 2 * 0.5**n
    while rank + 1 < n / 2:
        outside += 2 * comb(n, rank + 1) * 0.5**n
        if outside > 1 - confidence:
            break
        rank += 1
    return rank


def crossover(parameter: Numbers, first: Numbers, second: Numbers) -> tuple[float, tuple[float, float]] | None:
    """Returns where two curves over a parameter cross, by linear interpolation, and the two
    parameters around it.

    ``parameter`` ascends. The first crossing counts. Returns None if the curves do not cross.
    """
    difference = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    points = list(zip(np.asarray(parameter, dtype=np.float64).tolist(), difference.tolist(), strict=True))
    for (left, before), (right, after) in pairwise(points):
        if before == 0:
            return left, (left, left)
        if before * after <= 0:
            at = left + (right - left) * before / (before - after)
            return at, (at, at) if after == 0 else (left, right)
    return None


def rank_correlation(first: Numbers, second: Numbers) -> float | None:
    """Returns Spearman's rank correlation of two series of equal length; None if one of them is
    constant.
    """
    ranks = [_ranks(values) for values in (first, second)]
    deviations = [one - one.mean() for one in ranks]
    squares = [float(np.sum(one**2)) for one in deviations]
    if not squares[0] or not squares[1]:
        return None
    return float(np.sum(deviations[0] * deviations[1]) / np.sqrt(squares[0] * squares[1]))


def _ranks(values: Numbers) -> Floats:
    """Returns the ranks from 0. Equal values share the mean of their ranks."""
    _, places, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    means: Floats = last - (counts - 1) / 2
    return means[places]
