"""Derived metrics of flows. Each is a function of one flow of one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.results import recovery
from mptcplab.results.entities import Json
from mptcplab.results.run_data import Absent, Happening, NotConcerned, RunData, Value, worst
from mptcplab.results.subflows import NO_SUBFLOWS, recreated, reused, subflows_of
from mptcplab.results.tables import NANOS_PER_SECOND, UnitTimes

NO_CONNECTION = "datagrams have no connection"
NO_EVENT = "no event concerns the flow"
NO_VIDEO = "the flow is not a video"
NO_STREAM = "the flow is not a stream of the application streaming"
#: Largest number of units of a stream that are examined one by one: 80 MB of times.
MOST_PLAYED_UNITS = 10_000_000
PROGRAMS = ("iperf3", "command")
IN_ORDER = "a stream is delivered in order; captures show the order on its subflows (mptcplab pcap)"
NO_UNITS = "no data unit was delivered"
TOO_FEW_UNITS = "fewer than two data units were delivered"


@dataclass(frozen=True)
class FlowView:
    """One flow of one run."""

    run: RunData
    id: str

    @property
    def described(self) -> Json:
        """The flow of the resolved experiment."""
        flow: Json = self.run.flows[self.id]
        return flow

    @property
    def units(self) -> UnitTimes:
        """The data units of the flow in order of receipt."""
        return self.run.units.of(self.id)

    @property
    def bytes(self) -> float | None:
        """Bytes delivered in order until the end."""
        return self.run.samples.last(f"flows.{self.id}", "bytes_in_order")

    @property
    def finished(self) -> bool:
        """Whether a finite flow delivered all its data."""
        finite = self.described["app"].get("bytes") is not None
        return finite and self.run.flow_results[self.id]["end_ns"] is not None


def _or_absent(value: float | None, why: str) -> Value:
    return Absent(why) if value is None else value


def goodput_bps(flow: FlowView) -> Value:
    """Returns the goodput from the start to the end of the flow."""
    delivered = flow.bytes
    if delivered is None:
        return Absent("the back-end supplied no samples of bytes_in_order")
    start, end = flow.run.start_s(flow.id), flow.run.flow_end_s(flow.id)
    why = f"the flow had no time to run: it starts at {start:.4g} s, and ends at {end:.4g} s"
    return _or_absent(metrics.goodput(delivered, start, end), why)


def ceiling_bps(flow: FlowView) -> Value:
    """Returns the payload capacity of the resolved flow."""
    return _or_absent(flow.described["ceiling_bps"], _why_unlimited(flow))


def _why_unlimited(flow: FlowView) -> str:
    """Returns why a flow has no payload capacity."""
    crossed = [hop["link"] for path in flow.described["paths"] for hop in path["hops"]]
    real = next((link for link in crossed if link in flow.run.real_links), None)
    if real is not None:
        return f"link {real} is real: it has no described rate"
    return "a path of the flow has no rate limit"


def ceiling_ratio(flow: FlowView) -> Value:
    """Returns goodput / ceiling_bps."""
    return _quotient(goodput_bps(flow), ceiling_bps(flow))


def fct_s(flow: FlowView) -> Value:
    """Returns the flow completion time of a finite flow."""
    if flow.described["app"].get("bytes") is None:
        return Absent("the flow is not finite")
    if not flow.finished:
        return Absent("the flow did not deliver all its data before the run ended")
    return metrics.completion_time(flow.run.start_s(flow.id), flow.run.flow_end_s(flow.id))


def fct_no_handshake_s(flow: FlowView) -> Value:
    """Returns the completion time from the first byte sent."""
    units, whole = flow.units, fct_s(flow)
    if isinstance(whole, Absent):
        return whole
    return flow.run.flow_end_s(flow.id) - float(units.sent_s.min()) if len(units) else Absent(NO_UNITS)


def connect_time_s(flow: FlowView) -> Value:
    """Returns the time from the call of connect until the connection is established."""
    established_ns = _established_ns(flow)
    if isinstance(established_ns, Absent):
        return established_ns
    if established_ns is None:
        return Absent("the connection was never established")
    return float(established_ns - flow.run.flow_results[flow.id]["start_ns"]) / NANOS_PER_SECOND


def connection_established(flow: FlowView) -> Value:
    """Returns 1 if the connection was established, else 0."""
    established_ns = _established_ns(flow)
    return established_ns if isinstance(established_ns, Absent) else float(established_ns is not None)


def connection_survived(flow: FlowView) -> Value:
    """Returns 1 if the connection was established and ended without an error, else 0."""
    established = connection_established(flow)
    if isinstance(established, Absent):
        return established
    return float(established == 1.0 and flow.run.flow_results[flow.id].get("error") is None)


def _established_ns(flow: FlowView) -> int | Absent | None:
    if flow.described["transport"] == "udp":
        return Absent(NO_CONNECTION)
    result = flow.run.flow_results[flow.id]
    established_ns: int | None = result.get("established_ns")
    if established_ns is None and flow.described["app"]["kind"] in PROGRAMS:
        return Absent("the program does not report when it connected")
    return established_ns


def recovery_s(flow: FlowView) -> Value:
    """Returns the longest recovery of the events that concern the flow."""
    happenings = flow.run.happenings
    return worst((_of_event(flow, h, recovery.default_recovery) for h in happenings), max, NO_EVENT)


def full_rate_s(flow: FlowView) -> Value:
    """Returns the longest time to the full rate of the failures that concern the flow."""
    return worst((_of_event(flow, h, recovery.full_rate_s) for h in flow.run.happenings), max, NO_EVENT)


def _of_event(flow: FlowView, happening: Happening, time_of: Callable[[RunData, str, Happening], Value]) -> Value:
    running = flow.run.start_s(flow.id) < happening.actual_s < flow.run.flow_end_s(flow.id)
    return time_of(flow.run, flow.id, happening) if running else NotConcerned(recovery.NOT_RUNNING)


def redundancy_ratio(flow: FlowView) -> Value:
    """Returns the bytes that the subflows carried / the bytes of the flow - 1. It is known only
    when nothing is in flight any more.
    """
    whole, delivered = fct_s(flow), flow.bytes
    if isinstance(whole, Absent):
        return whole
    found = subflows_of(flow.run, flow.id)
    if not found or not delivered:
        return Absent(NO_SUBFLOWS)
    return sum(subflow.bytes + (subflow.retransmitted_bytes or 0) for subflow in found) / delivered - 1.0


def load_balance(flow: FlowView) -> Value:
    """Returns the smallest / the largest number of bytes of the subflows."""
    found = [subflow.bytes for subflow in subflows_of(flow.run, flow.id)]
    if len(found) < 2:
        return Absent("the flow had one subflow" if found else NO_SUBFLOWS)
    return _or_absent(metrics.load_balance(found), "no subflow carried anything")


def fct_normalised(flow: FlowView) -> Value:
    """Returns the completion time / the time at capacity plus one RTT."""
    ceiling = ceiling_bps(flow)
    if isinstance(ceiling, Absent):
        return ceiling
    if not ceiling:
        return Absent("the payload capacity of the links rounds down to 0 bit/s")
    rtt_s = min(path["rtt_ns"] for path in flow.described["paths"]) / 1e9
    return _quotient(fct_s(flow), 8 * (flow.described["app"].get("bytes") or 0) / ceiling + rtt_s)


def jitter_s2(flow: FlowView) -> Value:
    """Returns the variance of the times between deliveries."""
    return _or_absent(metrics.interarrival_variance(np.sort(flow.units.delivered_s)), TOO_FEW_UNITS)


def jitter_s(flow: FlowView) -> Value:
    """Returns the standard deviation of the times between deliveries."""
    variance = jitter_s2(flow)
    return variance if isinstance(variance, Absent) else variance**0.5


def jitter_rfc3550_s(flow: FlowView) -> Value:
    """Returns the jitter of RFC 3550 at the end of the flow."""
    units = flow.units
    return _or_absent(metrics.rfc3550_jitter(units.received_s - units.sent_s), TOO_FEW_UNITS)


def delay_variance_s2(flow: FlowView) -> Value:
    """Returns the variance of unit delay."""
    return _or_absent(metrics.delay_variance(flow.units.delays_s), NO_UNITS)


def pdv_p99_s(flow: FlowView) -> Value:
    """Returns the 99th percentile of delay variation."""
    return _or_absent(metrics.packet_delay_variation(flow.units.delays_s), NO_UNITS)


def _in_order_of_arrival(flow: FlowView) -> UnitTimes | Absent:
    """Returns the units in order of arrival. Streams are excluded, because their units are observed
    at delivery, which is in order.
    """
    if flow.described["transport"] != "udp":
        return Absent(IN_ORDER)
    return flow.units if len(flow.units) else Absent(NO_UNITS)


def hol_delay_p99_s(flow: FlowView) -> Value:
    """Returns the 99th percentile of the wait for earlier data."""
    if isinstance(found := _in_order_of_arrival(flow), Absent):
        return found
    return _percentile(flow.units.delivered_s - flow.units.received_s, 99)


def loss_ratio(flow: FlowView) -> Value:
    """Returns the share of sent packets that never arrived. It counts those sent until the last
    sample that leaves the slowest packet time to arrive.
    """
    if flow.described["transport"] != "udp":
        return Absent("a reliable transport repairs its losses; see retransmitted_bytes")
    sent = flow.run.samples.series(f"flows.{flow.id}", "packets_sent")
    if sent is None or sent.last() == 0:
        return Absent("no packet was sent")
    units = flow.units
    horizon = flow.run.end_s - (float((units.received_s - units.sent_s).max()) if len(units) else 0.0)
    tick = int(np.searchsorted(sent.times_s, horizon, side="right")) - 1
    if tick < 0 or sent.values[tick] == 0:
        return Absent("the run was too short to distinguish lost packets from packets in flight")
    # Units are numbered in the order of sending, so the first ones are known even if times are
    # equal.
    arrived = np.count_nonzero(units.unit < sent.values[tick])
    return float(max(0.0, 1.0 - arrived / sent.values[tick]))


def reordering_ratio(flow: FlowView) -> Value:
    """Returns the share of reordered units."""
    found = _in_order_of_arrival(flow)
    return found if isinstance(found, Absent) else _or_absent(metrics.reordering_ratio(found.unit), NO_UNITS)


def reorder_extent(flow: FlowView) -> Value:
    """Returns the largest extent of a reordered unit, or 0 if all arrived in order."""
    found = _in_order_of_arrival(flow)
    if isinstance(found, Absent):
        return found
    return float(max((unit.extent for unit in metrics.reordered(found.unit)), default=0))


def n_reordering(flow: FlowView) -> Value:
    """Returns the largest n-reordering, or 0 if all units arrived in order."""
    found = _in_order_of_arrival(flow)
    if isinstance(found, Absent):
        return found
    return float(max((unit.n_reordering for unit in metrics.reordered(found.unit)), default=0))


def aggregation_benefit(flow: FlowView) -> Value:
    """Returns the benefit of the further paths."""
    paths = [path["ceiling_bps"] for path in flow.described["paths"]]
    if flow.described["transport"] != "mptcp" or len(paths) < 2:
        return Absent("the flow uses one path")
    goodput = goodput_bps(flow)
    if isinstance(goodput, Absent) or None in paths:
        return goodput if isinstance(goodput, Absent) else Absent(_why_unlimited(flow))
    return _or_absent(metrics.aggregation_benefit(goodput, paths), "the other paths add nothing to the best one")


def fair_share_ratio(flow: FlowView) -> Value:
    """Returns goodput / an equal share of the best path of the flow."""
    paths = [path for path in flow.described["paths"] if path["ceiling_bps"] is not None]
    if not paths:
        return Absent(_why_unlimited(flow))
    crowd = flow.run.flows_by_hop
    fair = max(path["ceiling_bps"] / max(crowd[_hop(hop)] for hop in path["hops"]) for path in paths)
    return _quotient(goodput_bps(flow), fair)


def video_bitrate_bps(flow: FlowView) -> Value:
    """Returns the mean bit rate of the segments of a video. Each segment is a unit."""
    video = _segments(flow)
    if isinstance(video, Absent):
        return video
    segment_s: float = flow.described["app"]["segment_ns"] / NANOS_PER_SECOND
    return 8 * float(video.bytes.mean()) / segment_s


def video_switches(flow: FlowView) -> Value:
    """Returns the number of segments with another size, and so bit rate, than the one before."""
    video = _segments(flow)
    return video if isinstance(video, Absent) else float(np.count_nonzero(np.diff(video.bytes)))


def stream_late_ratio(flow: FlowView, startup_s: float) -> Value:
    """Returns the share of units that arrive too late for a player that starts `startup_s` after
    the flow.
    """
    lateness = _lateness_s(flow)
    if isinstance(lateness, Absent):
        return lateness
    duration_s = flow.run.end_s - flow.run.start_s(flow.id)
    due = lateness[np.arange(len(lateness)) * _unit_s(flow) + startup_s <= duration_s]
    return _or_absent(metrics.late_ratio(due, startup_s), "the run ended before the player would have started")


def stream_startup_s(flow: FlowView) -> Value:
    """Returns the start-up delay with which at most one unit in 10,000 is late."""
    lateness = _lateness_s(flow)
    if isinstance(lateness, Absent):
        return lateness
    needed = metrics.percentile(lateness, 99.99)
    return Absent(NO_UNITS) if needed is None else max(0.0, needed)


def stream_throughput_ratio(flow: FlowView) -> Value:
    """Returns goodput / bit rate."""
    if flow.described["app"]["kind"] != "streaming":
        return Absent(NO_STREAM)
    return _quotient(goodput_bps(flow), flow.described["app"]["bitrate_bps"])


def stream_ceiling_ratio(flow: FlowView) -> Value:
    """Returns the capacity of the paths / bit rate."""
    if flow.described["app"]["kind"] != "streaming":
        return Absent(NO_STREAM)
    return _quotient(ceiling_bps(flow), flow.described["app"]["bitrate_bps"])


def _lateness_s(flow: FlowView) -> Floats | Absent:
    """Returns the lateness of each unit that is due before the run ends. A unit that never arrives
    counts as arriving at the end.
    """
    if flow.described["app"]["kind"] != "streaming":
        return Absent(NO_STREAM)
    units, start_s = flow.units, flow.run.start_s(flow.id)
    if not len(units):
        return Absent(NO_UNITS)
    duration_s = flow.run.end_s - start_s
    played_count = int(duration_s / _unit_s(flow)) + 1
    if played_count > MOST_PLAYED_UNITS:
        return Absent(f"more than {MOST_PLAYED_UNITS} units were due")
    arrivals_s = np.full(played_count, duration_s)
    played = units.unit < len(arrivals_s)
    arrivals_s[units.unit[played]] = units.delivered_s[played] - start_s
    return metrics.lateness(arrivals_s, _unit_s(flow))


def _unit_s(flow: FlowView) -> float:
    """Returns the playing time of a unit of a stream."""
    return 8 * float(flow.units.bytes.max()) / float(flow.described["app"]["bitrate_bps"])


def _segments(flow: FlowView) -> UnitTimes | Absent:
    if flow.described["app"]["kind"] != "video":
        return Absent(NO_VIDEO)
    return flow.units if len(flow.units) else Absent("no segment arrived")


def _hop(hop: Json) -> tuple[str, str]:
    return hop["link"], hop["direction"]


def _quotient(value: Value, divisor: Value) -> Value:
    if isinstance(value, Absent):
        return value
    if isinstance(divisor, Absent):
        return divisor
    return value / divisor if divisor else Absent("division by zero")


def _percentile(values: Floats, percent: float) -> Value:
    return _or_absent(metrics.percentile(values, percent), NO_UNITS)


FLOW_METRICS: dict[str, Callable[[FlowView], Value]] = {
    "goodput_bps": goodput_bps,
    "ceiling_bps": ceiling_bps,
    "ceiling_ratio": ceiling_ratio,
    "start_s": lambda flow: flow.run.start_s(flow.id),
    "end_s": lambda flow: flow.run.flow_end_s(flow.id),
    "fct_s": fct_s,
    "fct_no_handshake_s": fct_no_handshake_s,
    "fct_normalised": fct_normalised,
    "connect_time_s": connect_time_s,
    "connection_established": connection_established,
    "connection_survived": connection_survived,
    "recovery_s": recovery_s,
    "full_rate_s": full_rate_s,
    "redundancy_ratio": redundancy_ratio,
    "load_balance": load_balance,
    "subflows_reused": lambda flow: reused(flow.run, flow.id, flow.run.happenings),
    "subflows_recreated": lambda flow: recreated(flow.run, flow.id, flow.run.happenings),
    "jitter_s2": jitter_s2,
    "jitter_s": jitter_s,
    "jitter_rfc3550_s": jitter_rfc3550_s,
    "delay_variance_s2": delay_variance_s2,
    "pdv_p99_s": pdv_p99_s,
    "delay_p50_s": lambda flow: _percentile(flow.units.delays_s, 50),
    "delay_p95_s": lambda flow: _percentile(flow.units.delays_s, 95),
    "delay_p99_s": lambda flow: _percentile(flow.units.delays_s, 99),
    "hol_delay_p99_s": hol_delay_p99_s,
    "loss_ratio": loss_ratio,
    "reordering_ratio": reordering_ratio,
    "reorder_extent": reorder_extent,
    "n_reordering": n_reordering,
    "aggregation_benefit": aggregation_benefit,
    "fair_share_ratio": fair_share_ratio,
    "video_bitrate_bps": video_bitrate_bps,
    "video_switches": video_switches,
    "stream_late_1s": partial(stream_late_ratio, startup_s=1.0),
    "stream_late_2s": partial(stream_late_ratio, startup_s=2.0),
    "stream_late_5s": partial(stream_late_ratio, startup_s=5.0),
    "stream_late_10s": partial(stream_late_ratio, startup_s=10.0),
    "stream_startup_s": stream_startup_s,
    "stream_throughput_ratio": stream_throughput_ratio,
    "stream_ceiling_ratio": stream_ceiling_ratio,
}
"""Functions of the derived metrics of one flow. Groups combine them as the
table of metrics says.
"""
