"""The formats of traces: one module each, with `NAME`, `SUMMARY`, `fits`, `parse` and `text`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mptcplab.traces import text as files
from mptcplab.traces.formats import cellreplay, intervals, mahimahi, rates, table
from mptcplab.traces.model import OPPORTUNITY_BYTES, Origin, Trace
from mptcplab.traces.text import Text
from mptcplab.units import NANOS_PER_SECOND

Columns = Mapping[str, str]

#: Ten days, of which intervals of 100 ms still fit into memory.
LONGEST_NS = 10 * 24 * 3600 * NANOS_PER_SECOND


@dataclass(frozen=True)
class Format:
    """A format: its name, what its lines are, and how it is recognized, read and written.

    `write` returns the content of each file by what its name adds to that of the trace.
    """

    name: str
    summary: str
    fits: Callable[[Text], bool]
    parse: Callable[[Text, Columns], Trace]
    write: Callable[[Trace, int | None], dict[str, str]]
    #: Whether the other programs that read the format skip comment lines.
    has_comments: bool
    #: Whether its capacity is rates in place of opportunities.
    has_rates: bool
    #: What the format keeps beside the capacity.
    keeps: frozenset[str] = frozenset()
    #: How many opportunities it can have, and the bytes of one.
    most_opportunities: int | None = None
    opportunity_bytes: int = OPPORTUNITY_BYTES
    #: The end of a name that is this format's alone.
    ending: str | None = None
    #: Whether a user may choose columns by their names.
    has_columns: bool = False


#: The formats, in the order in which a file is tried.
FORMATS = {
    one.name: one
    for one in (
        Format(
            "csv",
            table.SUMMARY,
            table.fits,
            table.parse,
            table.write,
            True,
            True,
            frozenset({"delays", "losses"}),
            has_columns=True,
        ),
        Format(
            "mahimahi",
            mahimahi.SUMMARY,
            mahimahi.fits,
            mahimahi.parse,
            mahimahi.write,
            False,
            False,
            most_opportunities=mahimahi.MOST_OPPORTUNITIES,
        ),
        Format("rates", rates.SUMMARY, rates.fits, rates.parse, rates.write, True, True),
        Format("intervals", intervals.SUMMARY, intervals.fits, intervals.parse, intervals.write, True, True),
        Format(
            "cellreplay",
            cellreplay.SUMMARY,
            cellreplay.fits,
            cellreplay.parse,
            cellreplay.write,
            False,
            False,
            frozenset({"delays", "trains"}),
            mahimahi.MOST_OPPORTUNITIES,
            cellreplay.OPPORTUNITY_BYTES,
            cellreplay.LIGHT,
        ),
    )
}


def format_of(text: Text) -> Format:
    """Returns the format of a file: that which its name tells, otherwise the first that its first
    line fits. Raises TraceError if it has none.
    """
    named = (one for one in FORMATS.values() if one.ending and text.file.endswith(one.ending))
    fitting = (one for one in FORMATS.values() if one.fits(text))
    for one in itertools.chain(named, fitting):
        return one
    first = text.rows[0]
    allowed = "; ".join(f"{one.name}: {one.summary}" for one in FORMATS.values())
    raise first.wrong(f"no format has a line such as '{first.text[:40]}'", allowed)


def read(path: Path, columns: Columns | None = None, origin: Origin | None = None) -> tuple[Trace, Format]:
    """Reads a trace. `columns` names those of a CSV file. `origin` holds for what the file does not
    say itself.

    Raises TraceError if the file is wrong.
    """
    text = files.read(path)
    one = format_of(text)
    trace = one.parse(text, columns or {})
    if trace.period_ns > LONGEST_NS:
        raise text.wrong(f"has {trace.period_ns // NANOS_PER_SECOND} s", f"at most {LONGEST_NS // NANOS_PER_SECOND} s")
    known = origin or Origin()
    own = Origin(text.origin.source or known.source, text.origin.licence or known.licence)
    return replace(trace, origin=own), one
