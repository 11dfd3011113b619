"""The table of metrics: name, unit, entity, form, definition, and the
back-ends that supply each.
"""
# One row per metric, on one line where it fits a wide screen, because the rows are read as a table.
# ruff: noqa: E501

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Literal

from mptcplab.results.radio import states_told

Kind = Literal["flow", "subflow", "link", "interface", "switch", "host", "probe", "event", "run", "family"]
Form = Literal["counter", "gauge", "derived", "series", "distribution"]
Grouping = Literal["sum", "max", "min"]

#: The back-ends of this version.
SUPPLIERS = ("sim", "userspace", "kernel")

# The reasons that back-ends do not supply a metric. A back-end that is not a key supplies it.
CAPTURE = dict.fromkeys(SUPPLIERS, "needs an analysis of captures")
UNTOLD = {"userspace": "not sampled in real time", "kernel": "the kernel does not report it"}
DSS = dict.fromkeys(
    SUPPLIERS, "the analysis of captures does not count them; `mptcplab pcap --decode` shows those in a packet"
)
IN_CAPTURES = CAPTURE | {"kernel": "the kernel does not report it; needs an analysis of captures"}
UNCOUNTED = UNTOLD | {"sim": "the engine does not count it"}
NO_PLAYER = dict.fromkeys(("userspace", "kernel"), "only the simulator has the player")
LIVE = {"sim": "nothing is late in virtual time"}
CONTROLLER = {"sim": "the simulator forwards as the entries would, without switches or a controller"}
NESTED_RUNS = dict.fromkeys(SUPPLIERS, "needs further runs of the same scenario with other arms")


@dataclass(frozen=True)
class Metric:
    """A metric.

    `form` is that of a sampled counter or gauge, of a number derived from samples and units, or of
    a series or distribution. `awaits` has the reason for each back-end that does not supply the
    metric; there it evaluates to null with that reason. `grouped` is how a group of flows combines
    it. `paper_names` are the names in published evaluations.
    """

    name: str
    kind: Kind
    unit: str
    form: Form
    definition: str
    awaits: Mapping[str, str] = field(default_factory=dict)
    grouped: Grouping | None = None
    paper_names: tuple[str, ...] = ()

    @property
    def scalar(self) -> bool:
        """Whether the metric is one number for a run, which an expectation can name."""
        return self.form not in ("series", "distribution")

    @property
    def suppliers(self) -> list[str]:
        """The back-ends that supply it."""
        return [backend for backend in SUPPLIERS if backend not in self.awaits]


def _m(
    kind: Kind,
    name: str,
    unit: str,
    form: Form,
    definition: str,
    *,
    awaits: Mapping[str, str] | None = None,
    grouped: Grouping | None = None,
    papers: str = "",
) -> Metric:
    names = tuple(papers.split("; ")) if papers else ()
    return Metric(name, kind, unit, form, definition, awaits or {}, grouped, names)


_REUSED = "subflows hit by an outage that carry new data after it with the same addresses and ports, while no other subflow was opened in their place"

