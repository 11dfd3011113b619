"""Compares two samples: ratios and differences with intervals, tests, and outliers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mptcplab._core import student_t_above, student_t_quantile
from mptcplab.metrics.arrays import Floats, Numbers
from mptcplab.metrics.statistics import median

APART = 5.0
"""An outlier is this many median absolute deviations from the median; of n values, by a
factor 1 + 4/n more.
"""
FEWEST = 5
"""With fewer values, deviations do not identify an outlier."""

Interval = tuple[float, float]
Estimate = tuple[float, Interval]
#: A mean, the square of its standard error, and its degrees of freedom.
Deviation = tuple[float, float, float]


def ratio_of_means(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
    """Returns the ratio of the means of two independent samples, and its interval by Fieller's
    theorem.

    Variances may differ: the degrees of freedom are Welch's. Returns None if a sample has fewer
    than two values, or if the second mean cannot be told from 0, because the ratio then has no
    interval.
    """
    if min(len(first), len(second)) < 2:
        return None
    (above, above_square, above_df), (below, below_square, below_df) = _mean(first), _mean(second)
    if below == 0:
        return None
    ratio = above / below
    if above_square == below_square == 0:
        return ratio, (ratio, ratio)
    # The degrees of freedom of above - ratio * below, whose mean is 0.
    df = _welch_df((above_square, above_df), (ratio**2 * below_square, below_df))
    t_square = _student_t(confidence, df) ** 2
    a = below**2 - t_square * below_square
    if a <= 0:
        return None
    root = np.sqrt((above * below) ** 2 - a * (above**2 - t_square * above_square))
    return ratio, (float((above * below - root) / a), float((above * below + root) / a))


def difference_of_means(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
    """Returns the difference of the means of two independent samples, and its interval by Welch's
    t.

    Returns None if a sample has fewer than two values.
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


def ratio_of_pairs(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
    """Returns the geometric mean of the ratios of pairs, and its interval by Student's t on their
    logarithms.

    Returns None for fewer than two pairs, or if a value is not above 0.
    """
    logs = _log_ratios(first, second)
    found = None if logs is None else _interval_of_mean(logs, confidence)
    if found is None:
        return None
    middle, (low, high) = found
    return float(np.exp(middle)), (float(np.exp(low)), float(np.exp(high)))


def difference_of_pairs(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
    """Returns the mean difference of pairs and its interval by Student's t; None for fewer than two
    pairs.
    """
    return _interval_of_mean(np.subtract(first, second), confidence)


def ratio_outside(first: Numbers, second: Numbers, allowed: Interval) -> float | None:
    """Returns the probability of a ratio of means this far outside ``allowed`` if the true one is
    inside.

    The test is a one-sided Welch's t. Returns 1 for a ratio inside, and None if `ratio_of_means`
    does.
    """
    found = ratio_of_means(first, second)
    if found is None:
        return None
    (above, above_square, above_df), (below, below_square, below_df) = _mean(first), _mean(second)

    def less(edge: float) -> Deviation:
        parts = (above_square, above_df), (edge**2 * below_square, below_df)
        return above - edge * below, above_square + edge**2 * below_square, _welch_df(*parts)

    return _outside(found[0], allowed, less)


def difference_outside(first: Numbers, second: Numbers, allowed: Interval) -> float | None:
    """Returns the same as `ratio_outside` for a difference of means; None if a sample has fewer
    than two values.
    """
    if min(len(first), len(second)) < 2:
        return None
    (one, one_square, one_df), (other, other_square, other_df) = _mean(first), _mean(second)
    df = _welch_df((one_square, one_df), (other_square, other_df))
    return _outside(one - other, allowed, lambda edge: (one - other - edge, one_square + other_square, df))


def paired_ratio_outside(first: Numbers, second: Numbers, allowed: Interval) -> float | None:
    """Returns the same as `ratio_outside` for ratios of pairs, by their logarithms; None if there
    is no ratio.
    """
    logs = _log_ratios(first, second)
    if logs is None or len(logs) < 2:
        return None
    middle, square, df = _mean(logs)
    ends = float(np.log(allowed[0])) if allowed[0] > 0 else -np.inf, float(np.log(allowed[1]))
    return _outside(middle, ends, lambda edge: (middle - edge, square, df))


def paired_difference_outside(first: Numbers, second: Numbers, allowed: Interval) -> float | None:
    """Returns the same as `ratio_outside` for differences of pairs; None for
    fewer than two pairs.
    """
    if len(first) < 2:
        return None
    middle, square, df = _mean(np.subtract(first, second))
    return _outside(middle, allowed, lambda edge: (middle - edge, square, df))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusts p-values so that several tests together err no more often than one (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def standing_apart(values: Numbers, least: float) -> list[int]:
    """Returns the indices of outliers: beyond `APART` median absolute deviations from the median,
    and beyond ``least``.

    The median absolute deviation (MAD) is the median of the distances from the median. It can be
    small by chance if there are few values, so the bound is wider then. In 5 to 10 % of normal
    samples one value is an outlier. Fewer than `FEWEST` values have none.
    """
    if len(values) < FEWEST:
        return []
    sample = np.asarray(values, dtype=np.float64)
    deviations = np.abs(sample - median(sample))
    bound = APART * (1 + 4 / len(sample)) * median(deviations)
    return [int(index) for index in np.flatnonzero(deviations > max(bound, least))]


def largest_unseen(n: int, confidence: float = 0.95) -> float:
    """Returns the largest share of all runs that an effect can have if none of
    ``n`` runs shows it.
    """
    return float(1 - (1 - confidence) ** (1 / n))


def _log_ratios(first: Numbers, second: Numbers) -> Floats | None:
    above, below = (np.asarray(values, dtype=np.float64) for values in (first, second))
    if np.any(above <= 0) or np.any(below <= 0):
        return None
    return np.asarray(np.log(above / below))


def _interval_of_mean(values: Numbers, confidence: float) -> Estimate | None:
    if len(values) < 2:
        return None
    middle, square, df = _mean(values)
    reach = _student_t(confidence, df) * float(np.sqrt(square)) if square else 0.0
    return middle, (middle - reach, middle + reach)


def _outside(value: float, allowed: Interval, less: Callable[[float], Deviation]) -> float:
    """Returns the one-sided p-value of an estimate outside ``allowed``. ``less`` returns the
    estimate minus a bound.
    """
    if allowed[0] <= value <= allowed[1]:
        return 1.0
    difference, square, df = less(allowed[0] if value < allowed[0] else allowed[1])
    return student_t_above(abs(difference) / float(np.sqrt(square)), df) if square else 0.0


def _welch_df(*means: tuple[float, float]) -> float:
    """Returns the degrees of freedom of a sum of means (Welch 1947), each a squared standard error
    and degrees.
    """
    terms = sum(square**2 / df for square, df in means)
    return sum(square for square, _ in means) ** 2 / terms if terms else 1.0


def _student_t(confidence: float, df: float) -> float:
    """Returns the value whose range on both sides of 0 contains Student's t with probability
    ``confidence``.
    """
    return student_t_quantile((1 - confidence) / 2, df)


def _mean(values: Numbers) -> Deviation:
    """Returns the mean, the square of its standard error, and the degrees of freedom."""
    sample = np.asarray(values, dtype=np.float64)
    return float(sample.mean()), float(sample.var(ddof=1)) / len(sample), len(sample) - 1
