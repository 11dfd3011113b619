"""Statistics of switches, ports and paths at one time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mptcplab.controller.messages import Counters
from mptcplab.controller.network import Network
from mptcplab.controller.streams import Stream


@dataclass(slots=True)
class Exchanged:
    """Packets that a switch has handed to the controller and got from it."""

    packet_ins: int = 0
    packet_outs: int = 0


@dataclass(slots=True)
class Sample:
    """The answers of the switches to one round of questions."""

    at_ns: int
    waiting: set[str]
    counters: dict[str, Counters] = field(default_factory=dict)
    barrier_rtt_s: dict[str, float] = field(default_factory=dict)

    def as_message(
        self, network: Network, exchanged: Mapping[str, Exchanged], streams: Iterable[Stream]
    ) -> dict[str, Any]:
        """Returns the line that tells of the sample."""
        return {
            "said": "statistics",
            "at_ns": self.at_ns,
            "switches": {name: self._switch(name, exchanged[name]) for name in self.counters},
            "ports": {
                network.port_by_number[name, number].interface: counted
                for name, counters in self.counters.items()
                for number, counted in counters.ports.items()
                if (name, number) in network.port_by_number
            },
            "paths": self._paths(streams),
        }

    def _switch(self, name: str, exchanged: Exchanged) -> dict[str, Any]:
        counters = self.counters[name]
        return {
            "entries": counters.entries,
            "packet_ins": exchanged.packet_ins,
            "packet_outs": exchanged.packet_outs,
            "lookups": counters.lookups,
            "matched": counters.matched,
            "barrier_rtt_s": self.barrier_rtt_s.get(name),
        }

    def _paths(self, streams: Iterable[Stream]) -> dict[str, dict[str, int]]:
        """Returns the packets and bytes that entered each path, by its entries
        at the first switch.
        """
        found: dict[str, dict[str, int]] = {}
        for stream in streams:
            counters = self.counters.get(stream.steps[0].switch) if stream.steps else None
            if counters is None:
                continue
            packets, size = counters.flows.get((stream.priority, stream.match), (0, 0))
            name = f"{stream.key[0]}/{stream.key[1]}"
            row = found.setdefault(name, dict.fromkeys(_PATH_FIELDS, 0))
            row[f"{stream.side}_packets"] += packets
            row[f"{stream.side}_bytes"] += size
        return found


_PATH_FIELDS = ("there_packets", "there_bytes", "back_packets", "back_bytes")
