"""The types of the resolved form, which back-ends read.

Quantities are integers with their unit in the name. Every key is present, and None where there is no value. Lists keep
the order of the description. Packets are numbered from 0.

Written by `make schema` from crates/experiment/src/resolved.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

AccessCategory: TypeAlias = Literal["best_effort", "background", "video", "voice"]
"""Access categories of EDCA."""


class ActionInterfaceDown(TypedDict):
    """
    Takes an interface down, so it no longer sends or receives. Packets already on the link
    continue, and the other end is not notified.
    """

    interface: str
    """Id of the interface."""

    kind: Literal["interface_down"]


class ActionInterfaceUp(TypedDict):
    """Undoes `interface_down`."""

    interface: str
    """Id of the interface."""

    kind: Literal["interface_up"]


class ActionHandover(TypedDict):
    """
    Moves a cellular device to another cell. Both directions of its link carry nothing for a
    time, and then have the capacity of the other cell.
    """

    forward_queue: bool
    """Whether the queue of the old cell is forwarded to the new one. Otherwise it is lost."""

    gap_ns: int
    """How long the link carries nothing."""

    kind: Literal["handover"]
    link: str
    """Id of the link of the device."""


class ActionRoam(TypedDict):
    """
    Moves a Wi-Fi station to another access point. Packets queued for it at the old one are
    lost.
    """

    gap_ns: int
    """How long the station sends and receives nothing."""

    kind: Literal["roam"]
    link: str
    """Id of the link of the station."""


class ActionSetSignal(TypedDict):
    """Gives a Wi-Fi station a new mean signal from now on."""

    kind: Literal["set_signal"]
    link: str
    """Id of the link of the station."""

    mean_mdb: int
    """The mean signal-to-noise ratio in thousandths of a dB, -100000 to 100000."""


class ActionAddressAdd(TypedDict):
    """Adds the address of an interface, for the first time or again."""

    interface: str
    """Id of the interface."""

    kind: Literal["address_add"]


class ActionAddressRemove(TypedDict):
    """Removes the address of an interface."""

    interface: str
    """Id of the interface."""

    kind: Literal["address_remove"]


class ActionSetBackup(TypedDict):
    """Makes the subflows of an interface backup, or regular again."""

    interface: str
    """Id of the interface."""

    kind: Literal["set_backup"]
    on: bool
    """Whether they become backup."""


class ActionSetRecovery(TypedDict):
    """
    Lets another strategy recover the network from now on. The reroutes that follow from it are
    actions of their own. In real time the controller reroutes by itself.
    """

    kind: Literal["set_recovery"]
    strategy: str
    """
    The strategy: a name, or `FILE:CLASS`. That of `control.recovery` has the parameters
    given there, any other one has its defaults.
    """


class ActionExec(TypedDict):
    """Runs a program on a host."""

    argv: list[str]
    """Program and arguments."""

    host: str
    """Id of the host."""

    kind: Literal["exec"]


AddAddress: TypeAlias = Literal["once", "fixed", "adaptive"]
"""Whether the announcement of an address is repeated until it is echoed."""


class Aggregation(TypedDict):
    """Limits on one transmission."""

    max_bytes: int
    """Bytes of one A-MPDU."""

    max_mpdus: int
    """Packets in one A-MPDU. 1 aggregates none."""

    max_ppdu_ns: int
    """Duration of one PPDU."""


class AlgorithmWithParameters(TypedDict):
    """An algorithm: its name, or an object with its name and its parameters."""

    name: str


Algorithm: TypeAlias = str | AlgorithmWithParameters
"""An algorithm: its name, or an object with its name and its parameters."""


class ApQueueFifo(TypedDict):
    """One queue for all stations."""

    driver_packets: int
    """Largest number of packets that the driver has taken from the queue."""

    kind: Literal["fifo"]
    limit_packets: int
    """Largest number of packets queued for all stations."""


class ApQueueFq(TypedDict):
    """A queue for each station, served in turns of equal air time."""

    aql_high_ns: int
    """The same while the driver holds less than `aql_threshold_ns` for all stations."""

    aql_low_ns: int
    """Air time that the driver holds for a station."""

    aql_threshold_ns: int
    """See `aql_high_ns`."""

    kind: Literal["fq"]
    quantum_ns: int
    """Air time per turn."""


ApQueue: TypeAlias = ApQueueFifo | ApQueueFq
"""How the access point queues packets."""


class ApplicationBulk(TypedDict):
    """Sends as much data as the transport accepts."""

    bytes: int | None
    """Size of the transfer in bytes."""

    duration_ns: int | None
    """Duration of the transfer."""

    kind: Literal["bulk"]


class ApplicationCbr(TypedDict):
    """Sends equal pieces at a constant bit rate."""

    duration_ns: int | None
    """How long it sends. `None` means until the end of the run."""

    kind: Literal["cbr"]
    rate_bps: int
    """Payload rate in bit/s."""

    size_bytes: int
    """Payload of one piece in bytes."""


class ApplicationProbe(TypedDict):
    """Sends requests at a fixed interval. The receiver echoes each."""

    duration_ns: int | None
    """How long it sends. `None` means until the end of the run."""

    every_ns: int
    """Interval between requests."""

    kind: Literal["probe"]
    size_bytes: int
    """Payload of a request and of its answer in bytes."""


class ApplicationRequestResponse(TypedDict):
    """Sends a request, waits for the response, and sends the next request."""

    count: int | None
    """Number of requests."""

    duration_ns: int | None
    """How long requests are sent."""

    kind: Literal["request_response"]
    request_bytes: int
    """Size of a request in bytes."""

    response_bytes: int
    """Size of a response in bytes."""


class ApplicationShortFlows(TypedDict):
    """Starts short transfers, each in its own connection."""

    bytes: int
    """Size of a transfer in bytes."""

    every_ns: int | None
    """Fixed interval between starts."""

    kind: Literal["short_flows"]
    poisson_mean_ns: int | None
    """Mean of exponentially distributed intervals between starts."""


class ApplicationStreaming(TypedDict):
    """Sends a stream that is played as it arrives."""

    bitrate_bps: int
    """Rate in bit/s at which it is played."""

    kind: Literal["streaming"]
    startup_ns: int
    """How much is buffered before playback starts."""


class ApplicationVideo(TypedDict):
    """Plays a video. The player requests segments and chooses the bit rate of each."""

    bitrates_bps: list[int]
    """The available bit rates of segments, ascending."""

    buffer_ns: int
    """Playing time that the player's buffer holds."""

    kind: Literal["video"]
    length_ns: int | None
    """Playing time of the whole video. `None` means that it has no end."""

    segment_ns: int
    """Playing time of a segment."""

    startup_ns: int
    """Playing time in the buffer at which playback starts, initially and after a stall."""


