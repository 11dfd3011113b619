"""Entries and groups for detours that are installed beforehand: the switch before a failed link
takes them by itself.

The switch marks the packets of a detour in the source address of the frame, which nothing else
uses. Entries for the mark lead the packets back over the path to the last switch from which the
detour goes on, and then along the detour. So the packets of several failures never meet each
other's entries. Where the detour is on the path again, the mark goes, because the next failure is
then met as by any packet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

from mptcplab.controller.network import Network, Step
from mptcplab.controller.streams import PathKey, Side, Stream
from mptcplab.controller.tables import IN_PORT, Bucket, Entry, Output, SetEthernetSource
from mptcplab.errors import SpecError, Where

#: The source address of packets that have left a detour.
NO_MARK = "06:00:00:00:00:00"

#: How much higher the priority of entries for a mark is than that of the stream.
ABOVE = 5


@dataclass(frozen=True, slots=True)
class Detour:
    """What the packets of one direction of a path do if a link fails: the switches of the whole
    other way.
    """

    link: str
    steps: tuple[Step, ...]


Prepared = Mapping[tuple[PathKey, Side], Sequence[Detour]]


@dataclass(frozen=True, slots=True)
class Protection:
    """What a detour needs at the switch before the failed link, and the entries at the others."""

    switch: str
    #: The port of the link.
    primary: int
    bucket: Bucket
    entries: tuple[tuple[str, Entry], ...]


def protection(network: Network, stream: Stream, detour: Detour) -> Protection | None:
    """Returns what protects a stream against the failure of a link; None if it does not use the
    link.
    """
    before = _position_before(network, stream, detour.link)
    if before is None:
        return None
    by_switch = {step.switch: number for number, step in enumerate(detour.steps)}
    turn = next((number for number in range(before, -1, -1) if stream.steps[number].switch in by_switch), None)
    if turn is None:
        raise SpecError(
            f"the detour around {detour.link} has no switch of the path before the link",
            Where(field=f"flows.{stream.key[0]}.paths.{stream.key[1]}"),
            allowed="detours between the ends of the path",
        )
    onward = detour.steps[by_switch[stream.steps[turn].switch] :]
    return _protection(network, stream, detour.link, before, turn, onward)


def _protection(
    network: Network, stream: Stream, link: str, before: int, turn: int, onward: Sequence[Step]
) -> Protection:
    """Returns the protection whose packets turn around at step `before`, and leave the path at step
    `turn`.
    """
    own = len(onward) - _in_common(stream.steps, onward)
    failing = stream.steps[before]
    hops = [(stream.steps[number].switch, stream.steps[number].in_port) for number in range(before - 1, turn, -1)]
    hops += [(step.switch, step.out_port) for step in onward[:own]]
    first = failing.in_port
    if turn == before:
        (_, first), *hops = hops
    mark = mark_of(network, link)
    # A switch sends nothing back by the port of arrival unless it is told so by this name.
    out = IN_PORT if first == failing.in_port else first
    bucket = Bucket(first, (SetEthernetSource(mark if hops else NO_MARK), Output(out)))
    match = replace(stream.match, ethernet_source=mark)
    entries = []
    for number, (switch, port) in enumerate(hops, start=1):
        last = (SetEthernetSource(NO_MARK),) if number == len(hops) and own < len(onward) else ()
        entries.append((switch, Entry(stream.priority + ABOVE, match, (*last, Output(port)))))
    return Protection(failing.switch, failing.out_port, bucket, tuple(entries))


def _in_common(path: Sequence[Step], onward: Sequence[Step]) -> int:
    """Returns the number of steps at the end of a detour that are those of the path."""
    pairs = zip(reversed(path), reversed(onward), strict=False)
    same = ((mine.switch, mine.out_port) == (its.switch, its.out_port) for mine, its in pairs)
    return sum(1 for _ in takewhile(bool, same))


def _position_before(network: Network, stream: Stream, link: str) -> int | None:
    """Returns the index of the step that sends over a link."""
    for number, step in enumerate(stream.steps):
        if network.port_by_number[step.switch, step.out_port].link == link:
            return number
    return None


def mark_of(network: Network, link: str) -> str:
    """Returns the source address that marks packets on the detour around a link."""
    octets = (network.index_of_link[link] + 1).to_bytes(4, "big")
    return "06:00:" + ":".join(f"{octet:02x}" for octet in octets)
