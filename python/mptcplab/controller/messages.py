"""What the controller asks of a switch, and who carries it there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mptcplab.controller.tables import Action, Match
from mptcplab.controller.updates import Change


@dataclass(frozen=True, slots=True)
class Barrier:
    """Asks for an answer once everything before it is done."""

    number: int


@dataclass(frozen=True, slots=True)
class ReadTable:
    """Asks for all entries and groups of the controller."""


@dataclass(frozen=True, slots=True)
class ReadCounters:
    """Asks for the counters of the table and of ports, and of each entry or
    only for their number.
    """

    of_entries: bool


@dataclass(frozen=True, slots=True)
class CountEntries:
    """Asks for the number of the controller's entries."""


@dataclass(frozen=True, slots=True)
class PacketOut:
    """Sends a frame."""

    frame: bytes
    in_port: int
    actions: tuple[Action, ...]


Message = Change | Barrier | ReadTable | ReadCounters | CountEntries | PacketOut


@dataclass(slots=True)
class Counters:
    """The counters of a switch."""

    lookups: int = 0
    matched: int = 0
    entries: int = 0
    #: By number of the port.
    ports: dict[int, dict[str, int]] = field(default_factory=dict)
    #: Packets and bytes by priority and match, if they were asked for.
    flows: dict[tuple[int, Match], tuple[int, int]] = field(default_factory=dict)


class Outlet(Protocol):
    """Carries messages to switches and to the program that started the controller."""

    def send(self, switch: str, messages: Sequence[Message]) -> None:
        """Sends messages to a switch, in this order."""

    def say(self, said: Mapping[str, Any]) -> None:
        """Writes a line for the program that started the controller."""

    def now_ns(self) -> int:
        """Returns the time of the monotonic clock."""
