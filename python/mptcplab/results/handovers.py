"""The parts of the time that a handover between two interfaces takes: until the new interface can be
used, until a subflow from it is established, and until data arrives again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from mptcplab.results.event_metrics import EventView
from mptcplab.results.run_data import Absent, NotConcerned, RunData, Value, worst
from mptcplab.results.subflows import subflows_of

NO_HANDOVER = "the event takes no interface down and another one up"
NO_JOIN = "no subflow from the new interface was established"
NO_DATA = "nothing was delivered after it"
#: The actions after which an interface can be used.
USABLE = ("interface_up", "address_add")


@dataclass(frozen=True)
class Handover:
    """A handover of a run: when the old interface went down, when the new one could be used, and
    the new interface. Times are in seconds.
    """

    start_s: float
    usable_s: float
    interface: str

    @classmethod
    def of(cls, event: EventView) -> Handover | None:
        """Returns the handover of an event; None if the event is something else."""
        down = [one for one in event.happenings if one.action["kind"] == "interface_down"]
        usable = [one for one in event.happenings if one.action["kind"] in USABLE]
        if len(down) != 1 or not usable:
            return None
        last = max(usable, key=lambda one: one.actual_s)
        return cls(down[0].actual_s, last.actual_s, last.action["interface"])


@dataclass(frozen=True)
class Parts:
    """The parts of a handover for a flow, in seconds; a later part is absent with the earlier one."""

    join_s: Value
    first_data_s: Value

    @classmethod
    def of(cls, run: RunData, flow: str, handover: Handover) -> Parts:
        """Returns the parts for a flow that ran before the handover and after it."""
        if not run.start_s(flow) < handover.start_s <= handover.usable_s < run.flow_end_s(flow):
            not_running = NotConcerned("the flow was not running")
            return cls(not_running, not_running)
        opened = [
            one.opened_s
            for one in subflows_of(run, flow)
            if handover.interface in (one.interface, one.remote_interface)
            and one.opened_s is not None
            and one.opened_s >= handover.usable_s
        ]
        if not opened:
            return cls(Absent(NO_JOIN), Absent(NO_JOIN))
        deliveries = run.deliveries_s(flow)
        later = deliveries[np.searchsorted(deliveries, min(opened), side="right") :]
        first_data = float(later[0]) - min(opened) if len(later) else Absent(NO_DATA)
        return cls(min(opened) - handover.usable_s, first_data)


def usable_s(event: EventView) -> Value:
    """Returns the time from the old interface going down until the new one can be used."""
    handover = Handover.of(event)
    return Absent(NO_HANDOVER) if handover is None else handover.usable_s - handover.start_s


def _part(value: Callable[[Parts], Value]) -> Callable[[EventView], Value]:
    def metric(event: EventView) -> Value:
        handover = Handover.of(event)
        return Absent(NO_HANDOVER) if handover is None else worst(map(value, _parts(event, handover)), max)

    return metric


def _parts(event: EventView, handover: Handover) -> Iterator[Parts]:
    for flow in event.flows:
        yield Parts.of(event.run, flow, handover)


HANDOVER_METRICS: dict[str, Callable[[EventView], Value]] = {
    "handover_usable_s": usable_s,
    "handover_join_s": _part(lambda parts: parts.join_s),
    "handover_first_data_s": _part(lambda parts: parts.first_data_s),
}
"""Functions of the derived metrics of handovers."""
