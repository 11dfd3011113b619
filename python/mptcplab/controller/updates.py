"""The order in which tables change: no packet meets a loop while they do.

The switches of a new way that packets do not reach yet come first. Those on both ways follow one by
one from the receiver's end, so a packet that meets a changed switch stays on the new way. What is
no longer needed goes last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mptcplab.controller.entries import Tables
from mptcplab.controller.streams import PRIORITY_OF_PIN, Stream
from mptcplab.controller.tables import Entry, Group, Match, Table, ToGroup


@dataclass(frozen=True, slots=True)
class PutEntry:
    """Adds an entry, or gives it other actions."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class RemoveEntry:
    """Removes the entry with this priority and match."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class PutGroup:
    """Adds a group, or gives it other buckets."""

    group: Group
    is_there: bool


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """Removes a group."""

    group: Group


Change = PutEntry | RemoveEntry | PutGroup | RemoveGroup
#: Changes by switch. The next round begins once all switches of this one have answered a barrier.
Round = dict[str, list[Change]]
#: Rounds of entries by switch, priority and match.
Turns = dict[tuple[str, int, Match], int]


def difference(switch: str, found: Table, wanted: Table) -> list[Change]:
    """Returns what makes the table of one switch the wanted one, and touches
    nothing that is right.
    """
    rounds = rounds_between({switch: found}, {switch: wanted}, (), ())
    return [change for each in rounds for change in each.get(switch, ())]


def rounds_between(
    before: Tables, after: Tables, streams_before: Sequence[Stream], streams_after: Iterable[Stream]
) -> list[Round]:
    """Returns the rounds of changes from one state of all tables to another."""
    turns = _turns(streams_before, streams_after)
    rounds: dict[int, Round] = {}
    last = max(turns.values(), default=0) + 1
    for switch, wanted in after.items():
        for change in _changes(before[switch], wanted):
            number = _round_of(change, switch, wanted, turns, last)
            rounds.setdefault(number, {}).setdefault(switch, []).append(change)
    return [rounds[number] for number in sorted(rounds)]


def _changes(found: Table, wanted: Table) -> Iterator[Change]:
    for number, group in wanted.groups.items():
        if found.groups.get(number) != group:
            yield PutGroup(group, number in found.groups)
    for key, entry in wanted.entries.items():
        if found.entries.get(key) != entry:
            yield PutEntry(entry)
    yield from (RemoveEntry(entry) for key, entry in found.entries.items() if key not in wanted.entries)
    yield from (RemoveGroup(group) for number, group in found.groups.items() if number not in wanted.groups)


def _round_of(change: Change, switch: str, wanted: Table, turns: Turns, last: int) -> int:
    match change:
        case PutEntry(entry):
            return turns.get((switch, *entry.key), 0)
        case PutGroup(group, is_there=True):
            # The entries that hand packets to it are the same before and after.
            users = (entry for entry in wanted.entries.values() if ToGroup(group.id) in entry.actions)
            return max((turns.get((switch, *entry.key), 0) for entry in users), default=0)
        case PutGroup():
            return 0
        case _:
            return last


def _turns(before: Sequence[Stream], after: Iterable[Stream]) -> Turns:
    """Returns the rounds of the entries that wait for others."""
    turns = {}
    exact = {one.match: one for one in before}
    broad = [one for one in before if one.priority < PRIORITY_OF_PIN]
    for stream in after:
        nearest = exact.get(stream.match)
        if nearest != stream:
            ports = _ports(nearest or _broader(broad, stream))
            changed = [
                step for step in reversed(stream.steps) if ports.get(step.switch, step.out_port) != step.out_port
            ]
            for turn, step in enumerate(changed, start=1):
                turns[step.switch, stream.priority, stream.match] = turn
    return turns


def _broader(before: Sequence[Stream], stream: Stream) -> Stream | None:
    """Returns the stream to which the packets of another one have belonged so far."""
    covering = [one for one in before if one.match.covers(stream.match)]
    return max(covering, key=lambda one: one.priority, default=None)


def _ports(stream: Stream | None) -> dict[str, int]:
    """Returns the ports by which the packets of a stream leave the switches."""
    return {} if stream is None else {step.switch: step.out_port for step in stream.steps}
