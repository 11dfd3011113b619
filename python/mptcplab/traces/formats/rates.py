"""Rates over time: a line for each change, with the second and the rate in Mbit/s."""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.traces.formats.steps import by_time, written_rate, written_seconds
from mptcplab.traces.model import Step, Trace, merged, rates_for
from mptcplab.traces.text import Text
from mptcplab.units import NANOS_PER_SECOND

SUMMARY = "two numbers a line, seconds and Mbit/s"
_MBIT = 10**6


def fits(text: Text) -> bool:
    """Returns whether the first line has two columns."""
    return len(text.rows[0].text.split()) == 2 and "," not in text.rows[0].text


def parse(text: Text, _columns: Mapping[str, str]) -> Trace:
    """Returns the trace. A rate holds to the next line, the last as long as the one before."""
    values = []
    for row in text.rows:
        parts = row.text.split()
        if len(parts) != 2:
            raise row.wrong(f"found {len(parts)} columns", "two, seconds and Mbit/s")
        values.append((row, row.nanoseconds(parts[0], "time", NANOS_PER_SECOND), row.rate_bps(parts[1], _MBIT)))
    rates, period = by_time(values)
    if not any(step.value for step in rates):
        raise text.wrong("has only rates of 0", "at least one rate above 0")
    return Trace(period, rates=merged(rates))


def write(trace: Trace, every_ns: int | None) -> dict[str, str]:
    """Returns the content of the file, with a line for each rate of the trace, or for each interval
    of `every_ns`.
    """
    steps = _with_end(rates_for(trace, every_ns), trace.period_ns)
    return {"": "".join(f"{written_seconds(step.from_ns)} {written_rate(step.value)}\n" for step in steps)}


def _with_end(steps: list[Step[int]], period_ns: int) -> list[Step[int]]:
    """Returns the steps, the last of them in parts if it is not as long as the one before, because
    this is how long it is read.
    """
    last = steps[-1]
    length = period_ns - last.from_ns
    before = last.from_ns - steps[-2].from_ns if len(steps) > 1 else NANOS_PER_SECOND
    if length in (before, 1):
        return steps
    # Two equal parts, after a nanosecond if the length is odd.
    begins = [last.from_ns + 1] * (length % 2) + [period_ns - length // 2]
    return [*steps, *(Step(begin, last.value) for begin in begins)]
