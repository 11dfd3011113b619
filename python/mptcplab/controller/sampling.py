"""The course of a sample: all switches are asked at once, and the sample is told when all have
answered.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mptcplab.controller.installation import Installation
from mptcplab.controller.messages import Counters, Outlet, ReadCounters
from mptcplab.controller.state import State
from mptcplab.controller.statistics import Exchanged, Sample

#: The most entries of a switch whose counters are read, because reading one takes 0.1 ms.
MOST_COUNTED = 500


class Sampling:
    """Asks switches for their counters."""

    def __init__(
        self, state: State, installation: Installation, outlet: Outlet, exchanged: Mapping[str, Exchanged]
    ) -> None:
        self._state = state
        self._installation = installation
        self._outlet = outlet
        self._exchanged = exchanged
        self._sample: Sample | None = None

    def begin(self) -> None:
        """Asks all connected switches, unless the answers to the last question
        are still awaited.
        """
        connected = sorted(self._installation.connected)
        if self._sample is not None or not connected:
            return
        self._sample = Sample(self._outlet.now_ns(), set(connected))
        for switch in connected:
            self._installation.ask(switch, [], partial(self._on_barrier, switch, self._outlet.now_ns()))
            of_entries = len(self._state.tables[switch].entries) <= MOST_COUNTED
            self._outlet.send(switch, [ReadCounters(of_entries)])

    def _on_barrier(self, switch: str, asked_ns: int) -> None:
        if self._sample is not None:
            self._sample.barrier_rtt_s[switch] = (self._outlet.now_ns() - asked_ns) / 1e9

    def on_counters(self, switch: str, counters: Counters) -> None:
        """Handles the counters of a switch."""
        if self._sample is not None:
            self._sample.counters[switch] = counters
            self._end(self._sample, switch)

    def on_lost(self, switch: str) -> None:
        """Handles the loss of a connection: the sample is told without the switch."""
        if self._sample is not None:
            self._end(self._sample, switch)

    def _end(self, sample: Sample, switch: str) -> None:
        sample.waiting.discard(switch)
        if not sample.waiting:
            self._sample = None
            self._outlet.say(sample.as_message(self._state.network, self._exchanged, self._state.current))
