"""Delay and its variation."""

from __future__ import annotations

import numpy as np

from mptcplab.metrics.arrays import Floats, Numbers

#: Times are whole nanoseconds, so that a constant one may seem to differ by one.
GRAIN_NS = 1.0


def percentile(values: Numbers, percent: float) -> float | None:
    """The smallest value that at least ``percent`` of the values do not exceed; None without values."""
    if len(values) == 0:
        return None
    return float(np.percentile(np.asarray(values, dtype=np.float64), percent, method="inverted_cdf"))


def delay_variance(times_s: Numbers) -> float | None:
    """Population variance in s^2 of times whose grain is a nanosecond; None without times."""
    return _variance_s2(_nanoseconds(times_s)) if len(times_s) else None


def interarrival_variance(arrivals_s: Numbers) -> float | None:
    """Application jitter in s^2: population variance of the times between arrivals; None below two arrivals."""
    if len(arrivals_s) < 2:
        return None
    return _variance_s2(np.diff(_nanoseconds(arrivals_s)))


def packet_delay_variation(delays_s: Numbers, percent: float = 99.0) -> float | None:
    """PDV in seconds (RFC 5481 section 4.2): the percentile of delay above the smallest delay; None without delays."""
    if len(delays_s) == 0:
        return None
    delays = np.asarray(delays_s, dtype=np.float64)
    return percentile(delays - delays.min(), percent)


def lateness(arrivals_s: Numbers, unit_s: float) -> Floats:
    """Seconds by which each unit, of ``unit_s`` playing time and in order, misses a player without start-up delay."""
    return np.asarray(arrivals_s, dtype=np.float64) - np.arange(len(arrivals_s)) * unit_s


def late_ratio(lateness_s: Numbers, startup_s: float) -> float | None:
    """Share of units that come after they are to be played, ``startup_s`` after the stream; None without units."""
    if len(lateness_s) == 0:
        return None
    return float(np.mean(np.asarray(lateness_s, dtype=np.float64) > startup_s))


def rfc3550_jitter(delays_s: Numbers) -> float | None:
    """Smoothed jitter in seconds (RFC 3550 section 6.4.1) at the end; delays in order of arrival; None below two."""
    return _smoothed(np.diff(_nanoseconds(delays_s)))


def rfc3550_jitter_constant_gap(arrivals_s: Numbers) -> float | None:
    """RFC 3550 jitter in seconds of units sent at a constant, unknown gap: from differences of inter-arrival times."""
    return _smoothed(np.diff(_nanoseconds(arrivals_s), 2))


def _nanoseconds(times_s: Numbers) -> Floats:
    """Times as the whole nanoseconds that they were: seconds in binary leave a rest."""
    return np.rint(np.asarray(times_s, dtype=np.float64) * 1e9)


def _variance_s2(times_ns: Floats) -> float:
    """Deviations of a nanosecond are the grain of the clock: of what is constant the variance is 0."""
    deviations = times_ns - times_ns.mean()
    deviations[np.abs(deviations) < GRAIN_NS] = 0.0
    return float(np.mean(deviations**2)) / 1e18


def _smoothed(differences_ns: Floats) -> float | None:
    """Of RFC 3550, in seconds; differences of a nanosecond are the grain of the clock."""
    if len(differences_ns) == 0:
        return None
    jitter_ns = 0.0
    for difference in np.abs(differences_ns).tolist():
        jitter_ns += ((difference if difference > GRAIN_NS else 0.0) - jitter_ns) / 16.0
    return jitter_ns / 1e9
