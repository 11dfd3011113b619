"""The quantities that claims measure in a run: a metric of an entity, or a quantity over part of the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from mptcplab import metrics
from mptcplab.reproduction.notation import Measure
from mptcplab.reproduction.observation import Observation
from mptcplab.results import Absent, RunData, Value, subflows_of

BIN_S = 1.0
NO_SAMPLES = "the back-end gave no samples of it"
PARAMETER = "parameters."


def measured(measure: Measure, observation: Observation) -> Value:
    """Returns the value in one run. Raises KeyError for a name that is neither a quantity nor a metric."""
    if measure.name.startswith(PARAMETER):
        return float(observation.parameters[measure.name.removeprefix(PARAMETER)])
    if "." not in measure.name:
        run = observation.run
        start_s, end_s = measure.window_s or (0.0, run.end_s)
        if end_s > run.end_s + 1e-9 and start_s >= run.end_s:
            return Absent(f"the run ended at {run.end_s:.4g} s")
        return QUANTITIES[measure.name](run, start_s, min(end_s, run.end_s))
    entity, _, name = measure.name.rpartition(".")
    value = observation.metrics.get(entity, {}).get(name)
    return Absent(observation.absent.get(entity, {}).get(name, NO_SAMPLES)) if value is None else value


def of_each_flow(measure: Measure, observation: Observation) -> dict[str, float]:
    """Returns a metric of each flow of a group, by the names of the flows: ``flows.bulk.fct_s``."""
    group, _, name = measure.name.rpartition(".")
    flows = (flow for flow in observation.run.flows if f"flows.{flow}".startswith(f"{group}."))
    found = {flow: observation.metrics.get(f"flows.{flow}", {}).get(name) for flow in flows}
    return {flow: value for flow, value in found.items() if value is not None}


def _mean_bps(run: RunData, start_s: float, end_s: float) -> Value:
    counter = run.in_order(_flow(run))
    mean = None if counter is None else metrics.mean_rate(counter.times_s, counter.values, start_s, end_s)
    return Absent(NO_SAMPLES) if mean is None else mean


def _rates(run: RunData, start_s: float, end_s: float) -> list[float]:
    counter = run.in_order(_flow(run))
    if counter is None:
        return []
    return [float(v) for v in metrics.binned_rate(counter.times_s, counter.values, start_s, end_s, BIN_S)[1]]


def _of_rates(of: Callable[[list[float]], float], run: RunData, start_s: float, end_s: float) -> Value:
    rates = _rates(run, start_s, end_s)
    return of(rates) if rates else Absent(NO_SAMPLES)


def _arrived_bps(run: RunData, start_s: float, end_s: float, bin_s: float) -> list[float]:
    """Returns the rate of arrivals over all subflows in each bin, in any order, without duplicates on a subflow."""
    counters = [run.samples.series(one.entity, "bytes_received") for one in subflows_of(run, _flow(run))]
    of_each = [
        # A subflow that opened later had carried nothing before its first sample.
        metrics.binned_rate([0.0, *one.times_s], [0.0, *one.values], start_s, end_s, bin_s)[1]
        for one in counters
        if one is not None
    ]
    return [float(rate) for rate in np.sum(of_each, axis=0)] if of_each else []


def _min_arrived_bps(run: RunData, start_s: float, end_s: float) -> Value:
    return min(_arrived_bps(run, start_s, end_s, BIN_S), default=Absent(NO_SAMPLES))


def _mean_arrived_bps(run: RunData, start_s: float, end_s: float) -> Value:
    return next(iter(_arrived_bps(run, start_s, end_s, end_s - start_s)), Absent(NO_SAMPLES))


def _paths_used(run: RunData, start_s: float, end_s: float) -> Value:
    """Returns the number of address pairs between which new data arrive."""
    flow = _flow(run)
    series = ((one.addresses, run.samples.series(one.entity, "bytes_received")) for one in subflows_of(run, flow))
    known = [(addresses, counter) for addresses, counter in series if counter is not None]
    if not known:
        return Absent(NO_SAMPLES)
    grown = ((addresses, np.interp([start_s, end_s], one.times_s, one.values)) for addresses, one in known)
    return float(len({addresses for addresses, (before, after) in grown if after > before}))


def _timeouts(run: RunData, start_s: float, end_s: float) -> Value:
    """Returns the number of retransmission timeouts of all subflows."""
    counters = [run.samples.series(one.entity, "rto_count") for one in subflows_of(run, _flow(run))]
    known = [np.interp([start_s, end_s], one.times_s, one.values) for one in counters if one is not None]
    return float(sum(after - before for before, after in known)) if known else Absent(NO_SAMPLES)


def _variation(rates: list[float]) -> float:
    return float(np.std(rates) / np.mean(rates)) if np.mean(rates) else float("inf")


def _gaps(run: RunData, start_s: float, end_s: float) -> list[float]:
    """Returns the times between deliveries of consecutive units that are both within the window."""
    times = np.sort(run.units.of(_flow(run)).delivered_s)
    within = times[(times >= start_s) & (times <= end_s)]
    return [float(v) for v in np.diff(within)]


def _of_gaps(of: Callable[[list[float]], float], run: RunData, start_s: float, end_s: float) -> Value:
    gaps = _gaps(run, start_s, end_s)
    return of(gaps) if gaps else Absent("fewer than two data units were delivered there")


def _waiting_bytes(run: RunData, start_s: float, end_s: float) -> Value:
    series = run.samples.series(f"flows.{_flow(run)}", "out_of_order_bytes")
    if series is None:
        return Absent(f"back-end {run.backend} does not tell what waits in the receiver's out-of-order queue")
    within = series.values[(series.times_s >= start_s) & (series.times_s <= end_s)]
    return float(within.mean()) if len(within) else Absent(NO_SAMPLES)


def _flow(run: RunData) -> str:
    """Returns the flow that a paper's experiment is about: its first flow."""
    return next(iter(run.flows))


#: Quantities of the first flow between two times in seconds.
QUANTITIES: dict[str, Callable[[RunData, float, float], Value]] = {
    "mean_bps": _mean_bps,
    "min_bps": partial(_of_rates, min),
    "min_arrived_bps": _min_arrived_bps,
    "mean_arrived_bps": _mean_arrived_bps,
    "paths_used": _paths_used,
    "timeouts": _timeouts,
    "variation": partial(_of_rates, _variation),
    "longest_pause_s": partial(_of_gaps, max),
    "jitter_s2": partial(_of_gaps, lambda gaps: float(np.var(gaps))),
    "waiting_bytes": _waiting_bytes,
}
