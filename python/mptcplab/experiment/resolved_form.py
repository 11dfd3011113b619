"""The resolved form, `mptcplab/experiment/1`, as types: what every back-end gets, and its JSON Schema.

Integers with their unit in the name; every key is there, null where there is no value; lists keep the order of
declaration. Numbers of packets are counted from 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypeAlias

from pydantic import ConfigDict, Field, TypeAdapter, with_config
from typing_extensions import TypedDict

from mptcplab.experiment.middleboxes import OptionName, SegmentKind
from mptcplab.experiment.schema import DIALECT, Schema

SCHEMA = "mptcplab/experiment/1"

Count: TypeAlias = Annotated[int, Field(ge=0)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]

_strict = with_config(ConfigDict(extra="forbid", use_attribute_docstrings=True))


@_strict
class Vary(TypedDict):
    """What differs between seeds."""

    start_ns: Count
    """Starts of flows are drawn from 0 to this."""
    rtt_ppm: Count
    """The delays of each link are scaled by 1 +- this, in millionths; both directions alike."""
    events_ppm: Count
    """The times between events, and that to the first, are scaled by 1 +- this, in millionths, by 1 s at most."""


@_strict
class Behaviour(TypedDict):
    """How a host's stack meets failures."""

    name: Literal["mainline", "oot"]
    """The preset that the other values started from."""
    failed_after: Literal["first_rto", "stale"]
    stale_intervals: Count
    reinjection: Literal["none", "on_rto", "on_stale", "on_close", "opportunistic"]
    reinject_whole_queue: bool
    path_manager_delay_ns: Count
    recreation: Literal["never", "backoff"]
    """Whether the path manager opens a subflow again that failed."""
    recreation_first_ns: Count
    recreation_longest_ns: Count
    subflow_order: Literal["newest_first", "oldest_first"]
    timers: NotRequired[Literal["exact", "wheel"]]
    """When timers expire; without it exactly."""


@_strict
class NoHostJitter(TypedDict):
    """It takes no time."""

    kind: Literal["none"]


@_strict
class HostJitter(TypedDict):
    """Quantiles of the times that it takes, linear in between."""

    kind: Literal["linux", "quantiles"]
    """`linux`: in real time the machine's own."""
    p50_ns: Count
    p90_ns: Count
    p99_ns: Count
    max_ns: Count


@_strict
class Host(TypedDict):
    """An end of flows."""

    id: str
    stack: Literal["backend", "kernel", "userspace"]
    mptcp: bool
    one_at_a_time: bool
    syn_retries: Count
    syn_linear_timeouts: Count
    checksum: bool
    fallback: NotRequired[Literal["strict"]]
    """A reset where MPTCP breaks in mid-stream on the only subflow; without it what the RFC says."""
    rcvbuf_bytes: Count
    sndbuf_bytes: Count
    initial_window_segments: Count
    first_hop: Literal["network", "host"]
    host_jitter: NotRequired[Annotated[NoHostJitter | HostJitter, Field(discriminator="kind")]]
    """How long it takes to handle what arrives, and how late its timers fire. Without it, in descriptions from before
    there was one: no time in the simulator, in real time the machine's own."""
    behaviour: Annotated[list[Behaviour], Field(min_length=1)]
    """In order of preference."""


@_strict
class Node(TypedDict):
    """What stands between hosts."""

    id: str
    kind: Literal["router", "switch", "ap"]
    next_hop: NotRequired[Literal["ecmp_l3", "ecmp_l4", "random", "by_port"]]
    """Routers that choose among equal next hops themselves: how."""


@_strict
class Interface(TypedDict):
    """An interface of a host or router, or a port of a switch or access point, which has no address."""

    id: str
    """NODE.INTERFACE."""
    node: str
    link: str
    subnet: Count
    ipv4: str | None
    """With prefix length."""
    ipv6: str | None
    """With prefix length."""
    mtu_bytes: Count
    up: bool
    """At the start."""


@_strict
class Subnet(TypedDict):
    """Interfaces joined by links and switches with no router between."""

    id: Count
    ipv4: str
    ipv6: str


@_strict
class Medium(TypedDict):
    """A serializer that links share."""

    id: str
    rate_bps: Count | None
    """Null: each link's own rate is used for its packets."""
    overhead_bytes: Count


