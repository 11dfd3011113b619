"""The subflows of a run, and which of them carried data again after a failure or were recreated."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from mptcplab import metrics
from mptcplab.results.entities import DOWN, Entity, Json
from mptcplab.results.recovery import repair_of, subject_of
from mptcplab.results.run_data import Absent, Happening, NotConcerned, RunData, Value, once_a_run
from mptcplab.results.tables import NANOS_PER_SECOND, Series

NO_SUBFLOWS = "the back-end reports no subflows of the flow"
NO_FAILURE = "nothing that failed carried a subflow of the flow"

_PATH = re.compile(r"(flows\.(.+))\.subflows\.([0-9]{1,6})")


@dataclass(frozen=True)
class Subflow:
    """A subflow as the back-end reports it. ``local`` is the address and port at the flow's sender.

    Times are in seconds. ``interface`` and ``remote_interface`` are those of the description, and
    ``link`` is the first link of its path.
    """

    flow: str
    id: int
    local: str
    remote: str
    interface: str | None
    remote_interface: str | None
    link: str | None
    opened_s: float | None
    closed_s: float | None
    bytes: int
    retransmitted_bytes: int | None
    opened_by: str | None

    @classmethod
    def of(cls, flow: str, reported: Json) -> Subflow:
        """Reads a subflow of the back-end's result. Fields that the back-end does not report are
        None.
        """
        return cls(
            flow,
            reported["id"],
            reported["local"],
            reported["remote"],
            reported.get("interface"),
            reported.get("remote_interface"),
            reported.get("link"),
            _seconds(reported.get("opened_ns")),
            _seconds(reported.get("closed_ns")),
            reported["bytes"],
            reported.get("retransmitted_bytes"),
            reported.get("opened_by"),
        )

    @property
    def entity(self) -> str:
        """The path of the subflow as an entity of the samples."""
        return f"flows.{self.flow}.subflows.{self.id}"

    @cached_property
    def addresses(self) -> frozenset[str]:
        """The two addresses of the subflow, without ports."""
        return frozenset(end.rpartition(":")[0].strip("[]") for end in (self.local, self.remote))

    def alive_at(self, at_s: float) -> bool:
        """Returns whether the subflow was open at a time."""
        return self.opened_s is not None and self.opened_s <= at_s and (self.closed_s is None or self.closed_s > at_s)

    def lived(self, since_s: float, until_s: float) -> bool:
        """Returns whether the subflow was open from ``since_s`` to ``until_s``."""
        return self.alive_at(since_s) and (self.closed_s is None or self.closed_s >= until_s)


@once_a_run
def subflows_of(run: RunData, flow: str) -> list[Subflow]:
    """Returns the subflows of a flow in the order in which they opened; none if the back-end
    reports none.
    """
    return [Subflow.of(flow, one) for one in run.flow_results[flow].get("subflows") or []]


def subflow_at(path: str, known: dict[str, Entity], udp: Iterable[str] = ()) -> Entity | None:
    """Returns the entity of a subflow by its path. Any id is valid, because the run decides how
    many there are.
    """
    parts = _PATH.fullmatch(path)
    if parts is None or known.get(parts[1]) is None or parts[2] in udp:
        return None
    members = known[parts[1]].members
    return Entity(path, "subflow", members) if members == (parts[2],) else None


def carried(run: RunData, subflow: Subflow) -> Series | None:
    """Returns the counter of the payload bytes that arrived on a subflow in the flow's direction,
    without duplicates.

    If the back-end does not report arrivals (``tells_arrivals``), returns the counter of bytes
    sent.
    """
    return run.samples.series(subflow.entity, "bytes_received") or sent(run, subflow)


def sent(run: RunData, subflow: Subflow) -> Series | None:
    """Returns the counter of payload bytes given to a subflow, without retransmissions.

    If the back-end does not report them, returns the counter of bytes that arrived.
    """
    series = run.samples.series(subflow.entity, "bytes_sent")
    return series or run.samples.series(subflow.entity, "bytes_received")


def tells_arrivals(run: RunData, subflow: Subflow) -> bool:
    """Returns whether arrivals on a subflow are known. Bytes that were sent may still be in a queue
    or be lost.
    """
    return run.samples.series(subflow.entity, "bytes_received") is not None


def hit_by(run: RunData, subflow: Subflow, failure: Happening) -> bool:
    """Returns whether a failure takes away a link or an interface on the subflow's path."""
    return failure.action["kind"] in DOWN and subject_of(failure.action) in parts_of(run, subflow)