_FLOW = [
    _m("flow", "bytes_sent", "B", "counter", "application bytes handed over to the transport", grouped="sum"),
    _m("flow", "bytes_received", "B", "counter", "application bytes that arrived, in any order", grouped="sum"),
    _m("flow", "bytes_in_order", "B", "counter", "application bytes delivered in order, without duplicates", grouped="sum"),
    _m("flow", "packets_sent", "packets", "counter", "packets sent", grouped="sum"),
    _m("flow", "packets_received", "packets", "counter", "packets received", grouped="sum"),
    _m("flow", "goodput_bps", "bit/s", "derived",
       "8 x bytes delivered in order / (end - start); start: the call to connect; end: the last byte of a finite flow, else the end of the run",
       grouped="sum",
       papers="throughput_mbps; throughput_mbps_mean; mptcp_mbps; tcp_mbps; udp_mbps; up_mbps; down_mbps; total_mbps; per_client_mbps; throughput_total"),
    _m("flow", "throughput_bps", "bit/s", "series", "8 x bytes delivered in order per bin, at the receiver; bins of 1 s unless stated otherwise",
       papers="throughput_mbps(t); total_mbps(t)"),
    _m("flow", "ceiling_bps", "bit/s", "derived",
       "payload capacity of all paths of the flow together: the maximum flow over the rates of the links, minus the headers of the flow's transport; for a Wi-Fi station, the rate is the one that it reaches with its best signal when it has the channel to itself", grouped="sum"),
    _m("flow", "ceiling_ratio", "", "derived", "goodput_bps / ceiling_bps", papers="up_pct; down_pct; per_client_pct"),
    _m("flow", "start_s", "s", "derived", "time of the call to connect, or of the first datagram", grouped="min"),
    _m("flow", "end_s", "s", "derived", "time of the last byte of a finite flow, else the end of the run", grouped="max"),
    _m("flow", "fct_s", "s", "derived", "flow completion time: last in-order byte - call to connect; only for finite flows that ended",
       grouped="max",
       papers="flow_completion_time_s; fct_s per flow; total_delivery_time_s; transfer_time_s"),
    _m("flow", "fct_cdf", "s", "distribution", "flow completion times of the flows in a group", papers="fct_cdf"),
    _m("flow", "fct_no_handshake_s", "s", "derived", "last in-order byte - first byte sent", grouped="max"),
    _m("flow", "fct_normalised", "", "derived", "fct_s / (bytes x 8 / ceiling_bps + smallest path RTT)"),
    _m("flow", "connect_time_s", "s", "derived", "connection established - call to connect", grouped="max", papers="connect_time_s"),
    _m("flow", "connection_established", "0/1", "derived", "whether the connection was established", grouped="min", papers="connection_established"),
    _m("flow", "connection_survived", "0/1", "derived", "whether the connection was neither reset nor timed out before its data or the run ended",
       grouped="min", papers="connection_survived"),
    _m("flow", "jitter_s2", "s^2", "derived", "population variance of the times between deliveries of consecutive data units",
       papers="app_jitter(variance of data unit arrival time)"),
    _m("flow", "jitter_s", "s", "derived", "standard deviation of the times between deliveries of consecutive data units"),
    _m("flow", "jitter_rfc3550_s", "s", "derived", "smoothed difference of delays at the end of the flow (RFC 3550 section 6.4.1)"),
    _m("flow", "delay_variance_s2", "s^2", "derived", "population variance of the unit delay"),
    _m("flow", "pdv_p99_s", "s", "derived", "99th percentile of the unit delay minus the smallest unit delay (RFC 5481 section 4.2)"),
    _m("flow", "delay_s", "s", "distribution", "one-way delay of units: delivered in order - sent"),
    _m("flow", "delay_p50_s", "s", "derived", "median of the unit delay"),
    _m("flow", "delay_p95_s", "s", "derived", "95th percentile of the unit delay"),
    _m("flow", "delay_p99_s", "s", "derived", "99th percentile of the unit delay"),
    _m("flow", "hol_delay_p99_s", "s", "derived", "99th percentile of head-of-line blocking: unit delivered - unit received; always 0 for datagrams, which are delivered when they are received; no value for a stream, whose captures show it (`mptcplab pcap`)", papers="hol_blocking_ms"),
    _m("flow", "arrival_order", "", "series", "unit numbers in order of arrival", papers="dsn_arrival(t)"),
    _m("flow", "loss_ratio", "", "derived", "units sent that never arrived / units sent, not counting units that may still be in flight at the end",
       papers="udp_loss_pct"),
    _m("flow", "reordering_ratio", "", "derived", "units that arrive after a unit with a higher number / units (RFC 4737 section 3.4); only for datagrams, like the next two metrics, because a stream is delivered in order"),
    _m("flow", "reorder_extent", "units", "derived", "largest extent of a reordered unit (RFC 4737 section 4.2.2)", grouped="max", papers="reorder_extent"),
    _m("flow", "n_reordering", "units", "derived", "largest n-reordering (RFC 4737 section 5.4); TCP interprets a value of 3 as a loss", grouped="max"),
    _m("flow", "reorder_density", "", "distribution", "share of units by displacement (RFC 5236 section 4)", papers="reorder_density"),
    _m("flow", "out_of_order_bytes", "B", "gauge", "bytes in the receiver's out-of-order queue", awaits=UNTOLD, grouped="sum"),
    _m("flow", "retransmitted_bytes", "B", "counter", "payload bytes retransmitted on the same subflow", grouped="sum", papers="retransmitted_bytes"),
    _m("flow", "reinjected_bytes", "B", "counter", "payload bytes reinjected: sent again at the connection level, on another subflow or the same one", grouped="sum"),
    _m("flow", "duplicate_bytes", "B", "counter", "payload bytes that arrived more than once", awaits=IN_CAPTURES, grouped="sum", papers="duplicate_bytes"),
    _m("flow", "receive_window_bytes", "B", "gauge", "receive window of the connection, as the receiver announces it", grouped="sum"),
    _m("flow", "redundancy_ratio", "", "derived", "payload bytes on the links / unique bytes - 1; only for finite flows that ended"),
    _m("flow", "subflows_opened", "subflows", "counter", "subflows established since the start", grouped="sum", papers="subflow_count; tcp_subflows"),
    _m("flow", "subflows_alive", "subflows", "gauge", "established subflows that are not closed; in the simulator, stale subflows are left out as well", grouped="sum", papers="subflows_alive(t)"),
    _m("flow", "video_startup_s", "s", "counter", "video: time from the start of the flow until the player starts", awaits=NO_PLAYER, grouped="max"),
    _m("flow", "video_stalls", "stalls", "counter", "video: number of times that the buffer ran empty", awaits=NO_PLAYER, grouped="sum"),
    _m("flow", "video_stalled_s", "s", "counter", "video: total time of stalls after the start", awaits=NO_PLAYER, grouped="sum"),
    _m("flow", "video_buffer_s", "s", "gauge", "video: playing time in the buffer", awaits=NO_PLAYER),
    _m("flow", "video_bitrate_bps", "bit/s", "derived", "video: mean bit rate of the segments that arrived", awaits=NO_PLAYER),
    _m("flow", "video_switches", "switches", "derived", "video: number of segments whose bit rate differs from that of the previous segment", awaits=NO_PLAYER, grouped="sum"),
    _m("flow", "stream_late_1s", "", "derived", "streaming: share of units that arrive too late for a player that starts 1 s after the flow, among the units due before the run ends", grouped="max"),
    _m("flow", "stream_late_2s", "", "derived", "as stream_late_1s, with 2 s of start-up delay", grouped="max"),
    _m("flow", "stream_late_5s", "", "derived", "as stream_late_1s, with 5 s of start-up delay", grouped="max"),
    _m("flow", "stream_late_10s", "", "derived", "as stream_late_1s, with 10 s of start-up delay", grouped="max"),
    _m("flow", "stream_startup_s", "s", "derived", "streaming: start-up delay with which at most 1 unit in 10,000 is late; a lower bound if units never arrive, because they count as arriving at the end of the run", grouped="max"),
    _m("flow", "stream_throughput_ratio", "", "derived", "streaming: goodput_bps / bit rate; the stream's own bit rate limits the goodput", grouped="min"),
    _m("flow", "stream_ceiling_ratio", "", "derived", "streaming: ceiling_bps / bit rate; the capacity of the paths, whatever rate the transport achieves", grouped="min"),
    _m("flow", "subflows_reused", "subflows", "derived",
       f"{_REUSED}; summed over all outages", grouped="sum", papers="subflows_reused"),
    _m("flow", "subflows_recreated", "subflows", "derived",
       "subflows opened after the first failure between address pairs that had a subflow before", grouped="sum"),
    _m("flow", "recovery_s", "s", "derived",
       "largest recovery_s of the failures and repairs that affect the flow: the time until it again gets the rate that the network can carry; has no value if the application sends less often than once a second", grouped="max"),
    _m("flow", "full_rate_s", "s", "derived",
       "largest full_rate_s of the failures that affect the flow: the time until it gets its earlier rate again", grouped="max"),
    _m("flow", "load_balance", "", "derived", "smallest / largest number of payload bytes among the flow's subflows (1: even)", papers="load_balance_pct"),
    _m("flow", "aggregation_benefit", "", "derived",
       "(g - Cmax) / (sum C - Cmax) if g >= Cmax, else (g - Cmax) / Cmax; g: goodput, C: payload capacities of the individual paths (Kaspar; Paasch et al.)"),
    _m("flow", "fair_share_ratio", "", "derived",
       "goodput / fair share; fair share: the largest value, over all paths of the flow, of the path's payload capacity divided by the number of flows on its most shared link", papers="tcp_share_vs_fair_share"),
    _m("flow", "jain_index", "", "derived", "(sum x)^2 / (n sum x^2) over the goodputs x of the n flows in a group, from 1/n to 1", papers="jain_index per shared medium"),
]  # fmt: skip

