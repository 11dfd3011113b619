"""Events as marks on a time axis."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mptcplab.plots.look import BAND, FAINT, PAGE_FONT_PT, PAGE_WIDTH_IN, Look
from mptcplab.plots.specification import Mark
from mptcplab.results import Happening, RunData
from mptcplab.results.entities import DOWN, Json
from mptcplab.results.recovery import repair_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL_ROWS = 3
#: More handovers than this are only in the figure of the radios.
MOST_HANDOVERS = 12
#: What a link does at a handover, by the kind of its access network.
_CHANGES = {"cellular": "moves to another cell", "leo": "moves to another satellite"}
#: The width of a letter of a label on a page, as a part of the axis.
LETTER = 0.012


def marks_of(run: RunData) -> list[Mark]:
    """Returns the events of a run: outages as periods, others as moments. Parts of a compound event
    share its name.
    """
    parents = {event["id"]: event["parent"] for event in run.resolved["events"]}
    outages = [(happening, repair_of(run, happening)) for happening in run.happenings if _fails(happening)]
    repairs = {repair.id for _, repair in outages if repair is not None}
    marks = [
        Mark(
            _label(failure, parents.get(failure.id)), failure.actual_s, run.end_s if repair is None else repair.actual_s
        )
        for failure, repair in outages
    ]
    marks += [
        Mark(_label(happening, parents.get(happening.id)), happening.actual_s, None)
        for happening in run.happenings
        if not _fails(happening) and happening.id not in repairs
    ]
    return sorted(marks, key=lambda mark: mark.start_s)


def marks_with_handovers(run: RunData) -> list[Mark]:
    """Returns the events of a run, and the handovers that the model of a link drew, unless there
    are many.
    """
    drawn = [Mark(f"{link} {words}", at_s, None) for link, words, at_s in _drawn_handovers(run)]
    return sorted(marks_of(run) + (drawn if len(drawn) <= MOST_HANDOVERS else []), key=lambda mark: mark.start_s)


def handovers_s(run: RunData, link: str) -> list[float]:
    """Returns the sampling times at which a device has changed its access point,
    cell or satellite.
    """
    counters = [run.samples.series(f"links.{link}.{way}", "handovers") for way in ("forward", "backward")]
    counted = [counter for counter in counters if counter is not None and counter.last() > 0]
    return [float(at_s) for at_s in counted[0].times_s[1:][np.diff(counted[0].values) > 0]] if counted else []


def _drawn_handovers(run: RunData) -> Iterator[tuple[str, str, float]]:
    """Yields the link, what it does, and the time of each handover that is no event of the
    description.
    """
    every_s = run.resolved["measure"]["every_ns"] / 1e9
    for access in run.resolved["access"]:
        if access["kind"] not in _CHANGES:
            continue
        link = access["link"]
        asked = [one.actual_s for one in run.happenings if one.action.get("link") == link]
        for at_s in handovers_s(run, link):
            if not any(0 <= at_s - event_s <= every_s for event_s in asked):
                yield link, _CHANGES[access["kind"]], at_s


def median_marks(of_runs: Sequence[Sequence[Mark]]) -> tuple[Mark, ...]:
    """Returns the events that all runs have, each from its median start to its median end."""
    marks = [_median(found) for found in _of_every_run(of_runs)]
    return tuple(sorted(marks, key=lambda mark: mark.start_s))


def apart_s(of_runs: Sequence[Sequence[Mark]]) -> float:
    """Returns by how much the times of an event that all runs have differ at most."""
    times = [[mark.start_s for mark in found] for found in _of_every_run(of_runs)]
    times += [[mark.end_s for mark in found if mark.end_s is not None] for found in _of_every_run(of_runs)]
    return max((max(of_event) - min(of_event) for of_event in times if of_event), default=0.0)


def _of_every_run(of_runs: Sequence[Sequence[Mark]]) -> Iterator[list[Mark]]:
    """Yields the marks of each event that all runs have. Of equal events, the first belongs to the
    first.
    """
    numbered = [_numbered(marks) for marks in of_runs]
    for key in numbered[0]:
        if all(key in of_run for of_run in numbered):
            yield [of_run[key] for of_run in numbered]


def _numbered(marks: Sequence[Mark]) -> dict[tuple[str, bool, int], Mark]:
    found: dict[tuple[str, bool, int], Mark] = {}
    for mark in marks:
        kind = (mark.label, mark.end_s is not None)
        found[*kind, sum(key[:2] == kind for key in found)] = mark
    return found


def _median(marks: Sequence[Mark]) -> Mark:
    ends = [mark.end_s for mark in marks if mark.end_s is not None]
    start_s = float(np.median([mark.start_s for mark in marks]))
    return Mark(marks[0].label, start_s, float(np.median(ends)) if ends else None)


def are_alike(marks: Sequence[Mark], others: Sequence[Mark], within_s: float) -> bool:
    """Returns whether the events are the same, at times that differ by at most ``within_s``."""
    pairs = list(zip(marks, others, strict=False))
    times = [(getattr(mark, end), getattr(other, end)) for mark, other in pairs for end in ("start_s", "end_s")]
    return [mark.label for mark in marks] == [mark.label for mark in others] and all(
        time == other or (None not in (time, other) and abs(time - other) <= within_s) for time, other in times
    )


#: What happens to a link that goes down, by how it does.
_LINK_DOWN = {"cut": "cut", "drop_rule": "interrupted by a rule", "port_down": "loses its ports"}

_IN_WORDS = {
    "interface_down": "down",
    "interface_up": "up",
    "link_up": "restored",
    "address_remove": "loses its address",
    "address_add": "gets its address",
    "set_link": "changed",
    "handover": _CHANGES["cellular"],
    "roam": "moves to another access point",
    "set_signal": "has another signal",
}


def in_words(action: Json) -> str:
    """Describes an action in a few words."""
    what = action.get("interface") or action.get("link") or action.get("host", "")
    match action["kind"]:
        case "link_down":
            return f"{what} {_LINK_DOWN[action['by']]}"
        case "set_backup":
            return f"{what} {'is' if action['on'] else 'is no longer'} backup"
        case "reroute":
            way = " ".join(hop["link"] for hop in action["there"][1:-1])
            return f"{action['flow']}, path {action['path'] + 1}, goes over {way}"
        case "set_recovery":
            return f"the network recovers with {action['strategy']} from now on"
        case "exec":
            return f"{what} runs {' '.join(action['argv'])}"
        case kind:
            return f"{what} {_IN_WORDS.get(kind, kind)}".strip()


def draw_marks(axes: Axes, marks: Sequence[Mark], look: Look, *, labels: bool = True) -> None:
    """Draws bands and lines. Labels are above the axes, in rows so that adjacent ones do not
    overlap.
    """
    left, right = axes.get_xlim()
    letter = LETTER * (look.font_pt / PAGE_FONT_PT) / (look.width_in / PAGE_WIDTH_IN)
    free_from = [left] * LABEL_ROWS
    written: set[str] = set()
    for start_s, end_s in _periods(marks):
        axes.axvspan(start_s, end_s, color=BAND, zorder=0, linewidth=0)
    for mark in marks:
        axes.axvline(mark.start_s, color=FAINT, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
        row = next((r for r in range(LABEL_ROWS) if free_from[r] <= mark.start_s), None)
        if not labels or row is None or mark.label in written:
            continue
        written.add(mark.label)
        free_from[row] = mark.start_s + (right - left) * (letter * len(mark.label) + 0.01)
        axes.annotate(
            mark.label,
            (mark.start_s, 1),
            xycoords=("data", "axes fraction"),
            xytext=(2, 4 + 1.3 * look.small_pt * row),
            textcoords="offset points",
            fontsize=look.small_pt,
            color=FAINT,
            annotation_clip=False,
        )


def _periods(marks: Sequence[Mark]) -> list[tuple[float, float]]:
    """Returns the periods in which something was down, each once, because shades over each other
    would hide curves.
    """
    periods: list[tuple[float, float]] = []
    for start_s, end_s in sorted((mark.start_s, mark.end_s) for mark in marks if mark.end_s is not None):
        if periods and start_s <= periods[-1][1]:
            periods[-1] = (periods[-1][0], max(periods[-1][1], end_s))
        else:
            periods.append((start_s, end_s))
    return periods


def _fails(happening: Happening) -> bool:
    return happening.action["kind"] in DOWN


def _label(happening: Happening, parent: str | None) -> str:
    """Returns the name in the description, or the action if there is no name."""
    name = parent or happening.id
    return in_words(happening.action) if re.fullmatch(r"e\d+(\.\d+)?", name) else name