class ApplicationIperf3(TypedDict):
    """Runs `iperf3`."""

    args: list[str]
    """Arguments of `iperf3`."""

    kind: Literal["iperf3"]


class ApplicationCommand(TypedDict):
    """Runs any program."""

    argv: list[str]
    """Program and arguments."""

    kind: Literal["command"]


Application: TypeAlias = (
    ApplicationBulk
    | ApplicationCbr
    | ApplicationProbe
    | ApplicationRequestResponse
    | ApplicationShortFlows
    | ApplicationStreaming
    | ApplicationVideo
    | ApplicationIperf3
    | ApplicationCommand
)
"""The application of a flow."""


BehaviourName: TypeAlias = Literal["mainline", "mainline-6.12", "mainline-6.18", "mainline-7.3", "oot"]
"""Presets of [`Behaviour`]."""


class BentPipe(TypedDict):
    """The delay over the satellite, which changes from slot to slot: normal, within bounds."""

    max_ns: int
    """Largest delay, at least `min_ns`."""

    mean_ns: int
    """Mean."""

    min_ns: int
    """Smallest delay."""

    sd_ns: int
    """Standard deviation."""


class BusyNeighbours(TypedDict):
    """Devices that come and go, each of which takes an equal share of the cell while it is busy."""

    busy_ns: int
    """Mean time for which a device is busy, at least 1 ms."""

    mean_ppm: int
    """Mean number of busy devices, in millionths, at most 100000000."""


ChildKind: TypeAlias = Literal["macvlan", "ipvlan"]
"""A kind of device that takes part in the network of its parent."""


class DelayStep(TypedDict):
    """A delay that applies from an instant until the next step or the end of the period."""

    delay_ns: int
    """Delay of packets whose last bit leaves from then on."""

    from_ns: int
    """Instant within the period. That of the first step is 0."""


class DurationQuantile(TypedDict):
    """A quantile of a duration."""

    below_ppm: int
    """Probability of a shorter duration, in millionths."""

    duration_ns: int
    """The duration, at least 1 ns."""


class Edca(TypedDict):
    """The parameters by which a category contends."""

    aifsn: int
    """Slots between SIFS and the backoff, at least 1."""

    cw_max: int
    """Largest contention window, 2^n - 1."""

    cw_min: int
    """Smallest contention window, 2^n - 1."""

    txop_limit_ns: int
    """Time for which a winner may send. 0 means one exchange."""


class ElementRewriteSequence(TypedDict):
    """Shifts sequence numbers, by a random amount for each connection."""

    kind: Literal["rewrite_sequence"]


class ElementNat(TypedDict):
    """Hides a host behind other addresses and ports."""

    ipv4: str
    """Replaces IPv4 addresses."""

    ipv6: str
    """Replaces IPv6 addresses."""

    kind: Literal["nat"]


class ElementCoalesce(TypedDict):
    """Joins consecutive segments."""

    hold_ns: int
    """How long a segment is held for the next one."""

    kind: Literal["coalesce"]
    largest_bytes: int
    """Largest payload of a joined segment in bytes."""


class ElementChangeBytes(TypedDict):
    """Changes bytes of the payload."""

    after_bytes: int | None
    """
    The byte after the first `after_bytes` bytes in each direction of a connection, whenever it
    is sent.
    """

    kind: Literal["change_bytes"]
    probability: float | None
    """One byte of each segment, with this probability."""


class ElementInsertBytes(TypedDict):
    """Inserts bytes into the data, and shifts all later sequence numbers."""

    after_bytes: int
    """Number of bytes before them in each direction of a connection."""

    bytes: int
    """Number of bytes inserted."""

    kind: Literal["insert_bytes"]


class ElementDuplicate(TypedDict):
    """Sends packets twice."""

    kind: Literal["duplicate"]
    probability: float
    """Probability for each packet."""


class ElementAcknowledgeEarly(TypedDict):
    """Acknowledges data before the receiver has it."""

    buffer_bytes: int
    """Largest amount of data, in bytes, kept for each receiver of a connection."""

    kind: Literal["acknowledge_early"]


class Fade(TypedDict):
    """
    A stationary Gaussian process that is the logarithm of a factor of the rate. The mean of the
    factor is 1.
    """

    correlation_ns: int
    """Correlation time, at least 1 ms."""

    sd_ppm: int
    """Standard deviation, in millionths, at most 3000000. If it is 0, nothing varies."""


FailedAfter: TypeAlias = Literal["first_rto", "stale"]
"""When a subflow counts as failed."""


Fallback: TypeAlias = Literal["rfc", "strict"]
"""
What happens to a connection with a single subflow when MPTCP breaks in mid-stream (RFC 8684,
section 3.7).
"""


FirstHop: TypeAlias = Literal["network", "host"]
"""Where packets wait for the first link of a host."""


FlowEnd: TypeAlias = Literal["from", "to"]
"""One of the two ends of a flow."""


Framing: TypeAlias = Literal["plain", "atm", "ptm"]
"""How the link layer sends a packet, including its overhead."""


class Gaps(TypedDict):
    """Gaps in service at random times."""

    gap_median_ns: int
    """Median of the time for which the link carries nothing. The times are lognormal."""

    gap_sd_ppm: int
    """Standard deviation of the logarithm of that time, in millionths, at most 3000000."""

    interval_ns: int
    """Mean time from the end of a gap to the next one, at least 1 ms. The times are exponential."""