_SUBFLOW = [
    _m("subflow", "bytes_sent", "B", "counter", "payload bytes sent, without retransmissions", papers="bytes per subflow"),
    _m("subflow", "bytes_received", "B", "counter", "payload bytes that arrived, without duplicates; bytes beyond a gap count when it is filled"),
    _m("subflow", "throughput_bps", "bit/s", "series", "8 x first-time payload bytes per bin",
       papers="per_subflow_throughput_mbps; per_subflow_throughput_mbps(t); throughput_mbps per interface (goodput); throughput_mbps per user and interface"),
    _m("subflow", "share", "", "derived", "payload bytes of the subflow / payload bytes of the flow",
       papers="share_eth(t); share_wifi(t); share_secondary; mptcp_share_on_bottleneck"),
    _m("subflow", "cwnd_bytes", "B", "gauge", "congestion window", papers="cwnd(t)"),
    _m("subflow", "ssthresh_bytes", "B", "gauge", "slow-start threshold"),
    _m("subflow", "in_flight_bytes", "B", "gauge", "payload in flight, by the sender's estimate (pipe in RFC 6675)"),
    _m("subflow", "cwnd_limited_ratio", "", "derived",
       "fraction of the subflow's samples in which fewer than two full packets of the cwnd are unused"),
    _m("subflow", "smallest_cwnd_ratio", "", "derived", "fraction of the subflow's samples in which the cwnd is at most two full packets"),
    _m("subflow", "srtt_s", "s", "gauge", "smoothed round-trip time (RFC 6298)"),
    _m("subflow", "retransmitted_bytes", "B", "counter", "payload bytes retransmitted"),
    _m("subflow", "rto_count", "timeouts", "counter", "retransmission timeouts (RFC 6298)",
       papers="loss_recovery_kind(fast_recovery|slow_start)"),
    _m("subflow", "alive", "0/1", "gauge", "whether the subflow is established and not closed (mean: fraction of the time)"),
    _m("subflow", "backup", "0/1", "gauge", "whether the subflow is a backup subflow (mean: fraction of the time)"),
    _m("subflow", "stale", "0/1", "gauge", "whether the subflow is stale (mean: fraction of the time)", awaits=UNTOLD),
    _m("subflow", "opened_s", "s", "derived", "time at which the subflow was established"),
    _m("subflow", "closed_s", "s", "derived", "time at which the subflow was closed"),
    _m("subflow", "fast_recovery_count", "episodes", "counter", "episodes of fast recovery (RFC 6675)", awaits=UNCOUNTED),
    _m("subflow", "reordering_ratio", "", "derived", "packets that arrive after one with a higher number / packets (RFC 4737)", awaits=IN_CAPTURES),
]  # fmt: skip

