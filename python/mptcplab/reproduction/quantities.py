"""The quantities that claims measure in a run: a metric of an entity, or a quantity over part of
the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.reproduction.notation import Measure
from mptcplab.reproduction.observation import Kept, Observation
from mptcplab.results import Absent, RunData, Value, subflows_of
from mptcplab.results.subflows import Subflow, parts_of
from mptcplab.results.tables import Series

BIN_S = 1.0
#: For a path to carry nearly all of the data for longer than by chance.
LONG_BIN_S, MOST = 5.0, 0.9
NO_SAMPLES = "the back-end gave no samples of it"
PARAMETER = "parameters."


def measured(measure: Measure, observation: Observation, flow: str | None = None) -> Value:
    """Returns the value in one run.

    Quantities are those of `flow`, or of the first flow, which the paper's experiment is about.
    Raises KeyError for a name that is neither a quantity nor a metric.
    """
    if measure.name.startswith(PARAMETER):
        return float(observation.parameters[measure.name.removeprefix(PARAMETER)])
    if measure.is_rate or _is_quantity(measure.name):
        return _over_time(measure, observation.run, flow)
    entity, _, name = measure.name.rpartition(".")
    value = observation.metrics.get(entity, {}).get(name)
    return Absent(observation.absent.get(entity, {}).get(name, NO_SAMPLES)) if value is None else value


def needed(measures: Iterable[Measure]) -> Kept:
    """Returns what an observation has to keep for measures."""
    of = list(measures)
    counters = frozenset(one.counter for one in of if one.counter is not None)
    return Kept(counters, units=any(one.name in OF_UNITS for one in of))


def is_known(measure: Measure) -> bool:
    """Returns whether a name is a quantity, or has the form of a metric of an entity."""
    quantity, dot, argument = measure.name.partition(".")
    if _is_quantity(measure.name):
        return bool(argument) == (quantity in QUANTITIES_OF)
    return bool(dot)


def _is_quantity(name: str) -> bool:
    return name in QUANTITIES or name.partition(".")[0] in QUANTITIES_OF


def _over_time(measure: Measure, run: RunData, flow: str | None) -> Value:
    start_s, end_s = measure.window_s or (0.0, run.end_s)
    if end_s > run.end_s + 1e-9 and start_s >= run.end_s:
        return Absent(f"the run ended at {run.end_s:.4g} s")
    end_s = min(end_s, run.end_s)
    if measure.counter is not None:
        return _rate_of(run, *measure.counter, start_s, end_s)
    name, _, argument = measure.name.partition(".")
    of_flow = flow or next(iter(run.flows))
    if argument:
        return QUANTITIES_OF[name](run, of_flow, argument, start_s, end_s)
    return QUANTITIES[name](run, of_flow, start_s, end_s)


def of_each_flow(measure: Measure, observation: Observation) -> dict[str, float]:
    """Returns a metric of each flow of a group, by the names of the flows: ``flows.bulk.fct_s``."""
    group, _, name = measure.name.rpartition(".")
    flows = (flow for flow in observation.run.flows if f"flows.{flow}".startswith(f"{group}."))
    found = {flow: observation.metrics.get(f"flows.{flow}", {}).get(name) for flow in flows}
    return {flow: value for flow, value in found.items() if value is not None}


def _mean_bps(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    counter = run.in_order(flow)
    mean = None if counter is None else metrics.mean_rate(counter.times_s, counter.values, start_s, end_s)
    return Absent(NO_SAMPLES) if mean is None else mean


def _rates(run: RunData, flow: str, start_s: float, end_s: float) -> list[float]:
    counter = run.in_order(flow)
    if counter is None:
        return []
    return [float(v) for v in metrics.binned_rate(counter.times_s, counter.values, start_s, end_s, BIN_S)[1]]


def _of_rates(of: Callable[[list[float]], float], run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    rates = _rates(run, flow, start_s, end_s)
    return of(rates) if rates else Absent(NO_SAMPLES)


def _arrived_bps(run: RunData, flow: str, start_s: float, end_s: float, bin_s: float) -> list[float]:
    """Returns the rate of arrivals over all subflows in each bin, in any order, without duplicates
    on a subflow.
    """
    counters = [run.samples.series(one.entity, "bytes_received") for one in subflows_of(run, flow)]
    of_each = [
        # A subflow that opened later had carried nothing before its first sample.
        metrics.binned_rate([0.0, *one.times_s], [0.0, *one.values], start_s, end_s, bin_s)[1]
        for one in counters
        if one is not None
    ]
    return [float(rate) for rate in np.sum(of_each, axis=0)] if of_each else []


def _min_arrived_bps(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    return min(_arrived_bps(run, flow, start_s, end_s, BIN_S), default=Absent(NO_SAMPLES))


def _mean_arrived_bps(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    return next(iter(_arrived_bps(run, flow, start_s, end_s, end_s - start_s)), Absent(NO_SAMPLES))


def _paths_used(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    """Returns the number of address pairs between which new data arrive."""
    series = ((one.addresses, run.samples.series(one.entity, "bytes_received")) for one in subflows_of(run, flow))
    known = [(addresses, counter) for addresses, counter in series if counter is not None]
    if not known:
        return Absent(NO_SAMPLES)
    return float(len({addresses for addresses, counter in known if _growth(counter, start_s, end_s) > 0}))


def _path_changes(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    """Returns how often another address pair than before carries more than `MOST` of what arrives,
    in bins of `LONG_BIN_S`.
    """
    arrived: dict[object, Floats] = {}
    for one in subflows_of(run, flow):
        if (counter := run.samples.series(one.entity, "bytes_received")) is not None:
            rates = metrics.binned_rate([0.0, *counter.times_s], [0.0, *counter.values], start_s, end_s, LONG_BIN_S)[1]
            arrived[one.addresses] = arrived.get(one.addresses, 0.0) + rates
    if not arrived:
        return Absent(NO_SAMPLES)
    rates = np.array(list(arrived.values()))
    whole = rates.sum(axis=0)
    most = [int(rates[:, n].argmax()) for n in range(len(whole)) if rates[:, n].max() > MOST * whole[n]]
    return float(sum(before != after for before, after in pairwise(most)))


def _timeouts(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    """Returns the number of retransmission timeouts of all subflows."""
    timeouts = _grown(run, subflows_of(run, flow), "rto_count", start_s, end_s)
    return Absent(NO_SAMPLES) if timeouts is None else timeouts


def _variation(rates: list[float]) -> float:
    return float(np.std(rates) / np.mean(rates)) if np.mean(rates) else float("inf")


def _gaps(run: RunData, flow: str, start_s: float, end_s: float) -> list[float]:
    """Returns the times between deliveries of consecutive units that are both within the window."""
    times = np.sort(run.units.of(flow).delivered_s)
    within = times[(times >= start_s) & (times <= end_s)]
    return [float(v) for v in np.diff(within)]


def _of_gaps(of: Callable[[list[float]], float], run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    gaps = _gaps(run, flow, start_s, end_s)
    return of(gaps) if gaps else Absent("fewer than two data units were delivered there")


def _waiting_bytes(run: RunData, flow: str, start_s: float, end_s: float) -> Value:
    series = run.samples.series(f"flows.{flow}", "out_of_order_bytes")
    if series is None:
        return Absent(f"back-end {run.backend} does not tell what waits in the receiver's out-of-order queue")
    within = series.values[(series.times_s >= start_s) & (series.times_s <= end_s)]
    return float(within.mean()) if len(within) else Absent(NO_SAMPLES)


def _rate_of(run: RunData, entity: str, counter: str, start_s: float, end_s: float) -> Value:
    """Returns the growth of a counter per second; of a counter of bytes, the rate in bit/s."""
    series = run.samples.series(entity, counter)
    mean_bps = None if series is None else metrics.mean_rate(series.times_s, series.values, start_s, end_s)
    if mean_bps is None:
        return Absent(NO_SAMPLES)
    return mean_bps if "bytes" in counter else mean_bps / 8


def _share_over(run: RunData, flow: str, link: str, start_s: float, end_s: float) -> Value:
    """Returns the share of a flow's new payload that arrives over subflows whose
    path has the link.
    """
    found = [(one, run.samples.series(one.entity, "bytes_received")) for one in subflows_of(run, flow)]
    grown = [(link in parts_of(run, one), _growth(series, start_s, end_s)) for one, series in found if series]
    whole = sum(growth for _, growth in grown)
    if not whole:
        return Absent("nothing arrived there" if grown else NO_SAMPLES)
    return sum(growth for is_over, growth in grown if is_over) / whole


def _established_as(run: RunData, flow: str, transport: str, _start_s: float, _end_s: float) -> Value:
    """Returns 1 if the connection was established as `transport`. After a fallback, an MPTCP
    connection is TCP.
    """
    result = run.flow_results[flow]
    is_mptcp = run.flows[flow]["transport"] == "mptcp" and result.get("fallback") is None
    return float(result.get("established_ns") is not None and is_mptcp == (transport == "mptcp"))


def _recovered_by(run: RunData, flow: str, argument: str, start_s: float, end_s: float) -> Value:
    """Returns 1 if subflows recovered by `rto`, by `fast` (retransmissions without a timeout), or
    had `none`.

    `rto.eth` is about the subflows whose path has link `eth`. One timeout makes it `rto`.
    """
    kind, _, link = argument.partition(".")
    over = [one for one in subflows_of(run, flow) if not link or link in parts_of(run, one)]
    timeouts = _grown(run, over, "rto_count", start_s, end_s)
    retransmitted = _grown(run, over, "retransmitted_bytes", start_s, end_s)
    if timeouts is None or retransmitted is None:
        return Absent(NO_SAMPLES)
    return float(kind == ("rto" if timeouts else "fast" if retransmitted else "none"))


def _grown(run: RunData, subflows: Sequence[Subflow], counter: str, start_s: float, end_s: float) -> float | None:
    """Returns how much a counter of some subflows grew; None without samples of any."""
    found = [series for one in subflows if (series := run.samples.series(one.entity, counter)) is not None]
    return sum(_growth(series, start_s, end_s) for series in found) if found else None


def _growth(counter: Series, start_s: float, end_s: float) -> float:
    """Returns how much a counter grew. A subflow that opened later had carried nothing before its
    first sample.
    """
    before, after = np.interp([start_s, end_s], counter.times_s, counter.values, left=0.0)
    return float(after - before)


#: Quantities of a flow between two times in seconds.
QUANTITIES: dict[str, Callable[[RunData, str, float, float], Value]] = {
    "mean_bps": _mean_bps,
    "min_bps": partial(_of_rates, min),
    "min_arrived_bps": _min_arrived_bps,
    "mean_arrived_bps": _mean_arrived_bps,
    "paths_used": _paths_used,
    "path_changes": _path_changes,
    "timeouts": _timeouts,
    "variation": partial(_of_rates, _variation),
    "longest_pause_s": partial(_of_gaps, max),
    "jitter_s2": partial(_of_gaps, lambda gaps: float(np.var(gaps))),
    "waiting_bytes": _waiting_bytes,
}
#: The quantities that are made of data units.
OF_UNITS = ("longest_pause_s", "jitter_s2")
#: The same of what follows the point: a link, a transport, a kind of recovery.
QUANTITIES_OF: dict[str, Callable[[RunData, str, str, float, float], Value]] = {
    "share_over": _share_over,
    "established_as": _established_as,
    "recovered_by": _recovered_by,
}