@_strict
class NoLoss(TypedDict):
    """Nothing is lost."""

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
    """Exactly these packets are lost."""

    kind: Literal["list"]
    packets: list[Count]
    """Counted from 0 at the place of loss, ascending."""


Loss: TypeAlias = Annotated[NoLoss | Bernoulli | GilbertElliott | LossList, Field(discriminator="kind")]


@_strict
class DropTail(TypedDict):
    """A plain queue."""

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
    """Delivery opportunities, repeated."""

    opportunities_ns: list[Count]
    """Ascending, below the period."""
    period_ns: Count
    opportunity_bytes: Count


@_strict
class Direction(TypedDict):
    """One direction of a link."""

    rate_bps: Count | None
    """Null: takes no time, or follows the trace."""
    overhead_bytes: Count
    """What the rate counts per packet beyond its IP bytes."""
    delay_ns: Count
    jitter_ns: Count
    """Added to the delay, uniform from 0 to below this."""
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
    """2 if one of its ends is a switch or access point."""
    forward: Direction
    backward: Direction


@_strict
class OptionsOfMptcp(TypedDict):
    """Options are taken out, or their segments are dropped."""

    kind: Literal["strip_options", "drop_options"]
    options: list[OptionName]
    segments: list[SegmentKind]
    after_bytes: Count
    """Data that a connection has carried, one way or the other, before it begins."""


@_strict
class RewriteSequence(TypedDict):
    """Sequence numbers are shifted at random."""

    kind: Literal["rewrite_sequence"]


@_strict
class Nat(TypedDict):
    """A host is hidden behind these addresses."""

    kind: Literal["nat"]
    ipv4: str
    ipv6: str


@_strict
class Split(TypedDict):
    """Segments are cut."""

    kind: Literal["split"]
    largest_bytes: Count
    options: Literal["all", "first"]
    """Which pieces have the options of MPTCP."""


@_strict
class Coalesce(TypedDict):
    """Segments are joined."""

    kind: Literal["coalesce"]
    largest_bytes: Count
    hold_ns: Count


@_strict
class ChangeBytes(TypedDict):
    """Bytes are changed: at one place, or at random."""

    kind: Literal["change_bytes"]
    after_bytes: Count | None
    probability: Share | None


@_strict
class InsertBytes(TypedDict):
    """Bytes are inserted."""

    kind: Literal["insert_bytes"]
    bytes: Count
    after_bytes: Count


@_strict
class Duplicate(TypedDict):
    """Packets are sent twice."""

    kind: Literal["duplicate"]
    probability: Share


@_strict
class AcknowledgeEarly(TypedDict):
    """Data is acknowledged in the receiver's place."""

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
    """What stands between an interface and its link."""

    at: str
    direction: Literal["leaving", "arriving", "both"]
    """Seen from the interface."""
    element: Element


@_strict
class Bulk(TypedDict):
    """Data as fast as it goes; without bytes and duration until the run ends."""

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
    """Datagrams that the peer echoes."""

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
    """New connections, at fixed or random intervals."""

    kind: Literal["short_flows"]
    bytes: Count
    every_ns: Count | None
    poisson_mean_ns: Count | None


@_strict
class Streaming(TypedDict):
    """A paced stream."""

    kind: Literal["streaming"]
    bitrate_bps: Count
    startup_ns: Count


@_strict
class Video(TypedDict):
    """Segments that a player asks for, each with a bit rate of its choice."""

    kind: Literal["video"]
    bitrates_bps: Annotated[list[Count], Field(min_length=1)]
    """Ascending."""
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
    """Any program, run at the sending host."""

    kind: Literal["command"]
    argv: list[str]


App: TypeAlias = Annotated[
    Bulk | Cbr | Probe | RequestResponse | ShortFlows | Streaming | Video | Iperf3 | Command,
    Field(discriminator="kind"),
]


@with_config(ConfigDict(extra="allow", use_attribute_docstrings=True))
class Algorithm(TypedDict):
    """An algorithm and its parameters, which stand beside its name."""

    name: str


@_strict
class Hop(TypedDict):
    """One link on a path."""

    link: str
    direction: Literal["forward", "backward"]