class Handovers(TypedDict):
    """Handovers at random times."""

    forward_queue: bool
    """Whether the queue of the old cell is forwarded to the new one. Otherwise it is lost."""

    gaps: Gaps
    """When, and how long the link carries nothing."""


Handshake: TypeAlias = Literal["primary", "race"]
"""The paths on which a connection starts."""


class Harq(TypedDict):
    """Retransmission of transport blocks (HARQ, 3GPP TS 36.321). Blocks are handed up in order."""

    first_error_ppm: int
    """Probability that the first transmission of a block fails, in millionths."""

    repeat_error_ppm: int
    """Probability that a retransmission fails, in millionths."""

    rlc_ns: int
    """Time in which RLC recovers a block after all attempts have failed."""

    round_trip_ns: int
    """Time from a transmission to the next of the same block."""

    tries: int
    """Number of transmissions of a block, including the first, at least 1."""


HopDirection: TypeAlias = Literal["forward", "backward"]
"""A direction of a link."""


class HostJitterUnstated(TypedDict):
    """
    Not stated, as in experiments older than this field: no time in the simulator, the actual
    time on a real network.
    """

    kind: Literal["unstated"]


class HostJitterNone(TypedDict):
    """No time."""

    kind: Literal["none"]


class HostJitterLinux(TypedDict):
    """The times of a Linux host: in the simulator, these quantiles; on Linux, the actual times."""

    kind: Literal["linux"]
    max_ns: int
    """The maximum."""

    p50_ns: int
    """The median."""

    p90_ns: int
    """The 90th percentile."""

    p99_ns: int
    """The 99th percentile."""


class HostJitterQuantiles(TypedDict):
    """Times with these quantiles."""

    kind: Literal["quantiles"]
    max_ns: int
    """The maximum."""

    p50_ns: int
    """The median."""

    p90_ns: int
    """The 90th percentile."""

    p99_ns: int
    """The 99th percentile."""


HostJitter: TypeAlias = HostJitterUnstated | HostJitterNone | HostJitterLinux | HostJitterQuantiles
"""How long a host takes to handle packets and timers, beyond a constant time."""


Install: TypeAlias = Literal["proactive", "reactive"]
"""When the entries of a flow are installed."""


Layer: TypeAlias = Literal[2, 3]
"""The layer of the traffic that a link carries. It does not affect the link model."""


class LinkCost(TypedDict):
    """The cost of a link."""

    cost: int
    """The cost of using it, in either direction. With cost `delay` it is in nanoseconds."""

    link: str
    """Id of the link."""


LinkDownBy: TypeAlias = Literal["cut", "drop_rule", "port_down"]
"""How a link is taken out of service."""


class LossNone(TypedDict):
    """Nothing is lost."""

    kind: Literal["none"]


class LossBernoulli(TypedDict):
    """Each packet is lost independently."""

    kind: Literal["bernoulli"]
    probability: float
    """Probability of loss, 0 to 1."""


class LossGilbertElliott(TypedDict):
    """A model with two states, each with its own probability of loss."""

    bad_to_good: float
    """Probability per packet of a change from the bad to the good state."""

    good_to_bad: float
    """Probability per packet of a change from the good to the bad state."""

    kind: Literal["gilbert_elliott"]
    loss_bad: float
    """Probability of loss in the bad state."""

    loss_good: float
    """Probability of loss in the good state."""


class LossList(TypedDict):
    """Exactly the listed packets are lost."""

    kind: Literal["list"]
    packets: list[int]
    """Indices, from 0, among the packets that reach the place of loss."""


Loss: TypeAlias = LossNone | LossBernoulli | LossGilbertElliott | LossList
"""A loss model."""


class LossInTime(TypedDict):
    """Losses as periods in which everything in service is lost. They are independent of each other."""

    durations: list[DurationQuantile]
    """
    Quantiles of the duration, ascending from 0 to 1000000 millionths. Between them its
    logarithm is linear.
    """

    interval_ns: int
    """Mean time between two losses, at least 1 ms."""


LossPlace: TypeAlias = Literal["ingress", "egress"]
"""Where packets are lost."""


class LossStep(TypedDict):
    """A probability of loss that applies from an instant until the next step or the end of the period."""

    from_ns: int
    """Instant within the period. That of the first step is 0."""

    probability: float
    """Probability of loss, 0 to 1, for packets that reach the place of loss from then on."""


class Machine(TypedDict):
    """A machine other than the one that runs the experiment."""

    address: str | None
    """
    The address to which packets for its hosts are sent. `None` is the other end of the
    connection to it. A guest has no address.
    """

    at: str
    """How it is reached, in a form of `--on`."""

    id: str
    """Its name in the description."""


class Measure(TypedDict):
    """What is measured."""

    captures: list[str]
    """Ids of the interfaces whose packets are captured."""

    every_ns: int
    """Interval between samples."""

    probe_rtt_ns: int | None
    """Interval between probes on every path of every flow. `None` sends no probes."""

    unit_bytes: int
    """Size of a data unit of a byte stream. With UDP a unit is a datagram."""


class Medium(TypedDict):
    """A serializer shared by several links."""

    id: str
    """Id, unique among media."""

    overhead_bytes: int
    """Bytes per packet that the rate covers in addition to the IP length."""

    rate_bps: int | None
    """The rate in bit/s. `None` leaves each link its own rate."""


MiddleboxDirection: TypeAlias = Literal["leaving", "arriving", "both"]
"""Which packets a middlebox processes."""


NextHop: TypeAlias = Literal["ecmp_l3", "ecmp_l4", "random", "by_port"]
"""
How a router chooses among the next hops of equally short routes. All packets between two ports
take the same next hop.
"""


NodeKind: TypeAlias = Literal["router", "switch", "ap", "openflow"]
"""Kinds of nodes."""


