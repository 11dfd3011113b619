"""Hosts and the nodes between them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from mptcplab.experiment.base import ONE_OR_MORE, Model, Name, Shorthand, described
from mptcplab.units import Duration, Size

NextHop = Literal["ecmp", "random", "by_port"]
HeaderHash = Literal["l3", "l4"]


#: The least that Linux gives a TCP socket: the first number of net.ipv4.tcp_rmem and tcp_wmem, one page.
LEAST_BUFFER = Size("4KiB")


class Behaviour(Shorthand):
    """How the stack meets failures: a preset, and each of its parameters where it differs."""

    shorthand = "preset"

    preset: Literal["mainline", "oot"] = "mainline"
    """`mainline` is today's Linux; `oot` the out-of-tree kernel of the papers."""
    failed_after: Literal["first_rto", "stale"] | None = None
    """When a subflow is taken for failed: at its first retransmission timeout, or after `stale_intervals` more."""
    stale_intervals: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Intervals without progress until a subflow is stale."""
    reinjection: Literal["none", "on_rto", "on_stale", "on_close", "opportunistic"] | None = None
    """When data of one subflow is sent again over others."""
    reinject_whole_queue: bool | None = None
    """Whether the whole queue is sent again, or only what the failed subflow carried."""
    path_manager_delay: Duration | None = None
    """How long after an address event the path manager acts."""
    recreation: Literal["never", "backoff"] | None = None
    """Whether `full_mesh` and `n_diff_ports` open a subflow again that failed or was closed by others, while its
    addresses are there."""
    recreation_first: Duration | None = None
    """With `recreation: backoff`, how long they wait before the first try; waits double."""
    recreation_longest: Duration | None = None
    """Up to which waits double."""
    subflow_order: Literal["newest_first", "oldest_first"] | None = None
    """The order in which the scheduler sees subflows: it breaks ties."""
    timers: Literal["wheel", "exact"] | None = None
    """Whether timers expire late with the ticks of Linux's timer wheel, or when they are due."""

    @model_validator(mode="after")
    def _waits_have_effect(self) -> Behaviour:
        preset = PRESETS[self.preset]
        given = {name: value for name in _WAITS if (value := getattr(self, name)) is not None}
        if given and (self.recreation or preset["recreation"]) == "never":
            name = next(iter(given))
            raise described(f"'{name}' has no effect on recreation never", "recreation: backoff", field=name)
        first, longest = (given.get(name, preset[name]) for name in _WAITS)
        if not 0 < first <= longest:
            allowed = f"more than 0, and at most recreation_longest, which is {longest}"
            raise described(f"the first wait is {first}", allowed, field="recreation_first")
        return self


_WAITS = ("recreation_first", "recreation_longest")

PRESETS: dict[str, dict[str, Any]] = {
    "mainline": {
        "failed_after": "stale",
        "stale_intervals": 4,
        "reinjection": "on_stale",
        "reinject_whole_queue": True,
        "path_manager_delay": Duration(0),
        "recreation": "backoff",
        "recreation_first": Duration("100ms"),
        "recreation_longest": Duration("30s"),
        "subflow_order": "oldest_first",
        "timers": "wheel",
    },
    "oot": {
        "failed_after": "first_rto",
        "stale_intervals": 0,
        "reinjection": "on_rto",
        "reinject_whole_queue": False,
        "path_manager_delay": Duration("500ms"),
        "recreation": "never",
        "recreation_first": Duration("100ms"),
        "recreation_longest": Duration("30s"),
        "subflow_order": "newest_first",
        "timers": "exact",
    },
}


class Interface(Model):
    """Settings of an interface that a link declares."""

    address: str | list[str] | None = Field(
        None, description="instead of the next free one; IPv4, IPv6 or both", examples=["10.9.0.1/24", "fd00:9::1/64"]
    )
    family: Literal["both", "ipv4", "ipv6"] = "both"
    """Of which families it has addresses. A path goes over IPv4 where both of its ends have it."""
    up: bool = True
    """Whether it is up at the start."""


class HostJitter(Model):
    """Times that a host takes, by their quantiles, linear in between; in order per host."""

    p50: Duration
    """Half of the times are at most this."""
    p90: Duration
    """Nine of ten."""
    p99: Duration
    """99 of 100."""
    max: Duration
    """All of them; at most 1 s."""

    @model_validator(mode="after")
    def _quantiles_ascend(self) -> HostJitter:
        ascending = (self.p50, self.p90, self.p99, self.max)
        if list(ascending) != sorted(ascending) or self.p50 < 0 or self.max > Duration("1s"):
            found = f"the quantiles are {', '.join(map(str, ascending))}"
            raise described(found, "0 <= p50 <= p90 <= p99 <= max <= 1s")
        return self