_LINK = [
    _m("link", "wire_bytes", "B", "counter", "bytes that left the serializer, overhead included"),
    _m("link", "wire_packets", "packets", "counter", "packets that left the serializer"),
    _m("link", "queue_bytes", "B", "gauge", "bytes in the queue, without the packet in service"),
    _m("link", "queue_packets", "packets", "gauge", "packets in the queue, without the one in service"),
    _m("link", "in_flight_packets", "packets", "gauge", "packets in service or in the delay line"),
    _m("link", "offered_packets", "packets", "counter", "packets offered to the link"),
    _m("link", "delivered_packets", "packets", "counter", "packets delivered to the other end"),
    _m("link", "dropped_queue_full", "packets", "counter", "packets dropped because the queue was full"),
    _m("link", "dropped_aqm", "packets", "counter", "packets dropped by the queue discipline before the queue was full"),
    _m("link", "dropped_loss", "packets", "counter", "packets dropped by the loss model"),
    _m("link", "dropped_link_down", "packets", "counter", "packets dropped because the link was down"),
    _m("link", "dropped_retries", "packets", "counter", "packets dropped because an access network stopped retransmitting them"),
    _m("link", "dropped_packets", "packets", "derived", "packets dropped for any reason"),
    _m("link", "late_s", "s", "gauge", "lateness: time from the model's delivery of a packet to its delivery to the host (mean)", awaits=LIVE),
    _m("link", "air_time_s", "s", "counter", "access networks: how long the direction has occupied the channel, including acknowledgments and collisions"),
    _m("link", "exchanges", "exchanges", "counter", "access networks: acknowledged transmissions"),
    _m("link", "aggregated_packets", "packets", "counter", "access networks: packets in acknowledged transmissions"),
    _m("link", "retried_packets", "packets", "counter", "access networks: packets sent again below IP, counted each time"),
    _m("link", "held_packets", "packets", "gauge", "access networks: packets that have left the queue and wait for the channel, for a retransmission or for their turn at the receiver"),
    _m("link", "radio_state", "", "gauge", f"access networks: state of the radio: {states_told()}"),
    _m("link", "handovers", "handovers", "counter", "access networks: changes of access point, cell or satellite"),
    _m("link", "throughput_bps", "bit/s", "series", "8 x wire bytes per bin",
       papers="throughput_mbps(t) per interface at 0.5 s; throughput_mbps per interface (link-layer bytes, 0.5 s samples)"),
    _m("link", "wire_rate_bps", "bit/s", "derived", "8 x wire bytes / length of the run"),
    _m("link", "utilisation", "", "derived", "8 x wire bytes / (rate x length of the run), with the rate over time", papers="utilisation"),
    _m("link", "queue_bytes_max", "B", "derived", "largest sample of queue_bytes"),
    _m("link", "queue_delay_s", "s", "derived", "mean of queue_bytes x 8 / rate"),
]  # fmt: skip