class NrLeg(TypedDict):
    """
    The 5G leg of an NSA device (EN-DC, 3GPP TS 37.340). The device starts with it, and then
    alternately releases and adds it. Queues are kept.
    """

    gaps: Gaps
    """When it is released or added, and how long the link carries nothing."""

    rate_without_ppm: int
    """
    The rate without it, in millionths of the rate with it, 1 to 1000000. A trace already
    includes it.
    """


OfferedWindow: TypeAlias = Literal["half", "share_of_payload"]
"""The part of a receive buffer that is offered as a window."""


OptionName: TypeAlias = Literal[
    "mp_capable", "mp_join", "dss", "add_addr", "remove_addr", "mp_prio", "mp_fail", "mp_fastclose", "mp_tcprst"
]
"""The MPTCP options (RFC 8684, section 7.2)."""


class ParentDevice(TypedDict):
    """A device that a machine has. The interface of a host is a child of it."""

    child: ChildKind | None
    """The kind of the child. `None` is macvlan, or ipvlan if the device is wireless."""

    name: str
    """Its name on the machine."""


PiecesWithOptions: TypeAlias = Literal["all", "first"]
"""Which pieces of a segment keep its MPTCP options."""


class QueueDropTail(TypedDict):
    """First in, first out. A packet that does not fit is dropped."""

    kind: Literal["drop_tail"]
    limit_bytes: int | None
    """Largest number of bytes queued, overhead included."""

    limit_packets: int | None
    """Largest number of packets queued."""


class QueueCodel(TypedDict):
    """Controlled delay (RFC 8289)."""

    interval_ns: int
    """How long the delay must stay above the target before the first drop."""

    kind: Literal["codel"]
    limit_bytes: int | None
    """Largest number of bytes queued, overhead included."""

    limit_packets: int | None
    """Largest number of packets queued."""

    target_ns: int
    """Acceptable standing queue delay."""


class QueueFqCodel(TypedDict):
    """Several flow queues, each under CoDel (RFC 8290)."""

    flows: int
    """Number of flow queues, 1 to 65536."""

    interval_ns: int
    """How long the delay of a flow must stay above the target before its first drop."""

    kind: Literal["fq_codel"]
    limit_bytes: int | None
    """Largest number of bytes queued, overhead included, over all flows."""

    limit_packets: int | None
    """Largest number of packets queued, over all flows."""

    quantum_bytes: int
    """Bytes a flow may send per round, at least 256."""

    target_ns: int
    """Acceptable standing queue delay of each flow."""


class QueueRed(TypedDict):
    """Random early detection (Floyd and Jacobson, 1993)."""

    kind: Literal["red"]
    limit_bytes: int | None
    """Largest number of bytes queued, overhead included."""

    limit_packets: int | None
    """Largest number of packets queued."""

    max_bytes: int
    """Average queue length in bytes at or above which everything is dropped."""

    max_probability: float
    """Drop probability just below `max_bytes`."""

    min_bytes: int
    """Average queue length in bytes below which nothing is dropped."""

    weight: float
    """Weight of a new sample in the average, in (0, 1]."""


class QueuePie(TypedDict):
    """Proportional integral controller enhanced (RFC 8033)."""

    kind: Literal["pie"]
    limit_bytes: int | None
    """Largest number of bytes queued, overhead included."""

    limit_packets: int | None
    """Largest number of packets queued."""

    max_burst_ns: int
    """Longest burst that passes without drops after an idle time."""

    target_ns: int
    """Target queue delay."""

    update_ns: int
    """Time between two updates of the drop probability, at least 1 us."""


Queue: TypeAlias = QueueDropTail | QueueCodel | QueueFqCodel | QueueRed | QueuePie
"""
A queue discipline. Limits apply to queued packets, not to packets in service or in flight.
`None` means no limit.
"""


class RateStep(TypedDict):
    """A rate that applies from an instant until the next step or the end of the period."""

    from_ns: int
    """Instant within the period. That of the first step is 0."""

    rate_bps: int
    """Rate in bit/s, overhead included. 0 is an outage."""


class Recovery(TypedDict):
    """What happens below the transport when a link fails."""

    detect_ns: int | None
    """
    Time from a failure until the controller knows of it. `None` means the time that a switch
    takes to report its port status.
    """

    parameters: dict[str, Any]
    """Parameters of the strategy."""

    strategy: str
    """The strategy: a name, or `FILE:CLASS`."""


Recreation: TypeAlias = Literal["never", "backoff"]
"""What happens to a subflow that failed."""


Reinjection: TypeAlias = Literal["none", "on_rto", "on_stale", "on_close", "opportunistic"]
"""When data is reinjected on another subflow."""


RerouteBy: TypeAlias = Literal["description", "recovery"]
"""What causes a reroute."""


class Rrc(TypedDict):
    """States of the radio (RRC, 3GPP TS 36.331) and discontinuous reception (DRX)."""

    drx_after_ns: int
    """Time without data after which the device listens only once a cycle."""

    drx_cycle_ns: int
    """The cycle of a connected device, at least 1 ns."""

    inactivity_ns: int
    """Time without data after which the device is idle, at least `drx_after_ns`."""

    paging_cycle_ns: int
    """The cycle in which an idle device listens for paging, at least 1 ns."""

    promotion_ns: int
    """Time from idle to connected."""


class Scan(TypedDict):
    """Absences from the channel in search of other networks."""

    every_ns: int
    """Time between the starts of two absences."""

    longest_ns: int
    """Longest absence."""

    shortest_ns: int
    """Shortest absence."""


SegmentKind: TypeAlias = Literal["syn", "syn_ack", "non_syn"]
"""Segments by their flags."""


class SharedRiskGroup(TypedDict):
    """A shared-risk link group (RFC 4202, section 2.3)."""

    id: str
    """Id, unique among groups."""

    links: list[str]
    """Ids of its links."""


class Signal(TypedDict):
    """
    The signal-to-noise ratio over time. Its logarithm is the sum of two stationary Gaussian
    processes. The rate follows log(1 + ratio) (Shannon), with the mean of the direction.
    """

    fast_ns: int
    """Correlation time of the fast part, at least 1 ms."""

    fast_sd_mdb: int
    """
    Standard deviation of the fast part in thousandths of a dB, at most 13000. If both are 0,
    the rate is constant.
    """

    median_mdb: int
    """Median of the ratio in thousandths of a dB, -20000 to 60000."""

    slow_ns: int
    """Correlation time of the slow part, at least 1 ms."""

    slow_sd_mdb: int
    """Standard deviation of the slow part in thousandths of a dB, at most 13000."""


