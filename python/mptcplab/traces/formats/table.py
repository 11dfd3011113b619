"""CSV files with named columns: time, rate, delay or round trip, and loss."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from mptcplab.traces.formats.steps import by_time, written_seconds
from mptcplab.traces.model import Step, Trace, merged, rates_for
from mptcplab.traces.text import Row, Text
from mptcplab.units import NANOS_PER_SECOND

SUMMARY = "CSV with a head and columns for time and rate, delay, rtt or loss"
#: What columns can be: their units, and the factor to nanoseconds, bit/s or a probability.
UNITS: dict[str, dict[str, int | Decimal]] = {
    "time": {"s": NANOS_PER_SECOND, "ms": 10**6, "us": 10**3, "ns": 1},
    "until": {"s": NANOS_PER_SECOND, "ms": 10**6, "us": 10**3, "ns": 1},
    "rate": {"bps": 1, "kbps": 10**3, "mbps": 10**6, "gbps": 10**9},
    "delay": {"s": NANOS_PER_SECOND, "ms": 10**6, "us": 10**3, "ns": 1},
    "rtt": {"s": NANOS_PER_SECOND, "ms": 10**6, "us": 10**3, "ns": 1},
    "loss": {"": 1, "percent": Decimal("0.01")},
}
_SPELLINGS = {"bit": "bps", "kbit": "kbps", "mbit": "mbps", "gbit": "gbps", "%": "percent"}
#: The unit of a column whose name has none.
_USUAL = {"time": "s", "until": "s", "rate": "bps", "delay": "s", "rtt": "s", "loss": ""}
_VALUES = ("rate", "delay", "rtt", "loss")
#: What stands where nothing was measured. The value before it holds on, and the first value also
#: before it.
_UNMEASURED = ("", "-", "nan", "NaN", "NA")
_CLOCK = re.compile(r"(\d{4})\D(\d\d)\D(\d\d)\D(\d\d)\D(\d\d)\D(\d\d)(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class Column:
    """A column: what it is, its place, and the factor of its unit."""

    kind: str
    place: int
    factor: int | Decimal


def fits(text: Text) -> bool:
    """Returns whether the first line is a head: it has a comma or semicolon, and begins with a
    letter.
    """
    first = text.rows[0].text
    return ("," in first or ";" in first) and first.lstrip('"')[:1].isalpha()


def parse(text: Text, columns: Mapping[str, str]) -> Trace:
    """Returns the trace. `columns` gives the name of each column that is read, and its unit after a
    space, as in `rate: DL_bitrate kbit`. Without it, names such as `time_s` and `rate_mbps` are
    looked for.

    A value holds to the next line, or to the time in `until`; what is between is left out.
    """
    if "," not in text.rows[0].text and ";" in text.rows[0].text:
        raise text.rows[0].wrong("found ';' between the columns", "','")
    head = _cells(text.rows[0])
    chosen = _chosen(text.rows[0], head, columns) if columns else _found(text.rows[0], head)
    rows = [(row, _cells(row)) for row in text.rows[1:]]
    if not rows:
        raise text.rows[0].wrong("there is no line below the head", "at least one line of a trace")
    for row, cells in rows:
        if len(cells) != len(head):
            raise row.wrong(f"found {len(cells)} columns", f"{len(head)}, as in the head")
    times = _without_gaps(rows, chosen)
    lists = {kind: _steps(times, rows, chosen[kind]) for kind in _VALUES if kind in chosen}
    period = next(iter(lists.values()))[1]
    if "rate" in lists and not any(step.value for step in lists["rate"][0]):
        raise text.wrong("has only rates of 0", "at least one rate above 0")
    delays = lists.get("delay") or lists.get("rtt")
    return Trace(
        period,
        rates=_whole(lists.get("rate")),
        delays=_whole(delays),
        losses=merged([Step(step.from_ns, float(step.value)) for step in lists["loss"][0]]) if "loss" in lists else (),
    )


def _whole(found: tuple[tuple[Step[float], ...], int] | None) -> tuple[Step[int], ...]:
    return merged([Step(step.from_ns, round(step.value)) for step in found[0]]) if found else ()


def _cells(row: Row) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([row.text], strict=True))]
    except csv.Error as error:
        raise row.wrong(f"is not CSV: {error}") from None


def _chosen(head: Row, names: Sequence[str], columns: Mapping[str, str]) -> dict[str, Column]:
    """Returns the columns that the user has named."""
    found = {}
    for kind, wanted in columns.items():
        if kind not in UNITS:
            raise head.wrong(f"columns: unknown kind '{kind}'", ", ".join(UNITS))
        name, unit = (wanted, _USUAL[kind]) if wanted in names else _with_unit(wanted, _USUAL[kind])
        if name not in names:
            raise head.wrong(f"columns.{kind}: there is no column '{name}'", ", ".join(names))
        found[kind] = Column(kind, names.index(name), _factor(head, kind, unit))
    return _checked(head, found)


def _with_unit(wanted: str, usual: str) -> tuple[str, str]:
    name, _, unit = wanted.rpartition(" ")
    return (name.strip(), unit) if name else (wanted, usual)


def _factor(head: Row, kind: str, unit: str) -> int | Decimal:
    units = UNITS[kind]
    spelled = _SPELLINGS.get(unit.lower(), unit.lower())
    if spelled not in units:
        raise head.wrong(f"columns.{kind}: unknown unit '{unit}'", ", ".join(name for name in units if name))
    return units[spelled]


def _found(head: Row, names: Sequence[str]) -> dict[str, Column]:
    """Returns the columns whose names tell what they are."""
    found: dict[str, Column] = {}
    for place, name in enumerate(names):
        kind, _, unit = name.lower().partition("_")
        if kind in UNITS and (unit or _USUAL[kind]) in UNITS[kind]:
            if kind in found:
                both = f"'{names[found[kind].place]}' and '{name}'"
                raise head.wrong(f"the columns {both} are both {kind}", "one of them, or `columns` with its name")
            found[kind] = Column(kind, place, UNITS[kind][unit or _USUAL[kind]])
    return _checked(head, found)


def _checked(head: Row, found: dict[str, Column]) -> dict[str, Column]:
    if "time" not in found or not found.keys() & set(_VALUES):
        allowed = (
            "names such as time_s, rate_mbps, delay_ms, rtt_ms, loss, or `columns` with the names that the file has"
        )
        missing = "the time" if "time" not in found else "rate, delay or loss"
        raise head.wrong(f"there is no column for {missing}", allowed)
    if {"delay", "rtt"} <= found.keys():
        raise head.wrong("has both delay and rtt", "one of them")
    return found


def _instant(row: Row, cell: str, column: Column) -> int:
    if match := _CLOCK.fullmatch(cell):
        try:
            clock = datetime.fromisoformat("{}-{}-{}T{}:{}:{}".format(*match.groups()[:6]) + (match[8] or "Z"))
        except ValueError:
            raise row.wrong(f"found '{cell[:25]}' as time", "a date and a time that exist") from None
        since = clock - datetime(1970, 1, 1, tzinfo=UTC)
        return since // timedelta(microseconds=1) * 1000 + round(Decimal(match[7] or 0) * NANOS_PER_SECOND)
    return row.nanoseconds(cell, "time", int(column.factor))


def _without_gaps(rows: Sequence[tuple[Row, list[str]]], columns: Mapping[str, Column]) -> list[tuple[int, int | None]]:
    """Returns the begin of each line, and its end if it has one. Time between an end and the next
    begin is left out.
    """
    time, until = columns["time"], columns.get("until")
    found: list[tuple[int, int | None]] = []
    skipped = 0
    before: int | None = None
    for row, cells in rows:
        begin = _instant(row, cells[time.place], time)
        if until is None:
            found.append((begin, None))
            continue
        end = _instant(row, cells[until.place], until)
        if end <= begin:
            raise row.wrong(f"ends at {cells[until.place]}, not after {cells[time.place]}", "an end after the time")
        if before is not None and begin < before:
            raise row.wrong(f"begins at {cells[time.place]}, before the line above ends", "lines that do not overlap")
        skipped += 0 if before is None else begin - before
        found.append((begin - skipped, end - skipped))
        before = end
    return found


def _steps(
    times: Sequence[tuple[int, int | None]], rows: Sequence[tuple[Row, list[str]]], column: Column
) -> tuple[tuple[Step[float], ...], int]:
    values: list[tuple[Row, int, float]] = []
    measured = [
        None if cells[column.place] in _UNMEASURED else _value(row, cells[column.place], column) for row, cells in rows
    ]
    last = next((value for value in measured if value is not None), None)
    if last is None:
        raise rows[0][0].wrong(f"no {column.kind} was measured in any line", "numbers in that column")
    for (begin, _), (row, _), value in zip(times, rows, measured, strict=True):
        last = last if value is None else value
        values.append((row, begin, last))
    steps, period = by_time(values)
    end = times[-1][1]
    return steps, period if end is None else end - times[0][0]


def _value(row: Row, cell: str, column: Column) -> float:
    match column.kind:
        case "rate":
            return row.rate_bps(cell, int(column.factor))
        case "loss":
            value = float(row.decimal(cell, "loss") * column.factor)
            if value > 1:
                raise row.wrong(f"loss {cell[:20]} is more than all", "0 to 1, or 0 to 100 with the unit percent")
            return value
        case "rtt":
            return row.nanoseconds(cell, "rtt", int(column.factor)) // 2
        case _:
            return row.nanoseconds(cell, "delay", int(column.factor))


def write(trace: Trace, every_ns: int | None) -> dict[str, str]:
    """Returns the content of the file: a line at each change. Opportunities become the rates of
    intervals, as do rates if `every_ns` is given.
    """
    rates = rates_for(trace, every_ns) if trace.has_capacity else ()
    lists: dict[str, tuple[Sequence[Step[int]] | Sequence[Step[float]], Callable[[float], str]]] = {
        "rate_bps": (rates, str),
        "delay_s": (trace.delays, lambda value: written_seconds(int(value))),
        "loss": (trace.losses, lambda value: repr(float(value))),
    }
    kept = {name: both for name, both in lists.items() if both[0]}
    lines = [",".join(["time_s", "until_s", *kept]) + "\n"]
    instants = sorted({step.from_ns for steps, _ in kept.values() for step in steps})
    places = dict.fromkeys(kept, 0)
    for instant, end in zip(instants, [*instants[1:], trace.period_ns], strict=True):
        cells = [written_seconds(instant), written_seconds(end)]
        for name, (steps, written) in kept.items():
            while places[name] + 1 < len(steps) and steps[places[name] + 1].from_ns <= instant:
                places[name] += 1
            cells.append(written(steps[places[name]].value))
        lines.append(",".join(cells) + "\n")
    return {"": "".join(lines)}
