"""Delay and its variation."""

from __future__ import annotations

import numpy as np

from mptcplab.metrics.arrays import Floats, Numbers

#: The resolution of times, which are whole nanoseconds. Equal times can appear to differ by one.
GRAIN_NS = 1.0


def percentile(values: Numbers, percent: float) -> float | None:
    """Returns the smallest value that at least ``percent`` of the values do not exceed; None
    without values.
    """
    if len(values) == 0:
        return None
    return float(np.percentile(np.asarray(values, dtype=np.float64), percent, method="inverted_cdf"))


def delay_variance(times_s: Numbers) -> float | None:
    """Returns the population variance in s^2 of times with a resolution of one nanosecond; None
    without times.
    """
    return _variance_s2(_nanoseconds(times_s)) if len(times_s) else None


def interarrival_variance(arrivals_s: Numbers) -> float | None:
    """Returns the application jitter in s^2: the population variance of the times between arrivals.

    Returns None for fewer than two arrivals.
    """
    if len(arrivals_s) < 2:
        return None
    return _variance_s2(np.diff(_nanoseconds(arrivals_s)))


def packet_delay_variation(delays_s: Numbers, percent: float = 99.0) -> float | None:
    """Returns the PDV in seconds (RFC 5481 section 4.2): the percentile of delay minus the smallest
    delay.

    Returns None without delays.
    """
    if len(delays_s) == 0:
        return None
    delays = np.asarray(delays_s, dtype=np.float64)
    return percentile(delays - delays.min(), percent)


def lateness(arrivals_s: Numbers, unit_s: float) -> Floats:
    """Returns by how many seconds each unit, in order, misses playback without a start-up delay.

    ``unit_s`` is the playing time of a unit.
    """
    return np.asarray(arrivals_s, dtype=np.float64) - np.arange(len(arrivals_s)) * unit_s


def late_ratio(lateness_s: Numbers, startup_s: float) -> float | None:
    """Returns the share of units that arrive too late for playback delayed by ``startup_s``; None
    without units.
    """
    if len(lateness_s) == 0:
        return None
    return float(np.mean(np.asarray(lateness_s, dtype=np.float64) > startup_s))


def rfc3550_jitter(delays_s: Numbers) -> float | None:
    """Returns the final smoothed jitter in seconds (RFC 3550 section 6.4.1); None for fewer than
    two delays.

    The delays are in order of arrival.
    """
    return _smoothed(np.diff(_nanoseconds(delays_s)))


def rfc3550_jitter_constant_gap(arrivals_s: Numbers) -> float | None:
    """Returns the RFC 3550 jitter in seconds of units sent at a constant but unknown gap.

    It is computed from the differences of inter-arrival times.
    """
    return _smoothed(np.diff(_nanoseconds(arrivals_s), 2))


def _nanoseconds(times_s: Numbers) -> Floats:
    """Rounds times to whole nanoseconds, because binary seconds have a rounding error."""
    return np.rint(np.asarray(times_s, dtype=np.float64) * 1e9)


def _variance_s2(times_ns: Floats) -> float:
    """Returns the variance. Deviations of a nanosecond count as 0, because they are the resolution
    of the clock.
    """
    deviations = times_ns - times_ns.mean()
    deviations[np.abs(deviations) < GRAIN_NS] = 0.0
    return float(np.mean(deviations**2)) / 1e18


def _smoothed(differences_ns: Floats) -> float | None:
    """Returns the smoothed jitter of RFC 3550 in seconds. Differences of a
    nanosecond count as 0.
    """
    if len(differences_ns) == 0:
        return None
    jitter_ns = 0.0
    for difference in np.abs(differences_ns).tolist():
        jitter_ns += ((difference if difference > GRAIN_NS else 0.0) - jitter_ns) / 16.0
    return jitter_ns / 1e9
