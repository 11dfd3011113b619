"""Middleboxes: what stands at the ends of links and does not leave TCP as it is."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import AfterValidator, Field, model_validator

from mptcplab.experiment.base import ONE_OR_MORE, Model, described, one_of
from mptcplab.topology import Network
from mptcplab.units import Duration, Probability, Size

OptionName = Literal[
    "mp_capable",
    "mp_join",
    "dss",
    "add_addr",
    "remove_addr",
    "mp_prio",
    "mp_fail",
    "mp_fastclose",
    "mp_tcprst",
]
SegmentKind = Literal["syn", "syn_ack", "non_syn"]

#: Where NATs have the addresses that others see: shared address space (RFC 6598) and a unique local prefix.
_OUTSIDE_IPV4 = ipaddress.IPv4Network("100.64.0.0/10")
_OUTSIDE_IPV6 = ipaddress.IPv6Network("fd64::/64")

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
AnyNetwork: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


def _up_to(most: int) -> AfterValidator:
    """A size of at least a byte."""

    def check(size: Size) -> Size:
        if not 1 <= size <= most:
            raise described(f"{size} is out of range", f"1 to {most} bytes")
        return size

    return AfterValidator(check)


class Selection(Model):
    """Options of MPTCP, and the segments in which they are meant."""

    options: Annotated[list[OptionName], ONE_OR_MORE, Field(min_length=1)] | None = None
    """Which options; without it all."""
    segments: Annotated[list[SegmentKind], ONE_OR_MORE, Field(min_length=1)] | None = None
    """In which segments; without it in all."""
    after: Size = Size(0)
    """How much data a connection has carried, one way or the other, before it begins."""


class RewriteSequence(Model):
    """Other sequence numbers than the sender's, by a random amount for each connection."""


class Nat(Model):
    """Other addresses and ports than the host's."""


class Split(Model):
    """Segments cut into smaller ones."""

    largest: Annotated[Size, _up_to(65_535)] = Size(536)
    """The most payload of a piece."""
    options: Literal["all", "first"] = "all"
    """Which pieces have the options of MPTCP."""


class Coalesce(Model):
    """Segments joined to larger ones. The options of the first are kept."""

    # What an IP packet carries beside the longest headers.
    largest: Annotated[Size, _up_to(65_000)] = Size(4096)
    """The most payload of what comes of it."""
    hold: Duration = Duration("1ms")
    """How long a segment waits for the next one."""


class ChangeBytes(Model):
    """A bit of a byte is changed."""

    after: Size | None = Field(None, examples=["8kB"])
    """The byte behind that many others of each connection, whenever it comes."""
    probability: Probability | None = Field(None, examples=["1%"])
    """Some byte of each segment with this probability."""

    @model_validator(mode="after")
    def _one_place(self) -> ChangeBytes:
        one_of(self, ["after", "probability"], "change_bytes")
        return self


class InsertBytes(Model):
    """Bytes between the data. Later sequence numbers are shifted, so that TCP notices nothing."""

    # What any packet has room for.
    bytes: Annotated[Size, _up_to(400)] = Size(3)
    """How many."""
    after: Size = Field(examples=["8kB"])
    """Behind that many bytes of each connection."""


class Duplicate(Model):
    """Packets are sent twice."""

    probability: Probability = Field(examples=["1%"])
    """Probability for each packet."""


class AcknowledgeEarly(Model):
    """A proxy that acknowledges data before the receiver has them, and sends them again if they are lost behind it."""

    buffer: Annotated[Size, _up_to(2**53)] = Size("64kB")
    """The most data of a connection that it keeps; what comes beyond is left to the receiver."""