#: The metrics of links that only access networks have.
ACCESS = {
    "air_time_s", "exchanges", "aggregated_packets", "retried_packets", "dropped_retries", "held_packets", "radio_state",
    "handovers",
}  # fmt: skip

_INTERFACE = [
    _m("interface", "up", "0/1", "gauge", "whether the interface is up (mean: fraction of the time)"),
    _m("interface", "sent_packets", "packets", "counter", "packets sent"),
    _m("interface", "received_packets", "packets", "counter", "packets received"),
    _m("interface", "dropped_interface_down", "packets", "counter", "packets dropped because the interface was down"),
    _m("interface", "dropped_no_address", "packets", "counter", "packets dropped because the interface had no address"),
]

_SWITCH = [
    _m("switch", "entries", "entries", "gauge", "entries in the tables (mean)", awaits=CONTROLLER),
    _m("switch", "lookups", "packets", "counter", "packets looked up in the tables", awaits=CONTROLLER),
    _m("switch", "matched", "packets", "counter", "packets that an entry matched", awaits=CONTROLLER),
    _m("switch", "dropped_no_entry", "packets", "counter", "packets dropped because no entry matched, including hosts' reports of multicast membership", awaits=CONTROLLER),
    _m("switch", "received_packets", "packets", "counter", "packets received, according to the switch's port counters", awaits=CONTROLLER),
    _m("switch", "sent_packets", "packets", "counter", "packets sent, according to the switch's port counters", awaits=CONTROLLER),
    _m("switch", "barrier_rtt_s", "s", "gauge", "time until the switch answers a barrier request from mptcplab (mean)", awaits=CONTROLLER),
    _m("switch", "packet_ins", "packets", "counter", "packets that the switch passed to the controller, according to the controller", awaits=CONTROLLER),
    _m("switch", "packet_outs", "packets", "counter", "packets that the switch received from the controller, according to the controller", awaits=CONTROLLER),
]  # fmt: skip

_PROBE = [
    _m(
        "probe",
        "rtt_s",
        "s",
        "gauge",
        "round-trip time of probes, with one sample per answer (mean)",
        papers="rtt_ms; rtt_ms per node",
    ),
    _m("probe", "sent", "probes", "counter", "probes sent"),
    _m("probe", "answered", "probes", "counter", "probes answered"),
    _m("probe", "rtt_min_s", "s", "derived", "smallest round-trip time"),
    _m("probe", "rtt_p50_s", "s", "derived", "median of the round-trip time"),
    _m("probe", "rtt_p99_s", "s", "derived", "99th percentile of the round-trip time"),
    _m("probe", "loss_ratio", "", "derived", "1 - answered / sent; a probe in flight at the end counts as lost"),
]

