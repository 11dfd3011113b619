"""Steps from lines with times, and the text of times and rates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from mptcplab.traces.model import Step
from mptcplab.traces.text import Row
from mptcplab.units import NANOS_PER_SECOND

V = TypeVar("V", int, float)

MOST_STEPS = 2_000_000


def by_time(values: Sequence[tuple[Row, int, V]]) -> tuple[tuple[Step[V], ...], int]:
    """Returns steps that begin at 0, and the period in nanoseconds. The last value holds as long as
    the one before, and for a second if it is the only one. Of several lines with the same time, the
    last counts.

    Raises TraceError if times run backwards.
    """
    if len(values) > MOST_STEPS:
        raise values[-1][0].wrong(f"is line {len(values)} of the trace", f"at most {MOST_STEPS}")
    begin = values[0][1]
    found: list[Step[V]] = []
    for row, time, value in values:
        step = Step(time - begin, value)
        if found and step.from_ns < found[-1].from_ns:
            before = written_seconds(found[-1].from_ns + begin)
            raise row.wrong(f"time {written_seconds(time)} s comes after {before} s", "ascending times")
        if found and step.from_ns == found[-1].from_ns:
            found.pop()
        found.append(step)
    last = found[-1].from_ns
    length = last - found[-2].from_ns if len(found) > 1 else NANOS_PER_SECOND
    return tuple(found), last + length


def written_seconds(time_ns: int) -> str:
    """Returns seconds as an exact decimal number."""
    return _decimal(time_ns, 9)


def written_rate(rate_bps: int) -> str:
    """Returns Mbit/s as an exact decimal number."""
    return _decimal(rate_bps, 6)


def _decimal(count: int, digits: int) -> str:
    whole, part = divmod(count, 10**digits)
    return f"{whole}.{part:0{digits}}".rstrip("0").rstrip(".")
