"""Two samples held against each other: ratios and differences with intervals, tests, runs that stand apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import NormalDist

import numpy as np

from mptcplab.metrics.arrays import Floats, Numbers

APART = 5.0
"""A value beyond this many median deviations from the median stands apart; of n values, 4/n more of it."""
FEWEST = 5
"""The deviations of fewer values tell nothing of one of them."""

Interval = tuple[float, float]
Estimate = tuple[float, Interval]
#: A mean, the square of its standard error, degrees of freedom.
Deviation = tuple[float, float, float]


def ratio_of_means(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
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


def difference_of_means(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
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


def ratio_of_pairs(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
    """Geometric mean of the ratios of pairs, and its interval by Student's t on their logarithms.

    None below two pairs, and where a value is not above 0.
    """
    logs = _log_ratios(first, second)
    found = None if logs is None else _interval_of_mean(logs, confidence)
    if found is None:
        return None
    middle, (low, high) = found
    return float(np.exp(middle)), (float(np.exp(low)), float(np.exp(high)))


def difference_of_pairs(first: Numbers, second: Numbers, confidence: float = 0.9) -> Estimate | None:
    """Mean difference of pairs and its interval by Student's t; None below two pairs."""
    return _interval_of_mean(np.subtract(first, second), confidence)


def ratio_outside(first: Numbers, second: Numbers, allowed: Interval) -> float | None:
    """How likely a ratio of means so far outside ``allowed`` is while the true one is not: one-sided Welch's t.

    1 within; None where `ratio_of_means` has none.
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
    """The same of a difference of means; None below two values of either."""
    if min(len(first), len(second)) < 2:
        return None
    (one, one_square, one_df), (other, other_square, other_df) = _mean(first), _mean(second)
    df = _welch_df((one_square, one_df), (other_square, other_df))
    return _outside(one - other, allowed, lambda edge: (one - other - edge, one_square + other_square, df))


def paired_ratio_outside(first: Numbers, second: Numbers, allowed: Interval) -> float | None:
    """The same of ratios of pairs, on their logarithms; None where `ratio_of_pairs` has none."""
    logs = _log_ratios(first, second)
    if logs is None or len(logs) < 2:
        return None
    middle, square, df = _mean(logs)
    ends = float(np.log(allowed[0])) if allowed[0] > 0 else -np.inf, float(np.log(allowed[1]))
    return _outside(middle, ends, lambda edge: (middle - edge, square, df))


def paired_difference_outside(first: Numbers, second: Numbers, allowed: Interval) -> float | None:
    """The same of differences of pairs; None below two pairs."""
    if len(first) < 2:
        return None
    middle, square, df = _mean(np.subtract(first, second))
    return _outside(middle, allowed, lambda edge: (middle - edge, square, df))


def holm(p_values: Sequence[float]) -> list[float]:
    """Probabilities of several tests, adjusted so that together they err no oftener than one (Holm 1979)."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * p_values[index]))
        adjusted[index] = largest
    return adjusted


def standing_apart(values: Numbers, least: float) -> list[int]:
    """Which values are beyond `APART` median deviations from the median, and further from it than ``least``.

    The deviations are those from the median (MAD), which of few values happen to be small: so the bound is wider there,
    and in 5 to 10 % of normal samples one value stands apart. None of less than `FEWEST` values does.
    """
    if len(values) < FEWEST:
        return []
    sample = np.asarray(values, dtype=np.float64)
    deviations = np.abs(sample - np.median(sample))
    bound = APART * (1 + 4 / len(sample)) * float(np.median(deviations))
    return [int(index) for index in np.flatnonzero(deviations > max(bound, least))]


def largest_unseen(n: int, confidence: float = 0.95) -> float:
    """The part of runs that something may befall which befell none of ``n``."""
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
    """One-sided probability of an estimate beyond an end of ``allowed``; ``less``: the estimate less that end."""
    if allowed[0] <= value <= allowed[1]:
        return 1.0
    difference, square, df = less(allowed[0] if value < allowed[0] else allowed[1])
    return _tail(abs(difference) / float(np.sqrt(square)), df) if square else 0.0


def _welch_df(*means: tuple[float, float]) -> float:
    """Degrees of freedom of a sum of means (Welch 1947), each by its squared standard error and its degrees."""
    terms = sum(square**2 / df for square, df in means)
    return sum(square for square, _ in means) ** 2 / terms if terms else 1.0


@cache
def _student_t(confidence: float, df: float) -> float:
    """The value within which Student's t stays with ``confidence``, on both sides of 0."""
    from mpmath import findroot

    start = NormalDist().inv_cdf((1 + confidence) / 2)
    return float(findroot(lambda value: 2 * _tail(value, df) - (1 - confidence), start))


def _tail(value: float, df: float) -> float:
    """How likely Student's t is above a value."""
    from mpmath import betainc

    # Abramowitz and Stegun, 26.5.27.
    return float(betainc(df / 2, 0.5, 0, df / (df + value**2), regularized=True)) / 2


def _mean(values: Numbers) -> Deviation:
    """Mean, square of its standard error, degrees of freedom."""
    sample = np.asarray(values, dtype=np.float64)
    return float(sample.mean()), float(sample.var(ddof=1)) / len(sample), len(sample) - 1
