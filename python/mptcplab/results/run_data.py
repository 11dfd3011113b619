"""The data of one run: the resolved experiment, the back-end's result and the tables."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, wraps
from pathlib import Path
from typing import Any, TypeVar, TypeVarTuple

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.results.entities import Json
from mptcplab.results.network_state import NetworkState
from mptcplab.results.tables import NANOS_PER_SECOND, Samples, Series, Units


@dataclass(frozen=True)
class Absent:
    """A value that does not exist, and the reason."""

    why: str


@dataclass(frozen=True)
class NotConcerned(Absent):
    """A value that does not exist because the metric does not apply; ``worst`` skips it."""


@dataclass(frozen=True)
class NotJudged(Absent):
    """A value that the back-end of the run cannot have, so expectations on it are not judged."""


Value = float | Absent
Arguments = TypeVarTuple("Arguments")
Found = TypeVar("Found")


def worst(
    values: Iterable[Value], choose: Callable[[list[float]], float], why_none: str = "no flow was running at the event"
) -> Value:
    """Returns the worst of several values. If one is absent, so is the result, because the worst is
    then unknown.
    """
    known: list[float] = []
    nothing: Absent = Absent(why_none)
    for value in values:
        if isinstance(value, NotConcerned):
            nothing = value
        elif isinstance(value, Absent):
            return value
        else:
            known.append(value)
    return choose(known) if known else nothing


@dataclass(frozen=True)
class Happening:
    """An event of a run: its request, its result, and its action. Times are in seconds."""

    id: str
    asked_s: float
    actual_s: float
    action: Json = field(hash=False)
    injected: bool


def once_a_run(function: Callable[[RunData, *Arguments], Found]) -> Callable[[RunData, *Arguments], Found]:
    """Caches the result of a function for a run and further arguments, because many metrics need
    the same one.
    """

    def remembering(run: RunData, *arguments: *Arguments) -> Found:
        asked = (function.__name__, *arguments)
        if asked not in run.remembered:
            run.remembered[asked] = function(run, *arguments)
        found: Found = run.remembered[asked]
        return found

    return wraps(function)(remembering)


@dataclass(frozen=True)
class RunData:
    """One run. ``result`` is the document that the back-end returns at the end."""

    resolved: Json
    result: Json
    samples: Samples
    units: Units
    backend: str = "sim"
    #: The directory of the bundle; None if the run has none.
    directory: Path | None = None

    @cached_property
    def remembered(self) -> dict[tuple[Any, ...], Any]:
        """The results of functions that are ``once_a_run``, by their name and arguments."""
        return {}

    @cached_property
    def end_s(self) -> float:
        """When the run ended."""
        return float(self.result["end_ns"] / NANOS_PER_SECOND)

    @cached_property
    def flows(self) -> dict[str, Json]:
        """Flows of the description by id."""
        return {flow["id"]: flow for flow in self.resolved["flows"]}

    @cached_property
    def flow_results(self) -> dict[str, Json]:
        """Flows of the result by id."""
        return {flow["id"]: flow for flow in self.result["flows"]}

    @cached_property
    def happenings(self) -> list[Happening]:
        """Events in order of time. For an injected event, the result must hold the ``action``."""
        actions = {event["id"]: event["action"] for event in self.resolved["events"]}
        found = [
            Happening(
                event["id"],
                event["asked_ns"] / NANOS_PER_SECOND,
                event["actual_ns"] / NANOS_PER_SECOND,
                actions.get(event["id"]) or event.get("action", {"kind": "unknown"}),
                bool(event["injected"]),
            )
            for event in self.result["events"]
        ]
        return sorted(found, key=lambda happening: happening.actual_s)

    @cached_property
    def links(self) -> dict[str, Json]:
        """Links of the description by id."""
        return {link["id"]: link for link in self.resolved["links"]}

    @cached_property
    def real_links(self) -> frozenset[str]:
        """The ids of real links. Experiments of earlier versions do not say that they have none."""
        return frozenset(link["id"] for link in self.resolved["links"] if link.get("real"))

    @cached_property
    def flows_by_hop(self) -> Counter[tuple[str, str]]:
        """The number of flows that may use each (link, direction). A multipath connection counts
        once.
        """
        return Counter(
            hop
            for flow in self.resolved["flows"]
            for hop in {(hop["link"], hop["direction"]) for path in flow["paths"] for hop in path["hops"]}
        )

    @cached_property
    def parts_of_paths(self) -> dict[str, set[str]]:
        """The ids of the links that each flow may use, and of the interfaces at their ends."""
        ends = {link["id"]: {link["id"], link["a"], link["b"]} for link in self.resolved["links"]}
        return {
            flow["id"]: set[str]().union(*(ends[hop["link"]] for path in flow["paths"] for hop in path["hops"]))
            for flow in self.resolved["flows"]
        }

    @cached_property
    def _networks(self) -> list[tuple[float, NetworkState]]:
        """The states of the network, each with the time of the event from which it holds."""
        states = [(-1.0, NetworkState.initial(self.resolved))]
        for happening in self.happenings:
            states.append((happening.actual_s, states[-1][1].after(happening.action)))
        return states

    @cached_property
    def whole_network(self) -> NetworkState:
        """The network as described, with all parts up."""
        return NetworkState.whole(self.resolved)

    def network_at(self, at_s: float) -> NetworkState:
        """Returns the state of the network right after a time."""
        return self._networks[bisect_right(self._networks, at_s, key=lambda state: state[0]) - 1][1]

    def start_s(self, flow: str) -> float:
        """Returns when a flow started."""
        return float(self.flow_results[flow]["start_ns"] / NANOS_PER_SECOND)

    def flow_end_s(self, flow: str) -> float:
        """Returns when a flow had all its data, or else the end of the run."""
        end_ns = self.flow_results[flow]["end_ns"]
        return self.end_s if end_ns is None else float(end_ns / NANOS_PER_SECOND)

    def in_order(self, flow: str) -> Series | None:
        """Returns the counter of bytes that a flow delivered in order."""
        return self.samples.series(f"flows.{flow}", "bytes_in_order")

    @once_a_run
    def deliveries_s(self, flow: str) -> Floats:
        """Returns the times of in-order deliveries.

        These are the times of units, or of samples in which the counter grew, whichever are more.
        """
        # np.unique would do the same, but loads numpy.ma, which takes longer than all metrics of a
        # short run.
        delivered = np.sort(self.units.of(flow).delivered_s)
        units = delivered[np.diff(delivered, prepend=-np.inf) > 0]
        counter = self.in_order(flow)
        if counter is None:
            return units
        grown = counter.times_s[1:][np.diff(counter.values) > 0]
        return units if len(units) >= len(grown) else grown
