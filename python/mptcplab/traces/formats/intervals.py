"""Bytes per interval in six columns, as in the logs of HSDPA in Norway (Riiser 2013) and of 4G in
Ghent (van der Hooft 2016): time since 1970, milliseconds since some start, latitude, longitude,
bytes since the line before, milliseconds since the line before.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from mptcplab.traces.formats.steps import MOST_STEPS
from mptcplab.traces.model import Step, Trace, means, merged, rates_for
from mptcplab.traces.text import Text
from mptcplab.units import NANOS_PER_SECOND

SUMMARY = "six columns a line: time, ms, latitude, longitude, bytes, ms in which they came"
_NS = 1_000_000
#: Times since 1970 are later than this, in any unit.
_SINCE_1970 = 10**8


def fits(text: Text) -> bool:
    """Returns whether the first line has six columns, and neither a place nor a time that only
    other formats have.
    """
    parts = text.rows[0].text.split()
    if len(parts) != 6:
        return False
    return any("." in part for part in parts[2:4]) or (parts[0].isdigit() and int(parts[0]) > _SINCE_1970)


def parse(text: Text, _columns: Mapping[str, str]) -> Trace:
    """Returns the trace, whose intervals follow each other without gaps. Bytes of an interval of 0
    ms belong to the next.
    """
    if len(text.rows) > MOST_STEPS:
        raise text.wrong(f"has {len(text.rows)} lines", f"at most {MOST_STEPS}")
    rates: list[Step[int]] = []
    end = waiting = before_ms = 0
    for row in text.rows:
        parts = row.text.split()
        if len(parts) != 6:
            raise row.wrong(f"found {len(parts)} columns", "six")
        at_ms = row.whole(parts[1], "time")
        if at_ms < before_ms:
            raise row.wrong(f"{at_ms} ms comes after {before_ms} ms", "ascending times in column 2")
        before_ms = at_ms
        waiting += row.whole(parts[4], "bytes")
        if span := row.whole(parts[5], "milliseconds") * _NS:
            rates.append(Step(end, row.rate_bps(str(8 * waiting * NANOS_PER_SECOND // span), 1)))
            end, waiting = row.bounded(end + span, "time"), 0
    if not any(step.value for step in rates):
        raise text.wrong("carries no bytes", "bytes in column 5 and milliseconds in column 6")
    return Trace(end, rates=merged(rates))


def write(trace: Trace, every_ns: int | None) -> dict[str, str]:
    """Returns the content of the file. The place is 0 0, and the time since 1970 is that since the
    start.
    """
    lines = []
    whole_ns = every_ns and max(_NS, every_ns // _NS * _NS)
    starts = sorted({step.from_ns // _NS * _NS for step in rates_for(trace, whole_ns)})
    carried, told = Fraction(0), 0
    for step, end_ns in trace.spans(means(trace, starts)):
        carried += Fraction(step.value * (end_ns - step.from_ns), 8 * NANOS_PER_SECOND)
        # Fractions of a byte add up instead of being lost.
        bytes_here, told = round(carried) - told, round(carried)
        end_ms = -(-end_ns // _NS)
        lines.append(f"{end_ms // 1000} {end_ms} 0.0 0.0 {bytes_here} {end_ms - step.from_ns // _NS}\n")
    return {"": "".join(lines)}