class SnrPoint(TypedDict):
    """A mean signal-to-noise ratio at an instant."""

    at_ns: int
    """The instant."""

    mean_mdb: int
    """The mean."""


Stack: TypeAlias = Literal["backend", "kernel", "userspace"]
"""The protocol stack of a host."""


class Stall(TypedDict):
    """A period at the beginning of a slot in which packets are held."""

    max_ns: int
    """Longest stall, at least `min_ns`, at most `slot_ns`."""

    min_ns: int
    """Shortest stall."""

    probability_ppm: int
    """Probability that a slot begins with a stall, in millionths, at most 1000000."""


class Step(TypedDict):
    """The logarithm of the factor of a slot's rate: normal with mean 0."""

    correlation_ppm: int
    """Correlation with the slot before, in millionths, at most 1000000."""

    sd_ppm: int
    """Standard deviation, in millionths, at most 3000000."""


SubflowOrder: TypeAlias = Literal["newest_first", "oldest_first"]
"""The order in which equal subflows are used."""


class Subnet(TypedDict):
    """A set of interfaces without a router between them."""

    id: int
    """Id."""

    ipv4: str
    """IPv4 prefix."""

    ipv6: str
    """IPv6 prefix."""


Timers: TypeAlias = Literal["exact", "wheel"]
"""When timers expire."""


class TraceStartAt(TypedDict):
    """At an instant of the trace."""

    at_ns: int
    """The instant, less than the period."""

    kind: Literal["at"]


class TraceStartDrawn(TypedDict):
    """At an instant drawn by the seed, the same for all traces of one recording."""

    below_ns: int
    """
    Upper limit, at least 1, of the instant, which is uniform in [0, `below_ns`). The limit
    is the same for all traces of the recording.
    """

    kind: Literal["drawn"]
    recording: str
    """Name of the recording."""


TraceStart: TypeAlias = TraceStartAt | TraceStartDrawn
"""Where in its trace a run begins."""


class Train(TypedDict):
    """The conditions for one train of packets."""

    at_ns: int
    """Instant within the period."""

    opportunities_ns: list[int]
    """Instants of opportunities since the beginning of the train, ascending. Several may coincide."""


class Trains(TypedDict):
    """
    Trains of packets that begin after a pause. The packets of a train take its opportunities. Once
    these are used up or have passed, packets take the opportunities under load until the next
    pause.
    """

    pause_ns: int
    """Time without packets after which the next one begins a train, at least 1 ns."""

    probes: list[Train]
    """
    The conditions for trains, in ascending order of time. A train has the last conditions before
    its beginning, or the first.
    """


Transport: TypeAlias = Literal["udp", "tcp", "mptcp"]
"""A transport protocol."""


class UplinkRequests(TypedDict):
    """Requests for uplink grants. While packets wait, buffer reports travel with the data."""

    grant_ns: int
    """Time from the request until the grant can be used."""

    period_ns: int
    """Time between two opportunities to send a scheduling request, at least 1 ns."""


class UserCode(TypedDict):
    """A file with users' own algorithms."""

    file: str
    """The file as flows name it: the part before the colon, if there is one."""

    source: str
    """Its text, or the bytes of an eBPF object in base64."""


class Vary(TypedDict):
    """What differs between seeds."""

    events_ppm: int
    """
    The time between two events is scaled by 1 plus or minus at most `events_ppm` millionths. It
    changes by at most [`crate::schedule::MOST_MOVED_NS`].
    """

    rtt_ppm: int
    """
    The delay of each link is scaled by 1 plus or minus at most `rtt_ppm` millionths. Both
    directions get the same factor.
    """

    start_ns: int
    """Each flow starts later by a draw from [0, `start_ns`)."""


WifiBand: TypeAlias = Literal["2.4ghz", "5ghz"]
"""The bands."""


class WifiNeighbours(TypedDict):
    """Stations of other networks on the same channel, which send frames of one size at random times."""

    load_bps: int
    """Total rate at which they send packets of `packet_bytes`, in bit/s."""

    packet_bytes: int
    """Length of each IP packet."""

    rate_bps: int
    """Rate of their frames in bit/s: OFDM, or DSSS with `b`."""

    stations: int
    """Their number."""


class WifiRateAuto(TypedDict):
    """As Minstrel does, from the success of earlier transmissions."""

    kind: Literal["auto"]


class WifiRateIdeal(TypedDict):
    """The best rate for the signal 100 ms earlier."""

    kind: Literal["ideal"]


class WifiRateFixed(TypedDict):
    """Always the same rate."""

    kind: Literal["fixed"]
    mcs: int
    """
    The MCS. With `b`, `g` and `a` the index of the rate among those of the standard in
    ascending order, from 0.
    """


WifiRate: TypeAlias = WifiRateAuto | WifiRateIdeal | WifiRateFixed
"""How a rate is chosen."""


WifiStandard: TypeAlias = Literal["b", "g", "a", "n", "ac", "ax"]
"""
The standards, by the letters that follow 802.11.

In each band a later one includes the ones before it.
"""


class AccessCellular(TypedDict):
    """The radio link of one cellular device."""

    handovers: Handovers | None
    """Handovers between cells. `None` if only events cause them."""

    harq: Harq
    """Retransmissions below IP."""

    kind: Literal["cellular"]
    link: str
    """Id of the link between the device and the network."""

    neighbours: BusyNeighbours
    """Other devices in the cell, which share its capacity."""

    nr_leg: NrLeg | None
    """
    The 5G leg that a device with a 4G core (NSA) adds and releases. `None` if it always has the
    same legs.
    """

    requests: UplinkRequests
    """How the device asks for its first grant."""

    rrc: Rrc
    """States of the radio."""

    signal: Signal
    """Variation of the rate over time."""

    tti_ns: int
    """Length of a transmission time interval: 1 ms in LTE, 0.5 ms in NR."""

    uplink: HopDirection
    """The direction from the device to the network."""


