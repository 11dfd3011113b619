"""The trace of a link: which one, and where in it a run begins."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from mptcplab.errors import SpecError
from mptcplab.experiment.base import BY_DIRECTION, EACH, SAME, Directions, Shorthand, described, one_of
from mptcplab.traces import library
from mptcplab.traces.model import Step, Trace
from mptcplab.units import Duration

if TYPE_CHECKING:
    from mptcplab.experiment import resolved_form as form

ColumnKind = Literal["time", "until", "rate", "delay", "rtt", "loss"]


class LinkTrace(Shorthand):
    """A trace of capacity, delay and loss over time. When it ends, it starts again."""

    shorthand = "file"

    file: str | None = Field(None, examples=["lte.trace"])
    """The file, relative to the description."""
    measured: str | None = Field(None, examples=["mahimahi/ATT-LTE-driving-2016.down"])
    """In place of `file`: a file in the folder that `MPTCPLAB_TRACES` names."""
    synthetic: str | None = Field(None, examples=["lte-driving-down"])
    """In place of `file`: one of the synthetic traces that `mptcplab traces list` shows."""
    columns: dict[ColumnKind, str] | None = Field(None, examples=[{"time": "Timestamp", "rate": "DL_bitrate kbit"}])
    """The columns of a CSV file, each with its unit after a space. By default, they
    have names such as `time_s`, `rate_mbps`, `delay_ms`, `rtt_ms` and `loss`.
    """
    start: Duration | Literal["drawn"] = Field(Duration(0), examples=["10s", "drawn"])
    """Instant in the trace at which the run begins. With `drawn`, the seed selects one at random,
    the same for all traces that were recorded together."""
    pause: Duration | None = Field(None, examples=["100ms"])
    """With a pair of CellReplay traces: the shortest pause without packets after which the next
    packet begins a new train and uses the light opportunities (those after a pause). The default is
    100ms.
    """
    recorded_together: Annotated[str, Field(min_length=1, max_length=100)] | None = Field(None, examples=["drive-1"])
    """With `start: drawn`, a name common to all traces of one recording; by default, the folder of
    the file.
    """

    @model_validator(mode="after")
    def _one_source(self) -> LinkTrace:
        one_of(self, ["file", "measured", "synthetic"], "a trace")
        if self.recorded_together is not None and self.start != "drawn":
            raise described("'recorded_together' has no effect without 'start: drawn'", "start: drawn")
        return self

    @property
    def name(self) -> str:
        """The name as it is written."""
        return self.file or self.measured or self.synthetic or ""


TracePerDirection = Annotated[Annotated[LinkTrace, SAME] | Annotated[Directions[LinkTrace], EACH], BY_DIRECTION]


#: Time without packets after which a link is idle. Assumed: the silence after which a cellular
#: device listens only once a cycle (docs/internals/media/cellular.md).
_PAUSE = Duration("100ms")


def read(given: LinkTrace, base: Path) -> form.Trace:
    """Returns the resolved form of a trace, whose file is relative to `base`. Raises an error of
    `described`.
    """
    try:
        path = _path(given, base)
        trace, _ = library.load(path, {str(kind): name for kind, name in (given.columns or {}).items()})
    except SpecError as error:
        line = f", line {error.where.line}:" if error.where.line else ""
        # An error about a name has it already.
        about = "" if isinstance(error, library.UnknownTrace) else f"trace {given.name}{line} "
        raise described(f"{about}{error.problem}", error.allowed) from None
    return {
        "opportunities_ns": list(trace.opportunities_ns),
        "rates": [{"from_ns": step.from_ns, "rate_bps": step.value} for step in trace.rates],
        "delays": [{"from_ns": step.from_ns, "delay_ns": step.value} for step in _delays(trace)],
        "trains": _trains(given, trace),
        "losses": [{"from_ns": step.from_ns, "probability": step.value} for step in trace.losses],
        "period_ns": trace.period_ns,
        "opportunity_bytes": trace.opportunity_bytes,
        "start": _start(given, trace),
    }


def _delays(trace: Trace) -> tuple[Step[int], ...]:
    """Returns the delays of a trace. Beside trains they change linearly, so those that are equal
    stay.
    """
    if not trace.trains:
        return trace.delays
    later = (Step(train.at_ns, train.delay_ns) for train in trace.trains[1:])
    return (Step(0, trace.trains[0].delay_ns), *later)


def _trains(given: LinkTrace, trace: Trace) -> form.Trains | None:
    if not trace.trains:
        if given.pause is not None:
            raise described(
                f"trace {given.name}: 'pause' has no effect without light opportunities", "a pair of CellReplay"
            )
        return None
    pause = _PAUSE if given.pause is None else given.pause
    if not pause:
        raise described(f"trace {given.name}: pause is 0", "more than 0s")
    probes: list[form.Train] = [
        {"at_ns": train.at_ns, "opportunities_ns": list(train.opportunities_ns)} for train in trace.trains
    ]
    return {"pause_ns": int(pause), "probes": probes}


def _path(given: LinkTrace, base: Path) -> Path:
    if given.measured is not None:
        return library.measured(given.measured)
    if given.synthetic is not None:
        return library.synthetic(given.synthetic)
    return base / given.name


def _start(given: LinkTrace, trace: Trace) -> form.TraceStartAt | form.TraceStartDrawn:
    if given.start == "drawn":
        recording = given.recorded_together or _folder(given)
        return {"kind": "drawn", "recording": recording, "below_ns": trace.period_ns}
    if int(given.start) >= trace.period_ns:
        length = Duration(trace.period_ns)
        raise described(f"trace {given.name}: start {given.start} is not before its end", f"less than {length}")
    return {"kind": "at", "at_ns": int(given.start)}


def _folder(given: LinkTrace) -> str:
    """Returns the folder of a trace, which is the default name of its recording."""
    if given.synthetic is not None:
        return "synthetic"
    return str(PurePosixPath(given.name).parent)


def have_common_starts(links: list[form.Link]) -> None:
    """Lets all traces of a recording begin at the same instant, which all of them have."""
    drawn: dict[str, list[form.TraceStartDrawn]] = {}
    for link in links:
        for direction in (link["forward"], link["backward"]):
            trace = direction["trace"]
            if trace is not None and trace["start"]["kind"] == "drawn":
                drawn.setdefault(trace["start"]["recording"], []).append(trace["start"])
    for starts in drawn.values():
        shortest = min(start["below_ns"] for start in starts)
        for start in starts:
            start["below_ns"] = shortest


def without_capacity(trace: form.Trace | None) -> form.Trace | None:
    """Returns the delays and losses of a trace; None if it has none."""
    if trace is None or not (trace["delays"] or trace["losses"]):
        return None
    return {**trace, "opportunities_ns": [], "rates": [], "trains": None}
