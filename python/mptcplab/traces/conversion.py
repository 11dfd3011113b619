"""Converts a trace to another format, with its origin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mptcplab.errors import UsageError
from mptcplab.traces import origins
from mptcplab.traces.formats import FORMATS, Format, mahimahi
from mptcplab.traces.formats.steps import MOST_STEPS
from mptcplab.traces.model import EVERY_NS, Trace
from mptcplab.traces.text import comments

#: What a format may leave out, in words.
_PARTS = {"delays": "delay", "losses": "loss", "trains": "light opportunities"}
#: The formats that the name of a file tells.
_BY_ENDING = {
    ".csv": "csv",
    ".down": "mahimahi",
    ".up": "mahimahi",
    ".trace": "mahimahi",
    ".rates": "rates",
    ".log": "intervals",
}


@dataclass(frozen=True)
class Converted:
    """The content of each file, and what their format does not keep, and needs in addition, in
    words.
    """

    contents: dict[Path, str]
    left_out: tuple[str, ...]
    added: tuple[str, ...] = ()


def format_for(output: Path, name: str | None) -> Format:
    """Returns the format with a name, or that which the name of a file tells. Raises UsageError if
    there is none.
    """
    wanted = name or _BY_ENDING.get(output.suffix)
    if wanted not in FORMATS:
        problem = f"unknown format '{name}'" if name else f"{output}: its name tells no format"
        endings = ", ".join(_BY_ENDING)
        allowed = ", ".join(FORMATS) if name else f"a name that ends in {endings}, or --to {'|'.join(FORMATS)}"
        raise UsageError(f"{problem}; allowed: {allowed}")
    return FORMATS[wanted]


def convert(trace: Trace, output: Path, to: Format, every_ns: int | None = None) -> Converted:
    """Returns the files of a trace in another format. Formats with rates get those of the trace, or
    one for each interval of `every_ns`, by default of 100 ms if the trace has opportunities.

    Raises UsageError if the trace has no licence line, a source or licence of several lines, or no
    capacity where the format needs one.
    """
    if trace.origin.source is not None:
        origins.line(trace.origin.source, f"{output}: source")
    if trace.origin.licence is None:
        raise UsageError(
            f"{output}: the trace has no licence line, without which nobody may pass it on; allowed: a line "
            f"'# licence: ..' in it, {origins.OF_FOLDER} beside it, or --licence TEXT"
        )
    origins.line(trace.origin.licence, f"{output}: licence")
    if not trace.has_capacity and "losses" not in to.keeps:
        raise UsageError(f"{output}: the trace has no rate, which format {to.name} is; allowed: csv")
    if (intervals := _intervals(trace, to, every_ns)) > MOST_STEPS:
        raise UsageError(
            f"{output}: has {intervals} intervals of --every; allowed: at most {MOST_STEPS}, so longer ones"
        )
    if to.most_opportunities is not None and trace.has_capacity:
        count = int(trace.bits_up_to(trace.period_ns) // (8 * to.opportunity_bytes))
        if count == 0:
            problem = f"the trace carries less than the {to.opportunity_bytes} bytes of an opportunity"
            raise UsageError(f"{output}: {problem}; allowed: one that carries more, or csv")
        if count > to.most_opportunities:
            raise UsageError(
                f"{output}: {count} opportunities are too many for format {to.name}; allowed: {to.most_opportunities}"
            )
    contents = _contents(trace, output, to, every_ns)
    return Converted(contents, tuple(_left_out(trace, to)), tuple(_added(trace, to)))


def _added(trace: Trace, to: Format) -> Iterator[str]:
    if to.most_opportunities is not None and mahimahi.has_quiet_end(trace, to.opportunity_bytes):
        yield "an opportunity at the end, because the last one sets the length"


def _intervals(trace: Trace, to: Format, every_ns: int | None) -> int:
    """Returns how many intervals are written; 0 if the format needs none or the trace has its own."""
    if "trains" in to.keeps:
        is_needed = not trace.trains
    else:
        is_needed = to.has_rates and trace.has_capacity and (every_ns is not None or not trace.rates)
    return trace.period_ns // (every_ns or EVERY_NS) if is_needed else 0


def _contents(trace: Trace, output: Path, to: Format, every_ns: int | None) -> dict[Path, str]:
    head = comments(trace.origin) if to.has_comments else ""
    written = to.write(trace, every_ns)
    found = {output.with_name(output.name + ending): head + text for ending, text in written.items()}
    if head:
        return found
    beside = [path.with_name(path.name + origins.SUFFIX) for path in found]
    return found | dict.fromkeys(beside, origins.text(trace.origin))


def _left_out(trace: Trace, to: Format) -> Iterator[str]:
    for part, word in _PARTS.items():
        if getattr(trace, part) and part not in to.keeps:
            yield word