class Middlebox(Model):
    """What stands between an interface and its link, and does exactly one of these things to TCP."""

    at: Annotated[list[str], ONE_OR_MORE] = Field(examples=["client.wlan0", "client.eth[1-8]"])
    """The interface before which it stands; at several there is one before each."""
    direction: Literal["leaving", "arriving", "both"] | None = None
    """Whose packets it works on: those that leave the interface, those that arrive, or `both`, the default. A NAT hides
    who sends them: `leaving`, its default, or `arriving`."""
    strip_options: Selection | None = None
    """Takes options of MPTCP out."""
    drop_options: Selection | None = None
    """Drops segments with such options."""
    rewrite_sequence: RewriteSequence | None = None
    """Shifts sequence numbers."""
    nat: Nat | None = None
    """Translates addresses and ports."""
    split: Split | None = None
    """Cuts segments."""
    coalesce: Coalesce | None = None
    """Joins segments."""
    change_bytes: ChangeBytes | None = None
    """Changes data."""
    insert_bytes: InsertBytes | None = None
    """Inserts data."""
    duplicate: Duplicate | None = None
    """Sends packets twice."""
    acknowledge_early: AcknowledgeEarly | None = None
    """Acknowledges in the receiver's place."""

    @model_validator(mode="after")
    def _one_element(self) -> Middlebox:
        one_of(self, [name for name in type(self).model_fields if name not in ("at", "direction")], "a middlebox")
        if self.nat is not None and self.direction == "both":
            raise described("a NAT hides one side", "leaving, arriving", field="direction")
        return self


def check_place(middlebox: Middlebox, interface: str, network: Network) -> None:
    """Refuses a NAT that hides no host, or stands where link-layer addresses are asked for."""
    if middlebox.nat is None:
        return
    ends = {port.id: port.node for port in network.links[network.ports[interface].link]}
    hidden = interface if middlebox.direction != "arriving" else next(end for end in ends if end != interface)
    if network.kinds[ends[hidden]] != "host":
        raise described(f"a NAT here would hide {ends[hidden]}, which is no host", "the link of the host that it hides")
    if any(network.is_layer2(node) for node in ends.values()):
        raise described("a NAT stands on no link of a switch or access point", "a link between hosts and routers")


def outside_addresses(taken: Iterable[AnyNetwork]) -> Iterator[tuple[Address, Address]]:
    """Addresses for one NAT after the other, in no network that is taken."""
    networks = list(taken)

    def free(pool: AnyNetwork) -> Iterator[Address]:
        return (address for address in pool.hosts() if not any(address in network for network in networks))

    return zip(free(_OUTSIDE_IPV4), free(_OUTSIDE_IPV6), strict=False)


def element(middlebox: Middlebox, outside: Iterator[tuple[Address, Address]]) -> dict[str, Any]:
    """What a middlebox does, as integers; a NAT takes the next addresses of `outside`."""
    box = middlebox
    if selection := box.strip_options or box.drop_options:
        kind = "strip_options" if box.strip_options else "drop_options"
        names = {
            "options": list(selection.options or get_args(OptionName)),
            "segments": list(selection.segments or get_args(SegmentKind)),
        }
        return {"kind": kind, **names, "after_bytes": int(selection.after)}
    if box.rewrite_sequence:
        return {"kind": "rewrite_sequence"}
    if box.nat:
        ipv4, ipv6 = next(outside)
        return {"kind": "nat", "ipv4": str(ipv4), "ipv6": str(ipv6)}
    if box.split:
        return {"kind": "split", "largest_bytes": int(box.split.largest), "options": box.split.options}
    if box.coalesce:
        return {
            "kind": "coalesce",
            "largest_bytes": int(box.coalesce.largest),
            "hold_ns": int(box.coalesce.hold),
        }
    if box.change_bytes:
        after, probability = box.change_bytes.after, box.change_bytes.probability
        return {
            "kind": "change_bytes",
            "after_bytes": None if after is None else int(after),
            "probability": None if probability is None else float(probability),
        }
    if box.insert_bytes:
        return {
            "kind": "insert_bytes",
            "bytes": int(box.insert_bytes.bytes),
            "after_bytes": int(box.insert_bytes.after),
        }
    if box.duplicate:
        return {"kind": "duplicate", "probability": float(box.duplicate.probability)}
    assert box.acknowledge_early is not None, "validated: exactly one"
    return {"kind": "acknowledge_early", "buffer_bytes": int(box.acknowledge_early.buffer)}
