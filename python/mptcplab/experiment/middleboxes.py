"""Middleboxes: elements at the ends of links that change TCP."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypedDict, get_args

from pydantic import AfterValidator, Field, model_validator

from mptcplab.experiment.base import ONE_OR_MORE, Model, described, one_of
from mptcplab.topology import Network
from mptcplab.units import Duration, Probability, Size

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form

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

#: The outside addresses of NATs: shared address space (RFC 6598) and a unique local prefix.
_OUTSIDE_IPV4 = ipaddress.IPv4Network("100.64.0.0/10")
_OUTSIDE_IPV6 = ipaddress.IPv6Network("fd64::/64")

Address: TypeAlias = "ipaddress.IPv4Address | ipaddress.IPv6Address"
AnyNetwork: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"


def _up_to(most: int) -> AfterValidator:
    """Accepts sizes from 1 to `most` bytes."""

    def check(size: Size) -> Size:
        if not 1 <= size <= most:
            raise described(f"{size} is out of range", f"1 to {most} bytes")
        return size

    return AfterValidator(check)


class Selection(Model):
    """Selects MPTCP options in segments."""

    options: Annotated[list[OptionName], ONE_OR_MORE, Field(min_length=1)] | None = None
    """The options; by default, all of them."""
    segments: Annotated[list[SegmentKind], ONE_OR_MORE, Field(min_length=1)] | None = None
    """The segments; by default, all of them."""
    after: Size = Size(0)
    """Data that the connection must have carried in one direction before the selection applies."""


class RewriteSequence(Model):
    """Shifts sequence numbers by a random amount for each connection."""


class Nat(Model):
    """Translates the addresses and ports of a host."""


class Split(Model):
    """Splits segments."""

    largest: Annotated[Size, _up_to(65_535)] = Size(536)
    """Largest payload of a piece."""
    options: Literal["all", "first"] = "all"
    """The pieces that keep the MPTCP options."""


class Coalesce(Model):
    """Joins consecutive segments and keeps the options of the first."""

    # Fits into an IP packet with the longest headers.
    largest: Annotated[Size, _up_to(65_000)] = Size(4096)
    """Largest payload of the joined segment."""
    hold: Duration = Duration("1ms")
    """How long a segment waits for the next one."""


class ChangeBytes(Model):
    """Changes one bit of a byte and adjusts the TCP checksum."""

    after: Size | None = Field(None, examples=["8kB"])
    """Changes the byte after this many bytes in each direction of a connection, every time that it
    is sent."""
    probability: Probability | None = Field(None, examples=["1%"])
    """Changes one byte of each segment with this probability."""

    @model_validator(mode="after")
    def _one_place(self) -> ChangeBytes:
        one_of(self, ["after", "probability"], "change_bytes")
        return self


class InsertBytes(Model):
    """Inserts bytes once in each direction of a connection. Later sequence numbers are shifted, so
    TCP does not notice."""

    # Fits into any packet.
    bytes: Annotated[Size, _up_to(400)] = Size(3)
    """Number of bytes inserted."""
    after: Size = Field(examples=["8kB"])
    """Inserts the bytes after this many bytes in each direction of a connection."""


class Duplicate(Model):
    """Sends packets twice."""

    probability: Probability = Field(examples=["1%"])
    """Probability with which each packet is sent twice."""


class AcknowledgeEarly(Model):
    """Acknowledges data before the receiver has it, and retransmits it if it is lost later on its
    path (RFC 3135)."""

    buffer: Annotated[Size, _up_to(2**53)] = Size("64kB")
    """Largest amount of data kept in each direction of a connection. The receiver itself
    acknowledges data beyond this amount.
    """


class Middlebox(Model):
    """An element between an interface and its link that changes TCP in exactly
    one of these ways.
    """

    kind_of_features = "middlebox"

    at: Annotated[list[str], ONE_OR_MORE] = Field(examples=["client.wlan0", "client.eth[1-8]"])
    """The interface in front of which the middlebox is placed. A list places one in front of each
    interface.
    """
    direction: Literal["leaving", "arriving", "both"] | None = None
    """The packets that it changes: those `leaving` the interface, those `arriving` at it, or
    `both`, the default. For a NAT, the packets whose sender it hides: those `leaving`, the default,
    or those `arriving`.
    """
    strip_options: Selection | None = None
    """Removes MPTCP options."""
    drop_options: Selection | None = None
    """Drops segments with MPTCP options."""
    rewrite_sequence: RewriteSequence | None = None
    """Rewrites sequence numbers."""
    nat: Nat | None = None
    """Hides a host behind other addresses and ports."""
    split: Split | None = None
    """Splits segments into smaller ones."""
    coalesce: Coalesce | None = None
    """Joins segments into larger ones."""
    change_bytes: ChangeBytes | None = None
    """Changes bytes of the data."""
    insert_bytes: InsertBytes | None = None
    """Inserts bytes into the data."""
    duplicate: Duplicate | None = None
    """Duplicates packets."""
    acknowledge_early: AcknowledgeEarly | None = None
    """Acknowledges data before the receiver does."""

    @model_validator(mode="after")
    def _one_element(self) -> Middlebox:
        one_of(self, [name for name in type(self).model_fields if name not in ("at", "direction")], "a middlebox")
        if self.nat is not None and self.direction == "both":
            raise described("a NAT hides one side", "leaving, arriving", field="direction")
        return self


def check_place(middlebox: Middlebox, interface: str, network: Network) -> None:
    """Refuses a NAT that hides no host, and a NAT on a link of a switch or access point, where
    hosts resolve link-layer addresses.
    """
    if middlebox.nat is None:
        return
    ends = {port.id: port.node for port in network.links[network.ports[interface].link]}
    hidden = interface if middlebox.direction != "arriving" else next(end for end in ends if end != interface)
    if network.kinds[ends[hidden]] != "host":
        raise described(
            f"a NAT here would hide {ends[hidden]}, which is not a host", "the link of the host that it hides"
        )
    if any(network.is_layer2(node) for node in ends.values()):
        raise described("a NAT cannot be on a link of a switch or access point", "a link between hosts and routers")


def outside_addresses(taken: Iterable[AnyNetwork]) -> Iterator[tuple[Address, Address]]:
    """Yields an IPv4 and an IPv6 address for each NAT, outside of all networks in `taken`."""
    networks = list(taken)

    def free(pool: AnyNetwork) -> Iterator[Address]:
        return (address for address in pool.hosts() if not any(address in network for network in networks))

    return zip(free(_OUTSIDE_IPV4), free(_OUTSIDE_IPV6), strict=False)


class _Selection(TypedDict):
    options: list[form.OptionName]
    segments: list[form.SegmentKind]
    after_bytes: int


def element(middlebox: Middlebox, outside: Iterator[tuple[Address, Address]]) -> form.Element:
    """Returns the resolved form of a middlebox. A NAT takes the next addresses of `outside`."""
    box = middlebox
    if selection := box.strip_options or box.drop_options:
        selected: _Selection = {
            "options": list(selection.options or get_args(OptionName)),
            "segments": list(selection.segments or get_args(SegmentKind)),
            "after_bytes": int(selection.after),
        }
        return {"kind": "strip_options", **selected} if box.strip_options else {"kind": "drop_options", **selected}
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
