"""Statistics over repetitions and over a family."""

from __future__ import annotations

from itertools import pairwise
from math import comb
from statistics import NormalDist

import numpy as np

from mptcplab.metrics.arrays import Floats, Numbers

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


def rank_correlation(first: Numbers, second: Numbers) -> float | None:
    """Spearman's rank correlation of two series of equal length; None where one of them does not vary."""
    ranks = [_ranks(values) for values in (first, second)]
    deviations = [one - one.mean() for one in ranks]
    squares = [float(np.sum(one**2)) for one in deviations]
    if not squares[0] or not squares[1]:
        return None
    return float(np.sum(deviations[0] * deviations[1]) / np.sqrt(squares[0] * squares[1]))


def _ranks(values: Numbers) -> Floats:
    """Ranks from 0; equal values share the mean of theirs."""
    _, places, counts = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts) - 1
    means: Floats = last - (counts - 1) / 2
    return means[places]


def ratio_of_means(
    first: Numbers, second: Numbers, confidence: float = 0.9
) -> tuple[float, tuple[float, float]] | None:
    """Mean of ``first`` over mean of ``second``, two independent samples, and its interval by Fieller's theorem.

    Variances may differ: the degrees of freedom are Welch's. None below two values of either, and where the second mean
    is not told from 0, for then the ratio has no interval.
    """
    if min(len(first), len(second)) < 2:
        return None
    (above, above_square, above_df), (below, below_square, below_df) = _mean(first), _mean(second)
    if below == 0:
        return None
    ratio = above / below
    if above_square == below_square == 0:
        return ratio, (ratio, ratio)
    # Of the difference above - ratio * below, whose mean is 0.
    df = _welch_df((above_square, above_df), (ratio**2 * below_square, below_df))
    t_square = _student_t(confidence, df) ** 2
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
    if min(len(first), len(second)) < 2:
        return None
    (one, one_square, one_df), (other, other_square, other_df) = _mean(first), _mean(second)
    difference = one - other
    if one_square == other_square == 0:
        return difference, (difference, difference)
    df = _welch_df((one_square, one_df), (other_square, other_df))
    reach = _student_t(confidence, df) * float(np.sqrt(one_square + other_square))
    return difference, (difference - reach, difference + reach)


def _welch_df(*means: tuple[float, int]) -> float:
    """Degrees of freedom of a sum of means (Welch 1947), each by its squared standard error and its degrees."""
    return sum(square for square, _ in means) ** 2 / sum(square**2 / df for square, df in means)


def _student_t(confidence: float, df: float) -> float:
    """The value within which Student's t stays with ``confidence``, on both sides of 0."""
    from mpmath import betainc, findroot

    def outside(value: float) -> float:
        # Abramowitz and Stegun, 26.5.27.
        return float(betainc(df / 2, 0.5, 0, df / (df + value**2), regularized=True)) - (1 - confidence)

    return float(findroot(outside, NormalDist().inv_cdf((1 + confidence) / 2)))


def _mean(values: Numbers) -> tuple[float, float, int]:
    """Mean, square of its standard error, degrees of freedom."""
    sample = np.asarray(values, dtype=np.float64)
    return float(sample.mean()), float(sample.var(ddof=1)) / len(sample), len(sample) - 1