class AccessLeo(TypedDict):
    """The link of one dish to satellites in low Earth orbit."""

    bent_pipe: BentPipe
    """The one-way delay over the satellite."""

    fade: Fade
    """Variation of the rate within a slot."""

    kind: Literal["leo"]
    link: str
    """Id of the link between the dish and the network."""

    loss: LossInTime
    """Losses."""

    phase_ns: int | None
    """
    The first reassignment, less than `slot_ns`. `None` if the seed draws it, once for all such
    links of a run.
    """

    slot_ns: int
    """Time from one reassignment of satellites to the next, at least 1 ms."""

    stall: Stall
    """Stalls at the beginning of slots."""

    step: Step
    """Variation of the rate from slot to slot."""

    uplink: HopDirection
    """The direction from the dish to the network."""

    uplink_frame_ns: int
    """Time between two uplink frames; packets wait for the next one."""


class AccessCable(TypedDict):
    """The line of one cable modem."""

    kind: Literal["cable"]
    link: str
    """Id of the link between the modem and the network."""

    requests: UplinkRequests
    """How a modem whose queue was empty asks for its first grant: at the next map of grants."""

    uplink: HopDirection
    """The direction from the modem to the network."""


class ActionLinkDown(TypedDict):
    """Takes a link out of service."""

    by: LinkDownBy
    """How the link goes down."""

    kind: Literal["link_down"]
    link: str
    """Id of the link."""


class ActionLinkUp(TypedDict):
    """Undoes a `link_down` done in the same way."""

    by: LinkDownBy
    """How the link was taken down."""

    kind: Literal["link_up"]
    link: str
    """Id of the link."""


class Behaviour(TypedDict):
    """
    The behaviour of an MPTCP implementation. It has every value that follows from a preset, so
    nothing else depends on the name of the preset.
    """

    acks_wait_for_reader: bool
    """Whether acknowledgments that would shrink the window wait until the application has read."""

    add_address: AddAddress
    """Whether the announcement of an address is repeated until it is echoed."""

    counts_out_of_order: bool
    """Whether data in the out-of-order queue of a connection reduces the receive window."""

    failed_after: FailedAfter
    """When a subflow counts as failed."""

    mptcp_version: int
    """The only version of MPTCP that the host supports: 0 (RFC 6824) or 1 (RFC 8684)."""

    name: BehaviourName
    """The preset from which the values come. Messages and preference lists use it."""

    narrows_subflow_window: bool
    """Whether the window of a subflow may shrink to that of the connection."""

    offered_window: OfferedWindow
    """The part of a receive buffer that is offered as a window."""

    path_manager_delay_ns: int
    """How long the path manager waits after an address event."""

    prunes_out_of_order: bool
    """Whether an overfull receive buffer removes data from the end of the out-of-order queue."""

    recreation: Recreation
    """Whether the path manager opens a failed subflow again."""

    recreation_first_ns: int
    """How long it waits after the first failure."""

    recreation_longest_ns: int
    """The longest wait. Waits double up to this limit."""

    reinject_whole_queue: bool
    """
    Whether all data assigned to a failed subflow is reinjected, rather than only the data that
    it sent.
    """

    reinjection: Reinjection
    """When data is reinjected on another subflow."""

    repeats_several_pieces: bool
    """
    Whether each expiry of the connection's timer sends a piece of the oldest data again on each
    idle subflow, rather than one piece.
    """

    segmentation_offload: bool
    """
    Whether segments leave in packets of several. Where the host feels its first link
    ([`FirstHop::Host`](super::FirstHop::Host)), they leave one by one nevertheless, and the
    memory of each counts in the send buffer.
    """

    shares_receive_threshold: bool
    """
    Whether the receive threshold of a connection grows with the data of all its subflows. If
    false, each subflow has its own.
    """

    stale_intervals: int
    """Number of measurement intervals without progress after which a subflow is stale."""

    subflow_order: SubflowOrder
    """The order in which equal subflows are used."""

    tells_doubled_window: bool
    """
    Whether window updates after the application has read are sent only if the window has
    doubled.
    """

    timers: Timers
    """When timers expire."""


class Control(TypedDict):
    """How the switches of kind `openflow` are controlled."""

    command: list[str] | None
    """Program and arguments of a user's own controller. `None` starts mptcplab's own."""

    costs: list[LinkCost]
    """The cost of each link between nodes, by which paths are chosen."""

    discover: bool
    """Whether the controller compares the links that it discovers with the description."""

    install: Install
    """When entries are installed."""

    recovery: Recovery
    """What happens below the transport when a link fails, until a `set_recovery`."""

    srlg: list[SharedRiskGroup]
    """Groups of links that fail together."""

    statistics_ns: int
    """Interval between two readings of the counters of switches."""


class ElementStripOptions(TypedDict):
    """Removes options."""

    after_bytes: int
    """Bytes that the connection must have carried in one direction before the selection applies."""

    kind: Literal["strip_options"]
    options: list[OptionName]
    """The options selected."""

    segments: list[SegmentKind]
    """The segments in which options are selected."""


class ElementDropOptions(TypedDict):
    """Drops segments that carry the options."""

    after_bytes: int
    """Bytes that the connection must have carried in one direction before the selection applies."""

    kind: Literal["drop_options"]
    options: list[OptionName]
    """The options selected."""

    segments: list[SegmentKind]
    """The segments in which options are selected."""


class ElementSplit(TypedDict):
    """Splits segments."""

    kind: Literal["split"]
    largest_bytes: int
    """Largest payload of a piece in bytes."""

    options: PiecesWithOptions
    """Which pieces carry the MPTCP options."""


Element: TypeAlias = (
    ElementStripOptions
    | ElementDropOptions
    | ElementRewriteSequence
    | ElementNat
    | ElementSplit
    | ElementCoalesce
    | ElementChangeBytes
    | ElementInsertBytes
    | ElementDuplicate
    | ElementAcknowledgeEarly
)
"""What a middlebox does."""