@once_a_run
def parts_of(run: RunData, subflow: Subflow) -> set[str | None]:
    """Returns the ids of the links on a subflow's path and of the interfaces at their ends."""
    ends = {subflow.interface, subflow.remote_interface}
    paths = [path for path in run.flows[subflow.flow]["paths"] if {path["local"], path["remote"]} == ends]
    links = {hop["link"] for path in paths for hop in path["hops"]} or {subflow.link} - {None}
    return ends | links | {run.links[link][end] for link in links if link in run.links for end in ("a", "b")}


def reused(run: RunData, flow: str, failures: Iterable[Happening]) -> Value:
    """Returns how many subflows hit by failures carried new data on the same ports after the
    repair.
    """
    found = _subflows(run, flow)
    if isinstance(found, Absent):
        return found
    every_s = run.resolved["measure"]["every_ns"] / NANOS_PER_SECOND
    # Subflows are observed only in samples, so the last sample before the failure decides.
    hit = [(s, f) for f in failures for s in found if s.alive_at(f.actual_s - every_s) and hit_by(run, s, f)]
    if not hit:
        return NotConcerned(NO_FAILURE)
    repaired = [(subflow, f, r) for subflow, f in hit if (r := repair_of(run, f)) is not None]
    if not repaired:
        return NotConcerned("nothing undoes the failure before the run ends")
    if any(carried(run, subflow) is None for subflow, *_ in repaired):
        return Absent("the back-end gave no samples of what the subflows carried")
    went_on = [
        subflow
        for subflow, failure, repair in repaired
        if _carries_after(run, subflow, repair.actual_s) and not _is_replaced(run, subflow, failure, found)
    ]
    return float(len({subflow.id for subflow in went_on}))


def recreated(run: RunData, flow: str, failures: Iterable[Happening]) -> Value:
    """Returns how many subflows opened after the first failure between addresses of an earlier
    subflow.

    Counts to the end of the run.
    """
    found = _subflows(run, flow)
    if isinstance(found, Absent):
        return found
    first_s = min((f.actual_s for f in failures if any(hit_by(run, subflow, f) for subflow in found)), default=None)
    if first_s is None:
        return NotConcerned(NO_FAILURE)
    return float(sum(_opened_s(subflow) > first_s and bool(before_it(found, subflow)) for subflow in found))


def recreated_after(run: RunData, flow: str, failures: Iterable[Happening]) -> Value:
    """Returns how many recreated subflows belong to ``failures``. Each belongs to the last failure
    on its path.
    """
    found = _subflows(run, flow)
    if isinstance(found, Absent):
        return found
    ids = {failure.id for failure in failures if any(hit_by(run, subflow, failure) for subflow in found)}
    if not ids:
        return NotConcerned(NO_FAILURE)
    return float(sum(cause in ids for cause in _causes_of_new_ones(run, flow)))


@once_a_run
def _causes_of_new_ones(run: RunData, flow: str) -> list[str]:
    """Returns, for each recreated subflow, the id of the last failure that hit its path before it
    opened.
    """
    found = subflows_of(run, flow)
    causes = [cause_of(run, subflow) for subflow in found if before_it(found, subflow)]
    return [cause.id for cause in causes if cause is not None]


@once_a_run
def cause_of(run: RunData, subflow: Subflow) -> Happening | None:
    """Returns the last failure that hit a subflow's path before the subflow opened."""
    hits = [h for h in run.happenings if h.actual_s < _opened_s(subflow) and hit_by(run, subflow, h)]
    return hits[-1] if hits else None


def before_it(found: Iterable[Subflow], subflow: Subflow) -> list[Subflow]:
    """Returns the earlier subflows between the same addresses."""
    return [other for other in found if other.addresses == subflow.addresses and _opened_s(other) < _opened_s(subflow)]


def _is_replaced(run: RunData, subflow: Subflow, failure: Happening, found: Iterable[Subflow]) -> bool:
    """Returns whether a subflow was closed for a failure and another opened. Queued data may still
    have been sent.
    """
    successors = [other for other in found if subflow in before_it(found, other)]
    return subflow.closed_s is not None and any(cause_of(run, other) == failure for other in successors)


def _subflows(run: RunData, flow: str) -> list[Subflow] | Absent:
    if run.flows[flow]["transport"] != "mptcp":
        return NotConcerned("the flow is not an MPTCP connection")
    return subflows_of(run, flow) or Absent(NO_SUBFLOWS)


def _opened_s(subflow: Subflow) -> float:
    return -1.0 if subflow.opened_s is None else subflow.opened_s


def _carries_after(run: RunData, subflow: Subflow, at_s: float) -> bool:
    if subflow.closed_s is not None and subflow.closed_s <= at_s:
        return False
    counter = carried(run, subflow)
    if counter is None:
        return False
    return counter.last() > float(metrics.counter_at(counter.times_s, counter.values, [at_s])[0])


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / NANOS_PER_SECOND
