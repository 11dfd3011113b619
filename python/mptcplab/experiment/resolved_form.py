"""The resolved form, `mptcplab/experiment/2`, that back-ends read: its types and its JSON Schema.

Quantities are integers with their unit in the name. Every key is present, and null where there is no value.
Lists keep the order of the description. Packets are numbered from 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from mptcplab.experiment.middleboxes import OptionName, SegmentKind
from mptcplab.experiment.schema import DIALECT, Schema
from mptcplab.resolved_versions import SCHEMA

Count: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]

_strict = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))


@_strict
class Vary(TypedDict):
    """What differs between seeds."""

    start_ns: Count
    """Starts of flows are delayed by a random time below this value."""
    rtt_ppm: Count
    """The delays of each link are multiplied by a random factor of 1 ± this value, in millionths, the
    same in both directions."""
    events_ppm: Count
    """The times between events, and the time to the first, are multiplied by a random factor of
    1 ± this value, in millionths, and changed by at most 1 s."""


@_strict
class Behaviour(TypedDict):
    """How the stack of a host handles failures."""

    name: Literal["mainline", "oot"]
    """The preset that the other values are based on. Nothing else follows from it."""
    failed_after: Literal["first_rto", "stale"]
    stale_intervals: Count
    reinjection: Literal["none", "on_rto", "on_stale", "on_close", "opportunistic"]
    reinject_whole_queue: bool
    path_manager_delay_ns: Count
    recreation: Literal["never", "backoff"]
    """Whether the path manager re-creates failed subflows."""
    recreation_first_ns: Count
    recreation_longest_ns: Count
    subflow_order: Literal["newest_first", "oldest_first"]
    timers: Literal["exact", "wheel"]
    """When timers expire."""
    add_address: Literal["once", "fixed", "adaptive"]
    """Whether the announcement of an address is repeated until it is echoed: not at all, after a fixed
    time, or after a time that follows the round-trip times."""
    shares_receive_threshold: bool
    """Whether the receive threshold of a connection grows with the data of all its subflows."""
    counts_out_of_order: bool
    """Whether data in the out-of-order queue of a connection reduces the receive window."""
    tells_doubled_window: bool
    """Whether window updates after a read are sent only if the window has doubled."""
    acks_wait_for_reader: bool
    """Whether acknowledgments that would narrow the window wait until the application has read."""
    offered_window: Literal["half", "share_of_payload"]
    """The part of a receive buffer that is offered as a window."""
    segmentation_offload: bool
    """Whether segments leave in packets of several, unless the host feels its first link."""


@_strict
class NoHostJitter(TypedDict):
    """The host takes no time."""

    kind: Literal["none"]


@_strict
class UnstatedHostJitter(TypedDict):
    """As in experiments older than host jitter: the host takes no time in the simulator, and the time
    of the machine in real time."""

    kind: Literal["unstated"]


@_strict
class HostJitter(TypedDict):
    """Quantiles of the times that the host takes, linear between them."""

    kind: Literal["linux", "quantiles"]
    """With `linux`, real-time back-ends use the times of the machine."""
    p50_ns: Count
    p90_ns: Count
    p99_ns: Count
    max_ns: Count


@_strict
class Host(TypedDict):
    """A host: an end of flows."""

    id: str
    stack: Literal["backend", "kernel", "userspace"]
    mptcp: bool
    one_at_a_time: bool
    syn_retries: Count
    syn_linear_timeouts: Count
    checksum: bool
    fallback: Literal["rfc", "strict"]
    """What happens if MPTCP breaks in mid-stream on the only subflow: with `rfc` the connection continues
    as TCP where RFC 8684 allows it, with `strict` the subflow is reset."""
    rcvbuf_bytes: Count
    sndbuf_bytes: Count
    initial_window_segments: Count
    first_hop: Literal["network", "host"]
    host_jitter: Annotated[UnstatedHostJitter | NoHostJitter | HostJitter, Field(discriminator="kind")]
    """Random time that the host takes to handle packets, and by which its timers fire late."""
    behaviour: Annotated[list[Behaviour], Field(min_length=1)]
    """In order of preference."""


@_strict
class Node(TypedDict):
    """A node between hosts."""

    id: str
    kind: Literal["router", "switch", "ap"]
    next_hop: Literal["ecmp_l3", "ecmp_l4", "random", "by_port"] | None
    """How a router chooses among equal next hops; null if packets follow the path of their flow."""


@_strict
class Interface(TypedDict):
    """An interface of a host or router, or a port of a switch or access point, which has no address."""

    id: str
    """NODE.INTERFACE."""
    node: str
    link: str
    subnet: Count
    ipv4: str | None
    """IPv4 address with prefix length."""
    ipv6: str | None
    """IPv6 address with prefix length."""
    mtu_bytes: Count
    up: bool
    """Whether it is up at the start of the run."""


@_strict
class Subnet(TypedDict):
    """Interfaces that are joined by links and switches without a router between them."""

    id: Count
    ipv4: str
    ipv6: str


@_strict
class Medium(TypedDict):
    """A serializer that links share."""

    id: str
    rate_bps: Count | None
    """Null: each packet is sent at the rate of its link."""
    overhead_bytes: Count


@_strict
class NoLoss(TypedDict):
    """No packet is lost."""

    kind: Literal["none"]


@_strict
class Bernoulli(TypedDict):
    """Independent loss."""

    kind: Literal["bernoulli"]
    probability: Share


@_strict
class GilbertElliott(TypedDict):
    """Loss in bursts."""

    kind: Literal["gilbert_elliott"]
    good_to_bad: Share
    bad_to_good: Share
    loss_good: Share
    loss_bad: Share


@_strict
class LossList(TypedDict):
    """Loss of given packets."""

    kind: Literal["list"]
    packets: list[Count]
    """Numbers of the lost packets, counted from 0 at the place of loss, ascending."""


Loss: TypeAlias = Annotated[NoLoss | Bernoulli | GilbertElliott | LossList, Field(discriminator="kind")]


@_strict
class DropTail(TypedDict):
    """Drop-tail."""

    kind: Literal["drop_tail"]
    limit_packets: Count | None
    limit_bytes: Count | None


@_strict
class Codel(TypedDict):
    """CoDel."""

    kind: Literal["codel"]
    limit_packets: Count | None
    limit_bytes: Count | None
    target_ns: Count
    interval_ns: Count


@_strict
class FqCodel(TypedDict):
    """FQ-CoDel."""

    kind: Literal["fq_codel"]
    limit_packets: Count | None
    limit_bytes: Count | None
    target_ns: Count
    interval_ns: Count
    flows: Count
    quantum_bytes: Count


@_strict
class Red(TypedDict):
    """RED."""

    kind: Literal["red"]
    limit_packets: Count | None
    limit_bytes: Count | None
    min_bytes: Count
    max_bytes: Count
    max_probability: Share
    weight: Share


@_strict
class Pie(TypedDict):
    """PIE."""

    kind: Literal["pie"]
    limit_packets: Count | None
    limit_bytes: Count | None
    target_ns: Count
    update_ns: Count
    max_burst_ns: Count


Queue: TypeAlias = Annotated[DropTail | Codel | FqCodel | Red | Pie, Field(discriminator="kind")]


@_strict
class Trace(TypedDict):
    """Delivery opportunities, repeated without end."""

    opportunities_ns: list[Count]
    """Ascending, below the period."""
    period_ns: Count
    opportunity_bytes: Count


@_strict
class Direction(TypedDict):
    """One direction of a link."""

    rate_bps: Count | None
    """Null: packets take no time, or follow the trace."""
    overhead_bytes: Count
    """Bytes that the rate counts per packet beyond the IP packet."""
    delay_ns: Count
    jitter_ns: Count
    """Random delay added to each packet, uniform from 0 to below this value."""
    reorder: bool
    loss: Loss
    loss_at: Literal["ingress", "egress"]
    queue: Queue
    trace: Trace | None


@_strict
class Link(TypedDict):
    """A link between two interfaces; forward is from `a` to `b`."""

    id: str
    a: str
    b: str
    medium: str | None
    layer: Literal[2, 3]
    """2 if an end of the link is at a switch or access point."""
    forward: Direction
    backward: Direction


@_strict
class OptionsOfMptcp(TypedDict):
    """Removes MPTCP options, or drops the segments that have them."""

    kind: Literal["strip_options", "drop_options"]
    options: list[OptionName]
    segments: list[SegmentKind]
    after_bytes: Count
    """Bytes that the connection must have carried in one direction before this applies."""


@_strict
class RewriteSequence(TypedDict):
    """Shifts sequence numbers by a random amount for each connection."""

    kind: Literal["rewrite_sequence"]


@_strict
class Nat(TypedDict):
    """Hides a host behind these addresses."""

    kind: Literal["nat"]
    ipv4: str
    ipv6: str


@_strict
class Split(TypedDict):
    """Splits segments."""

    kind: Literal["split"]
    largest_bytes: Count
    options: Literal["all", "first"]
    """The pieces that keep the MPTCP options."""


@_strict
class Coalesce(TypedDict):
    """Joins segments."""

    kind: Literal["coalesce"]
    largest_bytes: Count
    hold_ns: Count


@_strict
class ChangeBytes(TypedDict):
    """Changes bytes, at one place in each direction of a connection or at random."""

    kind: Literal["change_bytes"]
    after_bytes: Count | None
    probability: Share | None


@_strict
class InsertBytes(TypedDict):
    """Inserts bytes once in each direction of a connection."""

    kind: Literal["insert_bytes"]
    bytes: Count
    after_bytes: Count


@_strict
class Duplicate(TypedDict):
    """Sends packets twice."""

    kind: Literal["duplicate"]
    probability: Share


@_strict
class AcknowledgeEarly(TypedDict):
    """Acknowledges data before the receiver does."""

    kind: Literal["acknowledge_early"]
    buffer_bytes: Count


Element: TypeAlias = Annotated[
    OptionsOfMptcp
    | RewriteSequence
    | Nat
    | Split
    | Coalesce
    | ChangeBytes
    | InsertBytes
    | Duplicate
    | AcknowledgeEarly,
    Field(discriminator="kind"),
]


@_strict
class Middlebox(TypedDict):
    """An element between an interface and its link."""

    at: str
    direction: Literal["leaving", "arriving", "both"]
    """The packets that it changes, seen from the interface."""
    element: Element


@_strict
class Bulk(TypedDict):
    """Data as fast as possible; without bytes and duration, until the run ends."""

    kind: Literal["bulk"]
    bytes: Count | None
    duration_ns: Count | None


@_strict
class Cbr(TypedDict):
    """Datagrams at a constant rate; rate and size count payload."""

    kind: Literal["cbr"]
    rate_bps: Count
    size_bytes: Count
    duration_ns: Count | None


@_strict
class Probe(TypedDict):
    """Datagrams that the receiver echoes."""

    kind: Literal["probe"]
    every_ns: Count
    size_bytes: Count
    duration_ns: Count | None


@_strict
class RequestResponse(TypedDict):
    """Requests and responses in turn."""

    kind: Literal["request_response"]
    request_bytes: Count
    response_bytes: Count
    count: Count | None
    duration_ns: Count | None


@_strict
class ShortFlows(TypedDict):
    """Short connections, at fixed or random intervals."""

    kind: Literal["short_flows"]
    bytes: Count
    every_ns: Count | None
    poisson_mean_ns: Count | None


@_strict
class Streaming(TypedDict):
    """Data at the rate of a stream."""

    kind: Literal["streaming"]
    bitrate_bps: Count
    startup_ns: Count


@_strict
class Video(TypedDict):
    """Segments of a video, requested by a player that chooses the bit rate of each."""

    kind: Literal["video"]
    bitrates_bps: Annotated[list[Count], Field(min_length=1)]
    """The available bit rates, ascending."""
    segment_ns: Count
    buffer_ns: Count
    startup_ns: Count
    length_ns: Count | None


@_strict
class Iperf3(TypedDict):
    """The iperf3 program."""

    kind: Literal["iperf3"]
    args: list[str]


@_strict
class Command(TypedDict):
    """Any program, which runs on the sending host."""

    kind: Literal["command"]
    argv: list[str]


App: TypeAlias = Annotated[
    Bulk | Cbr | Probe | RequestResponse | ShortFlows | Streaming | Video | Iperf3 | Command,
    Field(discriminator="kind"),
]


@with_config(ConfigDict(extra="allow", use_attribute_docstrings=True))
class Algorithm(TypedDict):
    """An algorithm; its parameters are keys beside its name."""

    name: str


@_strict
class Hop(TypedDict):
    """One link on a path."""

    link: str
    direction: Literal["forward", "backward"]


@_strict
class Path(TypedDict):
    """A path from the sender to the receiver."""

    local: str
    """The interface of the sender."""
    remote: str
    """The interface of the receiver."""
    hops: list[Hop]
    routed: bool
    """Whether routers choose the links; `hops` are then the first and the last only."""
    rate_bps: Count | None
    """The smallest rate of a link on the path."""
    ceiling_bps: Count | None
    """Capacity of the path, in payload bits per second."""
    rtt_ns: Count
    """Propagation delay of both directions."""


# `from` is a keyword, so a class cannot have a field of this name.
_Ends = TypedDict("_Ends", {"from": str, "to": str})


@_strict
class Flow(_Ends):
    """A flow of data from one host to another."""

    id: str
    group: str
    """The flow of the description that this one was made from."""
    opened_by: Literal["from", "to"]
    transport: Literal["udp", "tcp", "mptcp"]
    app: App
    cc: list[str | Algorithm]
    """In order of preference, like `scheduler` and `path_manager`. An algorithm without parameters is
    its name."""
    scheduler: list[str | Algorithm]
    path_manager: list[Algorithm]
    handshake: Literal["primary", "race"]
    """Whether connections start on the first path, or on all paths at once."""
    start_ns: Count
    via: list[str] | None
    """The interfaces that may be used; null: all."""
    paths: list[Path]
    """The first is the primary path. UDP uses only that one."""
    ceiling_bps: Count | None
    """Capacity of all paths together, in payload bits per second."""


@_strict
class OnInterface(TypedDict):
    """A change of an interface."""

    kind: Literal["interface_down", "interface_up", "address_add", "address_remove"]
    interface: str


@_strict
class OnLink(TypedDict):
    """Interrupts a link, or restores it."""

    kind: Literal["link_down", "link_up"]
    link: str
    by: Literal["cut", "drop_rule", "port_down"]


@_strict
class SetLink(TypedDict):
    """Gives a link new settings: all settings, not only those that change."""

    kind: Literal["set_link"]
    link: str
    forward: Direction
    backward: Direction


@_strict
class SetBackup(TypedDict):
    """Makes the subflows of an interface backup, or regular again."""

    kind: Literal["set_backup"]
    interface: str
    on: bool


@_strict
class Exec(TypedDict):
    """Runs a program on a host."""

    kind: Literal["exec"]
    host: str
    argv: list[str]


@_strict
class Event(TypedDict):
    """One primitive action at one time."""

    id: str
    parent: str | None
    """The event of the description, if it stands for several actions."""
    at_ns: Count
    action: Annotated[OnInterface | OnLink | SetLink | SetBackup | Exec, Field(discriminator="kind")]


@_strict
class Measure(TypedDict):
    """What is measured."""

    every_ns: Count
    captures: list[str]
    """The interfaces whose packets are captured."""
    unit_bytes: Count
    probe_rtt_ns: Count | None


@_strict
class UserCode(TypedDict):
    """A file with user-defined algorithms."""

    file: str
    """The file as flows name it, without a colon and what follows."""
    source: str
    """The text of the file; of an eBPF object, its bytes in base64."""


@_strict
class Experiment(TypedDict):
    """A resolved experiment."""

    schema: Literal["mptcplab/experiment/2"]
    name: str
    title: str
    description: str
    profiles: list[str]
    parameters: dict[str, Any]
    """The parameter values of this member; empty without a family."""
    duration_ns: Count
    vary: Vary
    hosts: list[Host]
    nodes: list[Node]
    interfaces: list[Interface]
    subnets: list[Subnet]
    media: list[Medium]
    links: list[Link]
    middleboxes: list[Middlebox]
    """Packets that leave an interface pass its middleboxes in this order."""
    flows: list[Flow]
    events: list[Event]
    """In order of time, and at one instant in the order of the description."""
    measure: Measure
    expect: list[str]
    """Conditions on metrics that a run must satisfy."""
    user_code: list[UserCode]
    """The files of user-defined algorithms that flows name."""
    origins: dict[str, str]
    """Maps each description path to the origin of its value."""


def resolved_schema() -> Schema:
    """Returns the JSON Schema (2020-12) of the resolved form."""
    return {"$schema": DIALECT} | TypeAdapter(Experiment).json_schema() | {"title": SCHEMA}
