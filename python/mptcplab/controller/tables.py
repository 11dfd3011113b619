"""What a controlled switch holds: entries and groups, as OpenFlow 1.3 defines them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

#: Cookie of everything that the controller installs: "mp".
COOKIE = 0x6D70

#: Reserved ports (OpenFlow 1.3, A.2.1).
IN_PORT = 0xFFFFFFF8
CONTROLLER = 0xFFFFFFFD
LOCAL = 0xFFFFFFFE

IPV4, IPV6, ARP, LLDP = 0x0800, 0x86DD, 0x0806, 0x88CC
TCP, UDP = 6, 17
SYN, ACK = 0x02, 0x10


@dataclass(frozen=True, slots=True)
class Match:
    """The packets that an entry is for. None matches any value."""

    ethernet_type: int | None = None
    source: str | None = None
    destination: str | None = None
    protocol: int | None = None
    source_port: int | None = None
    destination_port: int | None = None
    ethernet_source: str | None = None
    #: Whether it matches only TCP segments with SYN and without ACK.
    opening: bool = False
    in_port: int | None = None

    def covers(self, other: Match) -> bool:
        """Returns whether each packet of the other match is also one of this one."""
        wanted = ((getattr(self, one.name), getattr(other, one.name)) for one in fields(self))
        return all(mine in (None, False, its) for mine, its in wanted)


@dataclass(frozen=True, slots=True)
class Output:
    """Sends the packet out of a port, or to the controller."""

    port: int


@dataclass(frozen=True, slots=True)
class ToGroup:
    """Hands the packet to a group."""

    group: int


@dataclass(frozen=True, slots=True)
class SetEthernetSource:
    """Overwrites the source address of the frame."""

    address: str


@dataclass(frozen=True, slots=True)
class SetEthernetDestination:
    """Overwrites the destination address of the frame."""

    address: str


@dataclass(frozen=True, slots=True)
class DecrementTtl:
    """Decrements the time to live of an IP packet, as each router does."""


Action = Output | ToGroup | SetEthernetSource | SetEthernetDestination | DecrementTtl


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table of a switch."""

    priority: int
    match: Match
    actions: tuple[Action, ...]

    @property
    def key(self) -> tuple[int, Match]:
        """What the switch identifies it by."""
        return (self.priority, self.match)


@dataclass(frozen=True, slots=True)
class Bucket:
    """One choice of a fast-failover group: it counts while its port is up."""

    watch_port: int
    actions: tuple[Action, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """A fast-failover group: the first bucket whose port is up carries the packet."""

    id: int
    buckets: tuple[Bucket, ...]


@dataclass(slots=True)
class Table:
    """The entries and groups of one switch."""

    entries: dict[tuple[int, Match], Entry] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Adds an entry, in place of one with the same priority and match."""
        self.entries[entry.key] = entry

    def look_up(self, packet: Match) -> Entry | None:
        """Returns the entry with the highest priority that matches a packet, given as the match of
        all its fields.
        """
        found = [entry for entry in self.entries.values() if entry.match.covers(packet)]
        return max(found, key=lambda entry: entry.priority, default=None)
