"""Delivery opportunities as mahimahi records them: a line for each 1500 bytes, with its
millisecond.
"""

from __future__ import annotations

from collections.abc import Mapping

from mptcplab.traces.model import OPPORTUNITY_BYTES, Trace, opportunities
from mptcplab.traces.text import Text

SUMMARY = "one whole number a line, the millisecond of an opportunity for 1500 bytes"
MOST_OPPORTUNITIES = 5_000_000
_NS = 1_000_000


def fits(text: Text) -> bool:
    """Returns whether the first line is one number or word, and no bracket of JSON."""
    first = text.rows[0].text.split()
    return len(first) == 1 and "," not in first[0] and first[0] not in ("{", "[")


def parse(text: Text, _columns: Mapping[str, str]) -> Trace:
    """Returns the trace. The last opportunity ends the period."""
    if len(text.rows) > MOST_OPPORTUNITIES:
        raise text.wrong(f"has {len(text.rows)} opportunities", f"at most {MOST_OPPORTUNITIES}")
    times: list[int] = []
    for row in text.rows:
        if not (row.text.isascii() and row.text.isdigit() and len(row.text) < 10):
            raise row.wrong(f"found '{row.text[:20]}'", "a whole number of milliseconds")
        times.append(int(row.text))
        if len(times) > 1 and times[-1] < times[-2]:
            raise row.wrong(f"{times[-1]} ms comes after {times[-2]} ms", "ascending milliseconds")
    if times[-1] == 0:
        raise text.rows[-1].wrong("the trace ends at 0 ms", "a last millisecond above 0")
    return of_milliseconds(times)


def of_milliseconds(times: list[int]) -> Trace:
    """Returns the trace of ascending milliseconds, of which the last is the period."""
    period = times[-1] * _NS
    # The opportunity at the end of the period is at the start of the next period.
    return Trace(period, tuple(sorted(time * _NS % period for time in times)))


def milliseconds(trace: Trace, size_bytes: int = OPPORTUNITY_BYTES) -> list[int]:
    """Returns the opportunities for `size_bytes` of a trace with a capacity as milliseconds from 1,
    the last of which is the period.
    """
    # The last line is the period, so a trace that ends with an outage needs an opportunity there.
    own, period = _own(trace, size_bytes), _period(trace)
    return own if own[-1:] == [period] else [*own, period]


def has_quiet_end(trace: Trace, size_bytes: int) -> bool:
    """Returns whether a trace with a capacity has no opportunity for `size_bytes` in its last
    millisecond.
    """
    return _own(trace, size_bytes)[-1:] != [_period(trace)]


def _own(trace: Trace, size_bytes: int) -> list[int]:
    return sorted(-(-instant // _NS) or _period(trace) for instant in opportunities(trace, size_bytes))


def _period(trace: Trace) -> int:
    return -(-trace.period_ns // _NS)


def write(trace: Trace, _every_ns: int | None) -> dict[str, str]:
    """Returns the content of the file."""
    return {"": "".join(f"{time}\n" for time in milliseconds(trace))}
