"""Hosts, and the nodes between them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from mptcplab.behaviours import DEFAULT, presets
from mptcplab.experiment.base import ONE_OR_MORE, Model, Name, Shorthand, described
from mptcplab.experiment.uses import Uses, UsesByValue
from mptcplab.units import Duration, Size

NextHop = Literal["ecmp", "random", "by_port"]
HeaderHash = Literal["l3", "l4"]


#: The smallest buffer of a TCP socket on Linux: the first number of net.ipv4.tcp_rmem and tcp_wmem,
#: one page.
LEAST_BUFFER = Size("4KiB")


class Behaviour(Shorthand):
    """How the stack handles failures: a preset, and the parameters that differ from it."""

    shorthand = "preset"

    preset: Annotated[
        Literal["mainline", "mainline-6.12", "mainline-6.18", "mainline-7.3", "oot"], UsesByValue("behaviour")
    ] = DEFAULT
    """`mainline` is the mainline kernel, `mainline-6.12`, `mainline-6.18` and `mainline-7.3` are one
    version of it, and `oot` is the out-of-tree kernel of older papers."""
    mptcp_version: Annotated[Literal[0, 1] | None, Uses("behaviour.mptcp_version")] = None
    """The only version of MPTCP that the host supports: 1 (RFC 8684, the default), or 0 (RFC
    6824, as in the out-of-tree kernel). Hosts with different versions fall back to TCP."""
    failed_after: Annotated[Literal["first_rto", "stale"] | None, Uses("behaviour.failed_after")] = None
    """When a subflow counts as failed: `first_rto` at its first retransmission timeout, `stale`
    after more than `stale_intervals` missed intervals.
    """
    stale_intervals: Annotated[Annotated[int, Field(ge=0, le=1000)] | None, Uses("behaviour.stale_intervals")] = None
    """Number of missed intervals beyond which a subflow is stale, if another subflow has missed
    fewer than max(`stale_intervals` - 1, 1). With 0, a subflow never becomes stale."""
    reinjection: Annotated[
        Literal["none", "on_rto", "on_stale", "on_close", "opportunistic"] | None, Uses("behaviour.reinjection")
    ] = None
    """When a subflow's data is reinjected on other subflows."""
    reinject_whole_queue: Annotated[bool | None, Uses("behaviour.reinject_whole_queue")] = None
    """Whether all data assigned to a failed subflow is reinjected, or only the data that it has
    sent.
    """
    path_manager_delay: Annotated[Duration | None, Uses("behaviour.path_manager_delay")] = None
    """Time from an address event until the path manager acts."""
    recreation: Annotated[Literal["never", "backoff"] | None, Uses("behaviour.recreation")] = None
    """Whether `full_mesh` and `n_diff_ports` re-create a subflow that failed or was reset while its
    addresses exist."""
    recreation_first: Annotated[Duration | None, Uses("behaviour.recreation_first")] = None
    """With `recreation: backoff`, the wait before the first attempt. Each further wait is twice as
    long."""
    recreation_longest: Annotated[Duration | None, Uses("behaviour.recreation_longest")] = None
    """Upper limit of these waits."""
    subflow_order: Annotated[Literal["newest_first", "oldest_first"] | None, Uses("behaviour.subflow_order")] = None
    """The order in which the scheduler goes through subflows, which breaks ties."""
    timers: Annotated[Literal["wheel", "exact"] | None, Uses("behaviour.timers")] = None
    """When timers expire: with `wheel` at the ticks of Linux's timer wheel, and therefore late;
    with `exact` when they are due."""

    @model_validator(mode="after")
    def _waits_have_effect(self) -> Behaviour:
        preset = presets()[self.preset]
        given = {name: value for name in _WAITS if (value := getattr(self, name)) is not None}
        if given and (self.recreation or preset["recreation"]) == "never":
            name = next(iter(given))
            raise described(f"'{name}' has no effect on recreation never", "recreation: backoff", field=name)
        first, longest = (given.get(name, Duration(preset[f"{name}_ns"])) for name in _WAITS)
        if not 0 < first <= longest:
            allowed = f"more than 0, and at most recreation_longest, which is {longest}"
            raise described(f"the first wait is {first}", allowed, field="recreation_first")
        return self