#: What a host takes on Linux 6.18, beyond the least, from the arrival of data to the departure of their acknowledgment
#: (docs/description/hosts-and-nodes.md#hosts-take-time). `max` is the 99.9th percentile.
LINUX_JITTER = HostJitter(p50=Duration("20us"), p90=Duration("50us"), p99=Duration("140us"), max=Duration("350us"))


class Host(Model):
    """An end of flows. It does not forward."""

    profile: str | list[str] | None = Field(None, description="defaults for this host")
    stack: Literal["backend", "kernel", "userspace"] = "backend"
    """Whose TCP it runs: the back-end's own, the kernel's, or ours."""
    mptcp: bool = True
    """Whether it speaks MPTCP; an mptcp flow to a host that does not falls back to TCP."""
    one_at_a_time: bool = False
    """Only one interface is used at a time, as on a phone."""
    syn_retries: Annotated[int, Field(ge=0, le=255)] = 3
    """SYNs with MP_CAPABLE that go unanswered before it falls back to TCP."""
    syn_linear_timeouts: Annotated[int, Field(ge=0, le=255)] = 4
    """SYN retransmissions at the initial timeout, before it doubles."""
    checksum: bool = False
    """DSS checksums."""
    fallback: Literal["rfc", "strict"] = "rfc"
    """When MPTCP breaks in mid-stream on the only subflow: TCP where the RFC allows it, or a reset rather than a byte
    that was not sent."""
    rcvbuf: Size = Size("6MiB")
    """Receive buffer, up to which autotuning goes, at least 4 KiB. It is memory: of 6 MiB Linux offers a window of
    3.9 MB."""
    sndbuf: Size = Size("4MiB")
    """Send buffer, up to which autotuning goes, at least 4 KiB."""
    initial_window: Annotated[int, Field(ge=1, le=1000)] = 10
    """Initial congestion window, in segments."""
    first_hop: Literal["network", "host"] = "network"
    """Where the first queue is: in the network, or in the host, whose senders then wait instead of losing packets."""
    host_jitter: Annotated[
        Annotated[Literal["linux", "none"], Tag("<word>")] | Annotated[HostJitter, Tag("<quantiles>")],
        Discriminator(lambda value: "<word>" if isinstance(value, str) else "<quantiles>"),
    ] = "linux"
    """How long it takes to handle what arrives and how late its timers fire, at random: as hosts on Linux, not at all,
    or with quantiles of your own. In real time `linux` is whatever the machine takes, and the others are refused."""
    behaviour: Annotated[list[Behaviour], ONE_OR_MORE, Field(min_length=1)] = [Behaviour(preset="mainline")]
    """How it meets failures: one, or a list in order of preference. A substitution is recorded."""
    interfaces: dict[Name, Interface] = {}
    """Addresses and initial states of interfaces; they are declared by the links that name them."""

    @model_validator(mode="after")
    def _buffers_hold_a_segment(self) -> Host:
        for name in ("rcvbuf", "sndbuf"):
            if getattr(self, name) < LEAST_BUFFER:
                raise described(f"{getattr(self, name)} is too small", f"at least {LEAST_BUFFER}", field=name)
        return self


class NetworkNode(Model):
    """What stands between hosts: a router joins subnets, a switch or access point extends one."""

    kind: Literal["router", "switch", "ap"]
    """Routers forward packets, switches and access points frames."""
    next_hop: NextHop | None = None
    """Routers: how one of several equal next hops is chosen; without it packets follow the path of their flow."""
    hash: HeaderHash | None = None
    """With `next_hop: ecmp`, what is hashed: `l4` addresses and ports (the default), `l3` addresses alone."""

    @model_validator(mode="after")
    def _choice_has_effect(self) -> NetworkNode:
        if self.next_hop is not None and self.kind != "router":
            raise described(f"'next_hop' has no effect on kind {self.kind}", "kind router", field="next_hop")
        check_hash(self.next_hop, self.hash)
        return self


def check_hash(next_hop: NextHop | None, header_hash: HeaderHash | None) -> None:
    """Refuses a hash where nobody hashes."""
    if header_hash is not None and next_hop != "ecmp":
        raise described("'hash' has no effect without next_hop ecmp", "next_hop: ecmp", field="hash")
