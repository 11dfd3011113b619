"""Rates over time: a line for each change, with the second and the rate in Mbit/s."""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.traces.formats.steps import by_time, written_rate, written_seconds
from mptcplab.traces.model import Step, Trace, merged
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


def write(trace: Trace, every_ns: int) -> dict[str, str]:
    """Returns the content of the file, with a line for each interval of `every_ns`."""
    return {"": lines(trace, every_ns)}


def lines(trace: Trace, every_ns: int) -> str:
    """Returns a line for each interval."""
    from mptcplab.traces.model import per_interval

    steps: list[Step[int]] = per_interval(trace, every_ns)
    return "".join(f"{written_seconds(step.from_ns)} {written_rate(step.value)}\n" for step in steps)