_WAITS = ("recreation_first", "recreation_longest")

#: The fields of a behaviour that a preset sets.
OF_PRESET = [name for name in Behaviour.model_fields if name != "preset"]


class Interface(Model):
    """Settings of an interface that a link declares."""

    address: str | list[str] | None = Field(
        None,
        description="addresses in place of the next free ones; IPv4, IPv6 or both",
        examples=["10.9.0.1/24", "fd00:9::1/64"],
    )
    family: Literal["both", "ipv4", "ipv6"] = "both"
    """Address families of the interface. A path uses IPv4 if both of its ends have it."""
    up: bool = True
    """Whether the interface is up at the start of the run."""
    device: str | None = Field(None, examples=["enp1s0"])
    """At a real link: the device of the host's machine by which the interface takes part in the
    network. The interface is a child of this device, and the device itself stays as it is."""
    child: Literal["macvlan", "ipvlan"] | None = None
    """The kind of that child: `macvlan` has a link-layer address of its own, `ipvlan` that of the
    device. The default is `macvlan`, and `ipvlan` for a wireless device, because an access point
    accepts only the address of the device."""

    @model_validator(mode="after")
    def _child_has_a_device(self) -> Interface:
        if self.child is not None and self.device is None:
            raise described("'child' has no effect without device", "device, as in enp1s0", field="child")
        return self


class HostJitter(Model):
    """Random times that a host takes to handle packets, given by their quantiles. Times between two
    quantiles are interpolated linearly. A host handles packets in order.
    """

    p50: Duration
    """Median of the times."""
    p90: Duration
    """90 % of the times are at most this."""
    p99: Duration
    """99 % of the times are at most this."""
    max: Duration
    """Largest time; at most 1 s."""

    @model_validator(mode="after")
    def _quantiles_ascend(self) -> HostJitter:
        ascending = (self.p50, self.p90, self.p99, self.max)
        if list(ascending) != sorted(ascending) or self.p50 < 0 or self.max > Duration("1s"):
            found = f"the quantiles are {', '.join(map(str, ascending))}"
            raise described(found, "0 <= p50 <= p90 <= p99 <= max <= 1s")
        return self


#: Times from the arrival of data to the departure of its acknowledgment on Linux 6.18, less the
#: smallest time (docs/guide/description/hosts-and-nodes.md#hosts-take-time). `max` is the 99.9th
#: percentile.
LINUX_JITTER = HostJitter.default(
    p50=Duration("20us"), p90=Duration("50us"), p99=Duration("140us"), max=Duration("350us")
)


