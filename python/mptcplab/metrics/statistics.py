"""Statistics over repetitions and over a family."""

from __future__ import annotations

from itertools import pairwise
from math import comb

import numpy as np

from mptcplab.metrics.arrays import Numbers

SMALLEST_SAMPLE = 6
"""From this many runs on, the range covers the median with 95 %; below, the range stands for the interval."""


def median_interval(values: Numbers, confidence: float = 0.95) -> tuple[float, float, float] | None:
    """Median and the order statistics between which it lies with at least ``confidence``; None without values.

    The interval is the narrowest symmetric one; below six values it is the range.
    """
    if len(values) == 0:
        return None
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    rank = _interval_rank(len(ordered), confidence)
    return float(np.median(ordered)), float(ordered[rank]), float(ordered[-1 - rank])


def _interval_rank(n: int, confidence: float) -> int:
    """Largest k (from 0) so that the k-th smallest and k-th largest enclose the median with ``confidence``."""
    rank, outside = 0, 2 * 0.5**n
    while rank + 1 < n / 2:
        outside += 2 * comb(n, rank + 1) * 0.5**n
        if outside > 1 - confidence:
            break
        rank += 1
    return rank


def crossover(parameter: Numbers, first: Numbers, second: Numbers) -> tuple[float, tuple[float, float]] | None:
    """Where two curves over a parameter cross: the value by linear interpolation and the two parameters around it.

    ``parameter`` ascends. The first crossing counts; None if the curves do not cross.
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


def ratio_of_means(
    first: Numbers, second: Numbers, confidence: float = 0.9
) -> tuple[float, tuple[float, float]] | None:
    """Mean of ``first`` over mean of ``second``, two independent samples, and its interval by Fieller's theorem.

    Variances may differ: the degrees of freedom are Welch's. None below two values of either, and where the second mean
    is not told from 0, for then the ratio has no interval.
    """
    from scipy.stats import t

    if min(len(first), len(second)) < 2:
        return None
    (above, above_square, above_df), (below, below_square, below_df) = _mean(first), _mean(second)
    if below == 0:
        return None
    ratio = above / below
    # Of the difference above - ratio * below, whose mean is 0.
    parts = (above_square, ratio**2 * below_square)
    spread = sum(parts)
    if spread == 0:
        return ratio, (ratio, ratio)
    df = spread**2 / (parts[0] ** 2 / above_df + parts[1] ** 2 / below_df)
    t_square = float(t.ppf((1 + confidence) / 2, df)) ** 2
    a = below**2 - t_square * below_square
    if a <= 0:
        return None
    root = np.sqrt((above * below) ** 2 - a * (above**2 - t_square * above_square))
    return ratio, (float((above * below - root) / a), float((above * below + root) / a))


def difference_of_means(
    first: Numbers, second: Numbers, confidence: float = 0.9
) -> tuple[float, tuple[float, float]] | None:
    """Mean of ``first`` less mean of ``second``, two independent samples, and its interval by Welch's t.

    None below two values of either.
    """
    from scipy.stats import ttest_ind

    if min(len(first), len(second)) < 2:
        return None
    difference = float(np.mean(first) - np.mean(second))
    if np.ptp(first) == 0 and np.ptp(second) == 0:
        return difference, (difference, difference)
    low, high = ttest_ind(first, second, equal_var=False).confidence_interval(confidence)
    return difference, (float(low), float(high))


def _mean(values: Numbers) -> tuple[float, float, int]:
    """Mean, square of its standard error, degrees of freedom."""
    sample = np.asarray(values, dtype=np.float64)
    return float(sample.mean()), float(sample.var(ddof=1)) / len(sample), len(sample) - 1