@_strict
class Path(TypedDict):
    """A way from the sender to the receiver."""

    local: str
    """Interface of the sender."""
    remote: str
    """Interface of the receiver."""
    hops: list[Hop]
    routed: NotRequired[Literal[True]]
    """Where routers choose the links: `hops` are then the first and the last."""
    rate_bps: Count | None
    """The tightest rate on the way."""
    ceiling_bps: Count | None
    """Payload bits per second at that rate."""
    rtt_ns: Count
    """Propagation there and back."""


# `from` is a keyword, so this part cannot be written as a class.
_Ends = TypedDict("_Ends", {"from": str, "to": str})


@_strict
class Flow(_Ends):
    """Data from one host to another."""

    id: str
    group: str
    """The flow of the description that this one was made from."""
    opened_by: Literal["from", "to"]
    transport: Literal["udp", "tcp", "mptcp"]
    app: App
    cc: list[str | Algorithm]
    """In order of preference, as `scheduler` and `path_manager`. Without parameters it is the name alone."""
    scheduler: list[str | Algorithm]
    path_manager: list[Algorithm]
    handshake: NotRequired[Literal["race"]]
    """On all paths at once; without it on the first."""
    start_ns: Count
    via: list[str] | None
    """Only these interfaces; null: any."""
    paths: list[Path]
    """The first is the primary one; udp uses no other."""
    ceiling_bps: Count | None
    """The most payload that all paths carry together."""


@_strict
class OnInterface(TypedDict):
    """Something happens to an interface."""

    kind: Literal["interface_down", "interface_up", "address_add", "address_remove"]
    interface: str


@_strict
class OnLink(TypedDict):
    """A link is interrupted, or comes back."""

    kind: Literal["link_down", "link_up"]
    link: str
    by: Literal["cut", "drop_rule", "port_down"]


@_strict
class SetLink(TypedDict):
    """A link gets new settings: whole, not only what changes."""

    kind: Literal["set_link"]
    link: str
    forward: Direction
    backward: Direction


@_strict
class SetBackup(TypedDict):
    """The subflows of an interface become backup, or regular again."""

    kind: Literal["set_backup"]
    interface: str
    on: bool


@_strict
class Exec(TypedDict):
    """A program is run at a host."""

    kind: Literal["exec"]
    host: str
    argv: list[str]


@_strict
class Event(TypedDict):
    """One primitive action at one time."""

    id: str
    parent: str | None
    """The event of the description, where that stands for several."""
    at_ns: Count
    action: Annotated[OnInterface | OnLink | SetLink | SetBackup | Exec, Field(discriminator="kind")]


@_strict
class Measure(TypedDict):
    """What is measured."""

    every_ns: Count
    captures: list[str]
    """Interfaces."""
    unit_bytes: Count
    probe_rtt_ns: Count | None


@_strict
class UserCode(TypedDict):
    """A file with users' own algorithms."""

    file: str
    """As flows name it, before the colon if there is one."""
    source: str
    """Its text; of an eBPF object its bytes in base64."""


@_strict
class Experiment(TypedDict):
    """A resolved experiment."""

    schema: Literal["mptcplab/experiment/1"]
    name: str
    title: str
    description: str
    profiles: list[str]
    parameters: dict[str, Any]
    """This member's values; empty without a family."""
    duration_ns: Count
    vary: Vary
    hosts: list[Host]
    nodes: list[Node]
    interfaces: list[Interface]
    subnets: list[Subnet]
    media: list[Medium]
    links: list[Link]
    middleboxes: NotRequired[list[Middlebox]]
    """Only where there are some; leaving packets pass those before one interface in this order."""
    flows: list[Flow]
    events: list[Event]
    """Ascending in time; those of one instant in order of the description."""
    measure: Measure
    expect: list[str]
    """Conditions on metrics."""
    user_code: NotRequired[list[UserCode]]
    """Only where flows name such algorithms."""
    origins: dict[str, str]
    """Description path -> where the value came from."""


def resolved_schema() -> Schema:
    """JSON Schema (2020-12) of the resolved form."""
    return {"$schema": DIALECT} | TypeAdapter(Experiment).json_schema() | {"title": SCHEMA}