_BINS = "to the first of 3 successive bins of 1 s with at least 0.9 of"
_BEFORE = "the mean goodput in the 5 s before the failure"
_CARRIED = "what the network can carry"

# A flow is concerned if the event acts on its paths. events.ID.flows.FLOW has the metrics of any
# one flow.
_EVENT = [
    _m("event", "asked_s", "s", "derived", "time of the event in the description"),
    _m("event", "actual_s", "s", "derived", "time at which the back-end carried out the event"),
    _m("event", "recovery_s", "s", "derived",
       f"time from the event (a failure or a repair) {_BINS} {_CARRIED}; value of the worst flow concerned; for a sequence, that of the worst of its events",
       papers="recovery_time_s; recovery_time_s per interface; recovery_ms"),
    _m("event", "full_rate_s", "s", "derived",
       f"time from the failure (however long it lasts) {_BINS} {_BEFORE}; value of the worst flow concerned; for a sequence, that of the worst of its failures"),
    _m("event", "shortfall_s", "s", "derived",
       f"number of seconds with less than 0.9 of {_CARRIED}, from the first failure to the last repair or the end; value of the worst flow concerned"),
    _m("event", "gap_s", "s", "derived",
       "longest silence between in-order deliveries that overlaps the time from the event to 5 s after it; for a sequence, the time from its first event to 5 s after its last; value of the worst flow concerned",
       papers="handover_time_s"),
    _m("event", "unaffected_fraction", "", "derived", "mean goodput from the failure to its repair / mean goodput in the 5 s before it; value of the worst flow concerned"),
    _m("event", "mean_before_bps", "bit/s", "derived", "mean goodput of all flows together in the 5 s before the failure", papers="mean_before"),
    _m("event", "mean_during_bps", "bit/s", "derived", "mean goodput of all flows together from the failure to its repair or the end", papers="mean_during"),
    _m("event", "min_during_bps", "bit/s", "derived", "smallest goodput of all flows together in a bin of 1 s from the failure to its repair or the end", papers="min_during"),
    _m("event", "mean_after_bps", "bit/s", "derived", "mean goodput of all flows together from the repair to the end", papers="mean_after"),
    _m("event", "full_recovery", "0/1", "derived", "whether mean_after_bps >= 0.95 x mean_before_bps, where the earlier mean of each flow is limited to what the links carried at that time", papers="full_recovery(mean_after>=0.95*mean_before)"),
    _m("event", "outage_asked_s", "s", "derived", "time from the failure to its repair in the description", papers="requested_outage_ms"),
    _m("event", "outage_actual_s", "s", "derived", "time from the failure to its repair as the back-end carried them out"),
    _m("event", "outage_barrier_s", "s", "derived",
       "time from the installation of the drop rules to their removal; each of the two times is taken as the midpoint between the request and the last switch's answer to the barrier that follows the request (OpenFlow 1.3, section 7.3.8)", awaits=CONTROLLER,
       papers="barrier_estimated_outage_ms; measured_outage_s(barrier)"),
    _m("event", "outage_barrier_error_s", "s", "derived", "smallest possible error of outage_barrier_s: half the time that both barriers took together; switches may still use cached entries after they answer", awaits=CONTROLLER),
    _m("event", "outage_measured_s", "s", "derived",
       "longest time between answers to probes that overlaps the outage, minus the interval between probes; value of the worst probe", papers="probe_measured_outage_ms"),
    _m("event", "subflows_reused", "subflows", "derived", f"{_REUSED}; summed over all flows"),
    _m("event", "subflows_recreated", "subflows", "derived",
       "subflows opened after the event between address pairs that had a subflow before; each counts for the last failure on its path; summed over all flows"),
    _m("event", "redirect_latency_s", "s", "derived",
       "time from the failure until the subflows on other links carry, in addition to their own data, half of the data that the failed ones carried", awaits=IN_CAPTURES,
       papers="redirect_latency_s"),
    _m("event", "handover_usable_s", "s", "derived",
       "handover between interfaces: time from the old interface going down until the new one is up and has an address; it consists of the gap, detection, authentication and address times in the description"),
    _m("event", "handover_join_s", "s", "derived",
       "time from the end of handover_usable_s until the first subflow from the new interface is established; value of the worst flow"),
    _m("event", "handover_first_data_s", "s", "derived",
       "time from the end of handover_usable_s until the next in-order delivery; value of the worst flow"),
    _m("event", "handover_gap_s", "s", "derived", "time from the last packet on the old subflow to the first on the new one", awaits=IN_CAPTURES),
    _m("event", "detection_s", "s", "derived", "time from the failure until the controller notices it", awaits=CONTROLLER, papers="detection_ms"),
    _m("event", "route_install_s", "s", "derived", "time from when the controller notices the failure until the last rule of the new route is installed", awaits=CONTROLLER, papers="route_install_ms"),
]  # fmt: skip

