"""Rates and completion times from byte counters."""

from __future__ import annotations

import numpy as np

from mptcplab.metrics.arrays import Floats, Numbers


def goodput(in_order_bytes: float, start_s: float, last_s: float) -> float | None:
    """Returns the goodput in bit/s: in-order application bytes from the call of connect to the last
    byte.

    Returns None if the time is 0.
    """
    if last_s <= start_s:
        return None
    return 8.0 * in_order_bytes / (last_s - start_s)


def completion_time(start_s: float, last_byte_s: float) -> float:
    """Returns the flow completion time in seconds, with the handshake if ``start_s`` is the call of
    connect.
    """
    return last_byte_s - start_s


def counter_at(times_s: Numbers, counter: Numbers, at_s: Numbers) -> Floats:
    """Returns a cumulative counter at any times, linear between its samples and constant outside
    them.
    """
    return np.interp(np.asarray(at_s, dtype=np.float64), times_s, counter)


def binned_rate(
    times_s: Numbers, byte_counter: Numbers, start_s: float, end_s: float, bin_s: float
) -> tuple[Floats, Floats]:
    """Returns the left edges in seconds and the rates in bit/s of the whole bins of ``bin_s``
    between two times.
    """
    bins = max(0, int(np.floor((end_s - start_s) / bin_s + 1e-9)))
    edges = start_s + bin_s * np.arange(bins + 1)
    return edges[:-1], 8.0 * np.diff(counter_at(times_s, byte_counter, edges)) / bin_s


def mean_rate(times_s: Numbers, byte_counter: Numbers, start_s: float, end_s: float) -> float | None:
    """Returns the mean rate in bit/s of a byte counter between two times; None if no time is
    between them.
    """
    if end_s <= start_s:
        return None
    first, last = counter_at(times_s, byte_counter, [start_s, end_s])
    return float(8.0 * (last - first) / (end_s - start_s))


def utilisation(wire_bytes: float, rate_bps: float, seconds: float) -> float | None:
    """Returns the used share of a link's rate, 0 to 1; None for a link without a rate, or if the
    time is 0.
    """
    if rate_bps <= 0 or seconds <= 0:
        return None
    return 8.0 * wire_bytes / (rate_bps * seconds)
