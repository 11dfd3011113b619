"""Delay and its variation."""

from __future__ import annotations

import numpy as np

from mptcplab.metrics.arrays import Floats, Numbers


def percentile(values: Numbers, percent: float) -> float | None:
    """The smallest value that at least ``percent`` of the values do not exceed; None without values."""
    if len(values) == 0:
        return None
    return float(np.percentile(np.asarray(values, dtype=np.float64), percent, method="inverted_cdf"))


def interarrival_variance(arrivals_s: Numbers) -> float | None:
    """Application jitter in s^2: population variance of the times between arrivals; None below two arrivals."""
    if len(arrivals_s) < 2:
        return None
    return float(np.var(np.diff(arrivals_s)))


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
    return _smoothed(np.diff(np.asarray(delays_s, dtype=np.float64)))


def rfc3550_jitter_constant_gap(arrivals_s: Numbers) -> float | None:
    """RFC 3550 jitter in seconds of units sent at a constant, unknown gap: from differences of inter-arrival times."""
    return _smoothed(np.diff(np.asarray(arrivals_s, dtype=np.float64), 2))


def _smoothed(differences: Floats) -> float | None:
    if len(differences) == 0:
        return None
    jitter = 0.0
    for difference in np.abs(differences).tolist():
        jitter += (difference - jitter) / 16.0
    return jitter