class Host(Model):
    """A host, at which flows begin and end. Hosts do not forward packets."""

    profile: str | list[str] | None = Field(None, description="defaults for this host")
    on: Annotated[str | None, Uses("on")] = Field(None, examples=["lab2"])
    """The machine that the host is on, one of `machines`. The default is the machine that runs the
    experiment. In the simulator it has no effect."""
    stack: Annotated[Literal["backend", "kernel", "userspace"], UsesByValue("stack")] = "backend"
    """The stack of the host: that of the back-end, Linux (`kernel`), or the
    engine (`userspace`).
    """
    mptcp: bool = True
    """Whether MPTCP is enabled. An mptcp flow to a host without it falls back to TCP."""
    one_at_a_time: Annotated[bool, Uses("one_at_a_time")] = False
    """Whether the host uses only one interface at a time, as a phone does."""
    syn_retries: Annotated[int, Field(ge=0, le=255)] = 3
    """Number of unanswered SYN retransmissions with MP_CAPABLE before the host
    falls back to TCP.
    """
    syn_linear_timeouts: Annotated[int, Field(ge=0, le=255)] = 4
    """Number of SYN retransmissions at the initial timeout before the timeout doubles."""
    checksum: bool = False
    """Whether DSS checksums are used."""
    fallback: Annotated[Literal["rfc", "strict"], UsesByValue("fallback")] = "rfc"
    """What happens if MPTCP breaks in mid-stream on the only subflow: `rfc` continues as TCP where
    RFC 8684 allows it, `strict` resets the subflow rather than deliver a byte that was not sent."""
    rcvbuf: Size = Size("6MiB")
    """Upper limit for autotuning of the receive buffer, at least 4 KiB. The buffer counts memory:
    with 6 MiB Linux offers a receive window of 3.9 MB.
    """
    sndbuf: Size = Size("4MiB")
    """Upper limit for autotuning of the send buffer, at least 4 KiB."""
    initial_window: Annotated[int, Field(ge=1, le=1000)] = 10
    """Initial cwnd, in segments."""
    first_hop: Annotated[Literal["network", "host"], UsesByValue("first_hop")] = "network"
    """Where packets wait for the host's links: `network`, in the queue of the link; `host`, in the
    host itself, so that senders wait and no packet is dropped.
    """
    host_jitter: Annotated[
        Annotated[Literal["linux", "none"], Tag("<word>")] | Annotated[HostJitter, Tag("<quantiles>")],
        Discriminator(lambda value: "<word>" if isinstance(value, str) else "<quantiles>"),
        UsesByValue("host_jitter"),
    ] = "linux"
    """Random time that the host takes to handle a packet, and by which its timers are late.
    `linux`: as on a Linux host (in real time, the time that the machine itself takes). `none`: no
    such time. Otherwise: times with the given quantiles."""
    behaviour: Annotated[list[Behaviour], ONE_OR_MORE, Field(min_length=1)] = [Behaviour.default(preset=DEFAULT)]
    """How the stack handles failures: one behaviour, or a list in order of preference. Using an
    entry other than the first is recorded as a substitution."""
    interfaces: dict[Name, Interface] = {}
    """Addresses and initial states of interfaces. Links declare the interfaces by naming them."""

    @model_validator(mode="after")
    def _buffers_hold_a_segment(self) -> Host:
        for name in ("rcvbuf", "sndbuf"):
            if getattr(self, name) < LEAST_BUFFER:
                raise described(f"{getattr(self, name)} is too small", f"at least {LEAST_BUFFER}", field=name)
        return self


class NetworkNode(Model):
    """A node between hosts. A router joins subnets; a switch or an access point extends one."""

    kind: Annotated[Literal["router", "switch", "ap", "openflow"], UsesByValue("kind")]
    """Kind of node. Routers forward packets; switches and access points forward frames; `openflow`
    is a switch under `control`.
    """
    next_hop: Annotated[NextHop | None, UsesByValue("next_hop", ecmp=("ecmp_l3", "ecmp_l4"))] = None
    """For routers: how one of several equal next hops is chosen. By default, packets follow the
    path of their flow."""
    hash: Annotated[HeaderHash | None, Uses("next_hop ecmp_l3", "next_hop ecmp_l4")] = None
    """With `next_hop: ecmp`, the hashed fields: `l4` addresses and ports (the default), `l3`
    addresses only.
    """

    @model_validator(mode="after")
    def _choice_has_effect(self) -> NetworkNode:
        if self.next_hop is not None and self.kind != "router":
            raise described(f"'next_hop' has no effect on kind {self.kind}", "kind router", field="next_hop")
        check_hash(self.next_hop, self.hash)
        return self


def check_hash(next_hop: NextHop | None, header_hash: HeaderHash | None) -> None:
    """Refuses `hash` without `next_hop: ecmp`."""
    if header_hash is not None and next_hop != "ecmp":
        raise described("'hash' has no effect without next_hop ecmp", "next_hop: ecmp", field="hash")