class Hop(TypedDict):
    """One link of a path."""

    direction: HopDirection
    """The direction in which the link is used."""

    link: str
    """Id of the link."""


class Host(TypedDict):
    """A host. It sends and receives, and never forwards."""

    behaviour: list[Behaviour]
    """Behaviours in which MPTCP implementations differ, in order of preference."""

    checksum: bool
    """Whether it requires the DSS checksum (RFC 8684, section 3.3)."""

    fallback: Fallback
    """What it does when MPTCP breaks in mid-stream."""

    first_hop: FirstHop
    """Where packets for its first links wait."""

    host_jitter: HostJitter
    """How long the host takes to handle packets and timers."""

    id: str
    """Id, unique among hosts and nodes."""

    initial_window_segments: int
    """Initial congestion window."""

    machine: Machine | None
    """The machine that it is on. `None` is the machine that runs the experiment."""

    mptcp: bool
    """Whether it supports MPTCP."""

    one_at_a_time: bool
    """Whether only one subflow is used at a time."""

    rcvbuf_bytes: int
    """Largest receive buffer in bytes."""

    sndbuf_bytes: int
    """Largest send buffer in bytes."""

    stack: Stack
    """The protocol stack it runs."""

    syn_linear_timeouts: int
    """Number of these retransmissions at the initial interval, before it doubles."""

    syn_retries: int
    """Retransmissions of a SYN with MP_CAPABLE before it is sent without that option."""


class Interface(TypedDict):
    """The attachment of a host or node to a link."""

    device: ParentDevice | None
    """
    The device of its host's machine by which it takes part in a real link. `None` for an
    interface at an emulated link.
    """

    id: str
    """Id, such as `client.wlan0`."""

    ipv4: str | None
    """IPv4 address with prefix length. Ports of switches have none."""

    ipv6: str | None
    """IPv6 address with prefix length. Ports of switches have none."""

    link: str
    """Id of its link."""

    mtu_bytes: int
    """Length of the largest IP packet in bytes."""

    node: str
    """Id of its host or node."""

    subnet: int
    """Id of its subnet."""

    up: bool
    """Whether the interface is up at the start."""


class Middlebox(TypedDict):
    """A middlebox between an interface and its link."""

    at: str
    """Id of the interface at which it is placed."""

    direction: MiddleboxDirection
    """Which packets it processes."""

    element: Element
    """What it does to them."""


class Node(TypedDict):
    """A node that forwards."""

    id: str
    """Id, unique among hosts and nodes."""

    kind: NodeKind
    """The kind of node."""

    next_hop: NextHop | None
    """
    How it chooses among several equal next hops. `None` leaves the choice to the paths of the
    flows.
    """


class Path(TypedDict):
    """A pair of interfaces and the links between them."""

    ceiling_bps: int | None
    """Capacity for payload in bit/s. `None` if all links are unbounded."""

    hops: list[Hop]
    """
    The links from `local` to the host of `remote`. They may end at another interface of that
    host.
    """

    local: str
    """Interface of the sender."""

    rate_bps: int | None
    """The smallest rate of the links in bit/s. `None` if all are unbounded."""

    remote: str
    """Interface of the receiver."""

    routed: bool
    """
    Whether `hops` are only the first and the last link, and routers choose the links between
    them.
    """

    rtt_ns: int
    """Round-trip propagation delay."""


class Snr(TypedDict):
    """
    A signal-to-noise ratio over time, in thousandths of a dB: a mean and an autoregressive process
    of the first order around it.
    """

    correlation_ns: int
    """Time after which the correlation has fallen to 1/e."""

    means: list[SnrPoint]
    """The mean at some instants, in ascending order. In between it changes linearly."""

    sd_mdb: int
    """Standard deviation."""


class Trace(TypedDict):
    """
    A recording that repeats without end: delivery opportunities or rates, delays, losses. At least
    one of the four lists has entries.
    """

    delays: list[DelayStep]
    """Delays over time, in addition to the delay of the direction. Empty if there are none."""

    losses: list[LossStep]
    """Losses over time, in addition to the loss model of the direction. Empty if there are none."""

    opportunities_ns: list[int]
    """
    Instants of delivery opportunities within a period, ascending, each at most `period_ns`.
    Several may coincide. Empty if the capacity is given by `rates` or by the rate of the
    direction.
    """

    opportunity_bytes: int
    """Bytes, overhead included, that one opportunity carries."""

    period_ns: int
    """Length of the period."""

    rates: list[RateStep]
    """
    Rates over time, whose opportunities are spread evenly. Empty if the capacity is given by
    `opportunities_ns` or by the rate of the direction.
    """

    start: TraceStart
    """Instant of the trace at which the run begins."""

    trains: Trains | None
    """
    The conditions for packets that come after a pause (CellReplay). The opportunities above are
    then those under load, and delays change linearly from one step to the next. `None` if the
    conditions after a pause are the same.
    """


class WifiStation(TypedDict):
    """A station of a Wi-Fi network."""

    access_category: AccessCategory
    """Category of all packets from and to the station."""

    aggregation: Aggregation
    """Limits on one transmission from or to the station."""

    edca: Edca
    """Access parameters that the station uses to contend for the channel."""

    guard_interval_ns: int
    """Guard interval: 400 or 800 with `n` and `ac`, 800, 1600 or 3200 with `ax`, else 800."""

    link: str
    """Id of the link between the station and the access point."""

    power_save_after_ns: int | None
    """
    Time without packets after which the station sleeps, so packets for it wait for a beacon.
    `None` means never.
    """

    rate: WifiRate
    """How the rate of transmissions is chosen, in both directions."""

    scan: Scan | None
    """Absences from the channel in search of other networks."""

    snr: Snr
    """The signal in both directions."""

    standard: WifiStandard
    """The standard of all frames from and to the station."""

    streams: int
    """Spatial streams."""

    uplink: HopDirection
    """The direction from the station to the access point."""

    width_mhz: int
    """Width of these frames in MHz."""


