"""Derived metrics of subflows. Each is a function of one subflow of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.results.run_data import Absent, RunData, Value
from mptcplab.results.subflows import Subflow, subflows_of

NO_WINDOWS = "the back-end gave no samples of its windows"


@dataclass(frozen=True)
class SubflowView:
    """One subflow of one run, during the whole run or between two times."""

    run: RunData
    subflow: Subflow
    since_s: float = 0.0
    until_s: float = inf

    @property
    def two_packets_bytes(self) -> int:
        """Two full packets: the smallest cwnd of Reno, and what one acknowledgment frees (RFC 1122,
        section 4.2.3.2).
        """
        interfaces = self.run.resolved["interfaces"]
        mtus = [one["mtu_bytes"] for one in interfaces if one["id"] == self.subflow.interface]
        return 2 * min(mtus, default=1500)

    def gauge(self, metric: str) -> Floats | None:
        """Returns the samples of a gauge while the subflow was open, or None without samples."""
        series = self.run.samples.series(self.subflow.entity, metric)
        if series is None:
            return None
        inside = series.values[(series.times_s >= self.since_s) & (series.times_s <= self.until_s)]
        return inside if len(inside) else None


def cwnd_limited_ratio(view: SubflowView) -> Value:
    """Returns the fraction of samples in which cwnd was in use."""
    cwnd, in_flight = view.gauge("cwnd_bytes"), view.gauge("in_flight_bytes")
    if cwnd is None or in_flight is None:
        return Absent(NO_WINDOWS)
    return float(np.mean(cwnd - in_flight < view.two_packets_bytes))


def smallest_cwnd_ratio(view: SubflowView) -> Value:
    """Returns the fraction of samples in which cwnd had its smallest value."""
    cwnd = view.gauge("cwnd_bytes")
    return Absent(NO_WINDOWS) if cwnd is None else float(np.mean(cwnd <= view.two_packets_bytes))


def share(view: SubflowView) -> Value:
    """Returns its fraction of the payload bytes of all subflows of the flow."""
    carried = sum(subflow.bytes for subflow in subflows_of(view.run, view.subflow.flow))
    return view.subflow.bytes / carried if carried else Absent("no subflow carried anything")


def opened_s(view: SubflowView) -> Value:
    """Returns the time at which it was established."""
    found = view.subflow.opened_s
    return Absent("the back-end does not tell when it was opened") if found is None else found


def closed_s(view: SubflowView) -> Value:
    """Returns the time at which it was closed."""
    found = view.subflow.closed_s
    return Absent("it was open when the run ended") if found is None else found


SUBFLOW_METRICS: dict[str, Callable[[SubflowView], Value]] = {
    "cwnd_limited_ratio": cwnd_limited_ratio,
    "smallest_cwnd_ratio": smallest_cwnd_ratio,
    "share": share,
    "opened_s": opened_s,
    "closed_s": closed_s,
}
"""Functions of the derived metrics of one subflow."""