_RUN = [
    _m("run", "goodput_bps", "bit/s", "derived", "sum of the goodputs of all flows", papers="aggregate_mbps; mptcp_total_mbps"),
    _m("run", "jain_index", "", "derived", "Jain's index over the goodputs of all flows; a connection counts as one flow, however many subflows it has", papers="jain_index"),
    _m("run", "flows_completed", "flows", "derived", "finite flows that delivered all their data"),
    _m("run", "duration_s", "s", "derived", "time at which the run ended: when all finite flows had ended, or after the duration in the description"),
    _m("run", "capacity_reserved_bps", "bit/s", "derived",
       "capacity that recovery below the transport keeps free, summed over all links; each link reserves a multiple of the rate of the slowest link between switches on the paths, but no more than its own rate"),
    _m("run", "connections", "connections", "derived", "MPTCP connections established", papers="mptcp_connections"),
    _m("run", "tokens", "tokens", "derived", "number of different connection tokens in the captures", papers="tokens"),
    _m("run", "add_addr_seen", "options", "derived", "ADD_ADDR options and their echoes in the captures (RFC 8684 section 3.4.1)",
       papers="REMOVE_ADDR/ADD_ADDR seen; ADD_ADDR fields"),
    _m("run", "add_addr_bytes", "B", "derived", "length of the first ADD_ADDR option in the captures"),
    _m("run", "remove_addr_seen", "options", "derived", "REMOVE_ADDR options in the captures (RFC 8684 section 3.4.2)"),
    _m("run", "mp_join_seen", "options", "derived", "MP_JOIN options in the captures (RFC 8684 section 3.2)", papers="MP_JOIN fields"),
    _m("run", "mp_join_syn_bytes", "B", "derived", "length of MP_JOIN in the first SYN of a join in the captures"),
    _m("run", "dss_seen", "options", "counter", "DSS options in the captures (RFC 8684 section 3.3)", awaits=DSS, papers="DSS fields incl. checksum"),
    _m("run", "data_fin_seen", "options", "derived", "DATA_FINs in the captures (RFC 8684 section 3.3.3)", papers="DATA_FIN"),
    _m("run", "data_fin_dss_bytes", "B", "derived", "length of the DSS option with the first DATA_FIN in the captures; it has a mapping and a DATA_ACK (RFC 8684 section 3.3)"),
    _m("run", "captured_packets", "packets", "derived", "packets in the captures of the run", papers="pcap"),
]  # fmt: skip

_FAMILY = [
    _m("family", "ratio", "", "derived", "metric of a member / metric of the reference member: medians over the runs, with seeds paired for the interval",
       papers="ratio; fct_ratio_mptcp_over_tcp per flow"),
    _m("family", "difference", "", "derived", "metric of a member - metric of the reference member, in the unit of the metric: medians over the runs, with seeds paired for the interval"),
    _m("family", "value", "", "derived", "metric of a member, in its own unit: median over the runs"),
    _m("family", "argmax", "", "derived", "value of the parameter at which the median of a metric is largest", papers="argmax_N"),
    _m("family", "crossover", "", "derived", "value of the parameter at which the medians of two metrics cross; interval: the two neighboring values", papers="crossover_value"),
    _m("family", "friendliness", "", "derived", "goodput of TCP competing with MPTCP / goodput of TCP competing with TCP (>= 1: no harm)", awaits=NESTED_RUNS),
    _m("family", "tcp_best_path_bps", "bit/s", "derived", "goodput of TCP on the best path of the same scenario", awaits=NESTED_RUNS, papers="tcp_best_path_mbps"),
    _m("family", "sum_of_tcp_bps", "bit/s", "derived", "sum of the goodputs of TCP alone on each path of the same scenario", awaits=NESTED_RUNS, papers="sum_of_tcp_mbps"),
]  # fmt: skip

