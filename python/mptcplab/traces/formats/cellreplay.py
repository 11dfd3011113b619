"""Pairs as CellReplay has them (Sentosa, NSDI 2025): a file with the delay of a packet after a
pause and the opportunities of those right behind it, and one with the opportunities under load, as
of mahimahi.

The first is named `up-delay-light-pdo`, the second `up-pdo`, and both are read as one trace by the
name of the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mptcplab.traces import text as files
from mptcplab.traces.formats import mahimahi
from mptcplab.traces.formats.steps import MOST_STEPS
from mptcplab.traces.model import EVERY_NS, Step, Trace, Train, merged
from mptcplab.traces.text import Text

SUMMARY = "pairs NAME-delay-light-pdo (milliseconds: time, delay, opportunities after the first packet) and NAME-pdo"
LIGHT, _HEAVY = "-delay-light-pdo", "-pdo"
_NS = 1_000_000
#: Bytes of an opportunity, under load and after a pause: PACKET_SIZE of CellReplay
#: (src/frontend/cellular_queue.hh).
OPPORTUNITY_BYTES = 1400
#: Written trains have this many opportunities.
_TRAIN = 10


def fits(text: Text) -> bool:
    """Returns whether the first line has three whole numbers or more."""
    parts = text.rows[0].text.split()
    return len(parts) >= 3 and all(part.isdigit() for part in parts)


def parse(text: Text, _columns: Mapping[str, str]) -> Trace:
    """Returns the trace: opportunities under load, the delay of a first packet, and the trains."""
    if len(text.rows) > MOST_STEPS:
        raise text.wrong(f"has {len(text.rows)} lines", f"at most {MOST_STEPS}")
    heavy = mahimahi.parse(_heavy(text), {})
    trains: list[Train] = []
    for row in text.rows:
        parts = [row.whole(part, "milliseconds") * _NS for part in row.text.split()]
        if len(parts) < 2:
            raise row.wrong("found one number", "time, delay and opportunities, in milliseconds")
        at, delay, *light = parts
        if trains and at <= trains[-1].at_ns:
            raise row.wrong(f"{at // _NS} ms comes after {trains[-1].at_ns // _NS} ms", "ascending times")
        if light != sorted(light):
            raise row.wrong("the opportunities are not in order", "ascending milliseconds after the first packet")
        trains.append(Train(at, delay, tuple(light)))
    within = [train for train in trains if train.at_ns < heavy.period_ns]
    if not within:
        raise text.rows[0].wrong("every time is after the end of the opportunities under load", "times within them")
    # The first delay also holds before it was measured.
    delays = [Step(0 if number == 0 else train.at_ns, train.delay_ns) for number, train in enumerate(within)]
    return replace(heavy, delays=merged(delays), trains=tuple(within), opportunity_bytes=OPPORTUNITY_BYTES)


def _heavy(text: Text) -> Text:
    if not text.file.endswith(LIGHT):
        raise text.wrong("is one of a pair whose other file its name does not give", f"a name that ends in {LIGHT}")
    return files.read(Path(text.file.removesuffix(LIGHT) + _HEAVY))


def write(trace: Trace, every_ns: int | None) -> dict[str, str]:
    """Returns the content of both files. A trace without trains gets those of its opportunities,
    one every `every_ns` or 100 ms, as if the load were light.
    """
    times = mahimahi.milliseconds(trace, OPPORTUNITY_BYTES)
    trains = trace.trains or _trains(trace, times, every_ns or EVERY_NS)
    rows = ((train.at_ns, train.delay_ns, *train.opportunities_ns) for train in trains)
    light = "".join(" ".join(str((time + _NS // 2) // _NS) for time in row) + "\n" for row in rows)
    return {LIGHT: light, _HEAVY: "".join(f"{time}\n" for time in times)}


def _trains(trace: Trace, times_ms: list[int], every_ns: int) -> list[Train]:
    import bisect

    trains = []
    instants = [time * _NS for time in times_ms]
    starts = [step.from_ns for step in trace.delays]
    for at in range(0, trace.period_ns, every_ns):
        first = bisect.bisect_left(instants, at)
        behind = instants[first : first + _TRAIN] or [at]
        delay = trace.delays[bisect.bisect_right(starts, at) - 1].value if trace.delays else 0
        trains.append(Train(at // _NS * _NS, delay, tuple(instant - behind[0] for instant in behind)))
    return trains