class AccessWifi(TypedDict):
    """The channel of a Wi-Fi network."""

    ap_queue: ApQueue
    """How the access point queues packets for its stations."""

    band: WifiBand
    """The band of the channel."""

    edca: list[Edca]
    """
    Access parameters of each category of the access point and of other networks, in the order
    of [`AccessCategory`].
    """

    kind: Literal["wifi"]
    medium: str
    """Id of the medium."""

    neighbours: list[WifiNeighbours]
    """Stations of other networks on the same channel."""

    retry_limit: int
    """Number of attempts after which a packet is dropped."""

    rts_bytes: int | None
    """
    Size in bytes at or above which a transmission is preceded by RTS and CTS. `None` sends
    none.
    """

    standard: WifiStandard
    """The standard of the access point and of other networks on the channel."""

    stations: list[WifiStation]
    """The stations, one for each link on the medium, in the order of the links."""


Access: TypeAlias = AccessWifi | AccessCellular | AccessLeo | AccessCable
"""An access network."""


class ActionReroute(TypedDict):
    """
    Sends the packets of a path over other links. Packets that have passed the node where the
    paths diverge continue on the old one.
    """

    back: list[Hop]
    """The links from the receiver to the sender."""

    by: RerouteBy
    """What causes it."""

    flow: str
    """Id of the flow."""

    kind: Literal["reroute"]
    path: int
    """Index of the path among those of the flow."""

    there: list[Hop]
    """The links from the sender to the receiver."""


class Direction(TypedDict):
    """The parameters of one direction of a link."""

    delay_ns: int
    """Propagation delay."""

    framing: Framing
    """How the link layer frames a packet and its overhead."""

    jitter_ns: int
    """Uniform extra delay in [0, `jitter_ns`)."""

    loss: Loss
    """The loss model."""

    loss_at: LossPlace
    """Where packets are lost."""

    overhead_bytes: int
    """Bytes per packet that the rate covers in addition to the IP length, at most 65535."""

    queue: Queue
    """The queue discipline."""

    rate_bps: int | None
    """
    Serialization rate in bit/s, with `overhead_bytes` counted. `None` if infinitely fast or
    given by `trace`.
    """

    reorder: bool
    """Whether jitter may reorder packets."""

    trace: Trace | None
    """Capacity, delay and loss over time."""


Flow = TypedDict(
    "Flow",
    {
        "app": Application,
        "cc": list[Algorithm],
        "ceiling_bps": int | None,
        "from": str,
        "group": str,
        "handshake": Handshake,
        "id": str,
        "opened_by": FlowEnd,
        "path_manager": list[Algorithm],
        "paths": list[Path],
        "policy": str | None,
        "scheduler": list[Algorithm],
        "start_ns": int,
        "to": str,
        "transport": Transport,
        "via": list[str] | None,
    },
)


class Link(TypedDict):
    """A link between two interfaces."""

    a: str
    """Interface at one end."""

    b: str
    """Interface at the other end."""

    backward: Direction
    """From `b` to `a`."""

    forward: Direction
    """From `a` to `b`."""

    id: str
    """Id, unique among links."""

    layer: Layer
    """The layer of the traffic that the link carries on a real network."""

    medium: str | None
    """
    Id of the medium that both directions share with other links. `None` gives each direction
    its own serializer.
    """

    real: bool
    """
    Whether it is a link between devices that machines have. Both directions then describe
    nothing, because the link is not emulated.
    """


class ActionSetLink(TypedDict):
    """Gives both directions of a link new values."""

    backward: Direction
    """From `b` to `a`."""

    forward: Direction
    """From `a` to `b`."""

    kind: Literal["set_link"]
    link: str
    """Id of the link."""


Action: TypeAlias = (
    ActionInterfaceDown
    | ActionInterfaceUp
    | ActionLinkDown
    | ActionLinkUp
    | ActionSetLink
    | ActionHandover
    | ActionRoam
    | ActionSetSignal
    | ActionAddressAdd
    | ActionAddressRemove
    | ActionSetBackup
    | ActionReroute
    | ActionSetRecovery
    | ActionExec
)
"""One change of the network or of a host."""


class Event(TypedDict):
    """An action at a given time."""

    action: Action
    """What happens."""

    at_ns: int
    """When it happens."""

    id: str
    """Id, unique among events."""

    parent: str | None
    """Id of the event in the description from which this event was derived."""


class Experiment(TypedDict):
    """A resolved experiment."""

    access: list[Access]
    """The access networks that carry packets of links in place of serializers."""

    control: Control | None
    """How switches of kind `openflow` are controlled. `None` if there are none."""

    description: str | None
    """A longer description."""

    duration_ns: int
    """The latest end of the run."""

    events: list[Event]
    """The events, in ascending order of time."""

    expect: list[str]
    """The expectations. They are evaluated by the reader of the samples."""

    flows: list[Flow]
    """Flows."""

    hosts: list[Host]
    """The hosts."""

    interfaces: list[Interface]
    """All interfaces of hosts and nodes."""

    links: list[Link]
    """Links, each between two interfaces."""

    measure: Measure
    """What is measured."""

    media: list[Medium]
    """Serializers shared by several links."""

    middleboxes: list[Middlebox]
    """
    The middleboxes at the ends of links. Packets that leave an interface pass its middleboxes
    in this order.
    """

    name: str
    """Name of this member of its family."""

    nodes: list[Node]
    """The routers, switches, access points and OpenFlow switches."""

    origins: dict[str, str]
    """Maps fields of the description to where their values come from. Back-ends ignore it."""

    parameters: dict[str, Any]
    """The values that this member has for the parameters of the family."""

    profiles: list[str]
    """The profiles that supplied values."""

    schema: Literal["mptcplab/experiment/3"]
    """Name and version of this form."""

    subnets: list[Subnet]
    """Sets of interfaces without a router between them."""

    title: str | None
    """A title of one line."""

    user_code: list[UserCode]
    """Files with users' own algorithms that flows name."""

    vary: Vary
    """What differs between seeds."""