#: Former names of metrics. Old bundles have them; the error for a description that uses one gives
#: the new name.
FORMER = {("event", "recovery_before_s"): "full_rate_s", ("event", "recovery_remaining_s"): "recovery_s"}

METRICS: dict[tuple[Kind, str], Metric] = {
    (metric.kind, metric.name): metric
    for metric in (*_FLOW, *_SUBFLOW, *_LINK, *_INTERFACE, *_SWITCH, *_PROBE, *_EVENT, *_RUN, *_FAMILY)
}


@cache
def metrics_of(kind: Kind) -> Sequence[Metric]:
    """Returns all metrics of a kind of entity, in the order of the table."""
    return tuple(metric for metric in METRICS.values() if metric.kind == kind)


def named_in_papers(name: str) -> Metric | None:
    """Returns the metric that published evaluations call by `name`: ``throughput_mbps(t)``,
    ``total_mbps(N)``, ``per_client_mbps[5]``.
    """
    without_argument = re.sub(r"\((N|loss)\)$|\[\d+\]$", "", name)
    return _BY_PAPER_NAME.get(name) or _BY_PAPER_NAME.get(without_argument)


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """Returns the candidate that is most similar to the name, or None if none is similar."""
    matches = get_close_matches(name, list(candidates), n=1, cutoff=0.5)
    return matches[0] if matches else None


_REFERENCE_HEAD = """\
# Metrics

This page lists the metrics of each kind of entity, with their unit, form and definition, and the back-ends that supply
them. There are five forms:

- A *counter* counts from the start of the run.
- A *gauge* is a value at one point in time.
- A *series* has a value for each time bin.
- A *distribution* has all values of a run.
- A *derived* metric is a single number, which is computed from the tables after the run.

In a definition, *unit* means a data unit: a datagram, a response, a transfer, a probe, or a piece of a stream. The field
`units` of [measure](description.md#measure) sets the size of the pieces of `bulk` and `streaming`.
"""
#: What the definitions of a kind leave out.
_EXPLANATIONS: dict[Kind, str] = {
    "event": """\
The definitions of `recovery_s`, `full_rate_s` and `shortfall_s` leave out the following details:

- What the network can carry is limited to the flow's mean goodput in the 5 s before the outage, and to what the links
  carried in those 5 s. An outage begins with the first failure and lasts while anything is down.
- For `recovery_s`, capacity that later events add does not count. A flow for which the network can carry nothing has
  not recovered.
- For `full_rate_s`, the mean goodput before the failure is limited to what the links carried in those 5 s.
- For `recovery_s` and `full_rate_s`, bins start at any sample. If the rate collapses below half of the target in the
  first 3 s, only bins after the collapse count.

""",
}


def metric_reference() -> str:
    """Returns the table as a Markdown page for the documentation."""
    parts = [_REFERENCE_HEAD]
    for kind in dict.fromkeys(metric.kind for metric in METRICS.values()):
        head = f"## {kind.capitalize()} metrics"
        columns = "| name | unit | form | definition | supplied by |\n|---|---|---|---|---|"
        parts.append(f"{head}\n\n{_EXPLANATIONS.get(kind, '')}{columns}")
        parts += [_reference_row(metric) for metric in metrics_of(kind)]
        parts.append("")
    return "\n".join(parts)


def _reference_row(metric: Metric) -> str:
    definition = metric.definition.replace("|", "\\|")
    suppliers = ", ".join(metric.suppliers) or f"none yet: {next(iter(metric.awaits.values()))}"
    return f"| `{metric.name}` | {metric.unit or '1'} | {metric.form} | {definition} | {suppliers} |"


_BY_PAPER_NAME = {name: metric for metric in METRICS.values() for name in metric.paper_names}
