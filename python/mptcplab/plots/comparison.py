"""Figures over several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.plots import colours
from mptcplab.plots.bins import TIME, bin_width, bins_told, rate_axis
from mptcplab.plots.drawing import Drawing, Line
from mptcplab.plots.marks import apart_s, are_alike, marks_of, median_marks
from mptcplab.plots.rows import Row, Rows, drawing_of_rows
from mptcplab.plots.run import capacity_curve, only_in_order
from mptcplab.plots.specification import Axis, Curve, Mark, Panel, Specification
from mptcplab.plots.subflows import CAPACITY
from mptcplab.results import RunData, Spread, arrived

#: Above this number of arms, each has a panel of its own, with the others in grey.
MOST_TOGETHER = 4
#: Panels beyond this number would be too small.
MOST_PANELS = 24
#: Above this number of panels, a panel does not show the other arms.
MOST_WITH_OTHERS = 12

Arms = Mapping[str, Sequence[RunData]]


#: The room at the end of an axis, as a part of its length.
MARGIN = 0.02


@dataclass(frozen=True)
class Arm:
    """An arm as drawn: its curve, the events of each run, and the step line of what the network can
    carry in the first run.
    """

    curve: Curve
    events: tuple[tuple[Mark, ...], ...]
    ceiling: Curve | None

    @property
    def marks(self) -> tuple[Mark, ...]:
        """The events that all runs have, at their median times."""
        return median_marks(self.events)


def overlay(name: str, arms: Arms, flow: str) -> Drawing | None:
    """Draws what arrived of one flow in several arms: the median of an arm's runs and the band of
    their range.
    """
    shown = {arm: found for arm in arms if (found := [run for run in arms[arm] if run.in_order(flow) is not None])}
    if not shown:
        return None
    runs = [run for of_arm in shown.values() for run in of_arm]
    end_s, width = max(run.end_s for run in runs), max(bin_width(run) for run in runs)
    numbers = {arm: number for number, arm in enumerate(colours.in_order(shown))}
    drawn = {arm: _arm(arm, shown[arm], flow, end_s, width, numbers[arm]) for arm in numbers}
    x = replace(TIME, high=end_s)
    y = rate_axis()
    panels = _together(drawn, x, y, width) if len(drawn) <= MOST_TOGETHER else _apart(drawn, x, y)
    is_single = all(len(of_arm) == 1 for of_arm in shown.values())
    told = "" if is_single else ": median and range of the runs"
    more = f"; {len(panels)} of {len(drawn)} arms" if len(drawn) > MOST_PANELS else ""
    lines = [Line(arm, one.curve.x, one.curve.y) for arm, one in drawn.items()]
    alt = "; ".join(f"{line.label}: mean {np.mean(line.y):.3g} Mbit/s" for line in lines)
    remarks = (
        bins_told(width),
        *(only_in_order(runs[0], [flow]) if flow in runs[0].flows else ()),
        *_of_several(list(drawn.values()), panels, width),
    )
    height = 3.7 if len(panels) == 1 else None
    specification = Specification(tuple(panels), remarks=remarks, height=height).levelled()
    title = f"Throughput of {flow}{told}{more}"
    return Drawing.specified(name, title, alt, specification, "time_s", "throughput_mbps", lines)


def arrivals_of(name: str, arms: Arms, flow: str) -> Drawing | None:
    """Draws when the data units of one flow were delivered in each arm, and which units waited for
    earlier ones.

    Each arm shows its first run, because the order of units differs between runs.
    """
    firsts = {arm: arms[arm][0] for arm in colours.in_order(arms) if arms[arm] and len(arms[arm][0].units.of(flow))}
    if not firsts:
        return None
    units, waiting, lines = [], [], []
    for number, (arm, run) in enumerate(firsts.items()):
        times = run.units.of(flow)
        lines.append(Line(arm, times.delivered_s, times.unit))
        units.append(Curve(arm, times.delivered_s, times.unit, "dots", number))
        held = run.samples.series(f"flows.{flow}", "out_of_order_bytes")
        if held is not None:
            waiting.append(Curve("", held.times_s, held.values / 1000, "hold", number))
    x = replace(TIME, high=max(run.end_s for run in firsts.values()))
    events, width_s = [marks_of(run) for run in firsts.values()], bin_width(next(iter(firsts.values())))
    marks = median_marks(events)
    panels = (
        Panel(tuple(units), x, Axis("Number of the data unit"), marks=marks),
        Panel(tuple(waiting), x, Axis("Waits for order", "kB"), marks=marks),
    )
    specification = Specification(panels, "rows", _median_told([events], width_s), parts=(2, 1), height=5.0)
    alt = "; ".join(f"{line.label}: {len(line.x)} units, the last at {line.x[-1]:.4g} s" for line in lines)
    title = f"Arrival of the data units of {flow}"
    return Drawing.specified(name, title, alt, specification, "delivered_s", "unit", lines)


def _arm(arm: str, runs: Sequence[RunData], flow: str, end_s: float, width_s: float, number: int) -> Arm:
    """Returns the median of the runs and, if there are several, their range."""
    rates = _rates(runs, flow, end_s, width_s)
    middle = width_s * (np.arange(rates.shape[1]) + 0.5)
    band = (rates.min(axis=0), rates.max(axis=0)) if len(rates) > 1 else (None, None)
    curve = Curve(arm, middle, np.median(rates, axis=0), "step", number, *band)
    first = runs[0]
    events = tuple(tuple(marks_of(run)) for run in runs)
    return Arm(curve, events, capacity_curve(first, [flow]) if flow in first.flows else None)


def _of_several(arms: Sequence[Arm], panels: Sequence[Panel], width_s: float) -> tuple[str, ...]:
    """Returns remarks on what the figure shows of several runs at once, or of one of them."""
    is_together = len(panels) == 1
    of_panels = [[marks for arm in arms for marks in arm.events]] if is_together else [arm.events for arm in arms]
    told = _median_told(of_panels, width_s) if any(panel.marks for panel in panels) else ()
    if any(panel.ceiling for panel in panels) and any(len(arm.events) > 1 for arm in arms):
        told += (f"The capacity is that of the first run{'' if len(arms) == 1 else ' of each arm'}.",)
    return told


def _median_told(of_panels: Sequence[Sequence[Sequence[Mark]]], width_s: float) -> tuple[str, ...]:
    """Returns a remark if the runs of a panel have their events at times that a figure tells apart."""
    if all(apart_s(of_runs) <= width_s for of_runs in of_panels):
        return ()
    counts = sorted({len(of_runs) for of_runs in of_panels})
    runs = f"{counts[0]} runs" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} runs"
    return (f"Events are at the median time of {runs}.",)


def _together(drawn: Mapping[str, Arm], x: Axis, y: Axis, width_s: float) -> list[Panel]:
    """Returns one panel with all arms, or a panel for each if their events differ by more than
    those of the runs of an arm.
    """
    every = list(drawn.values())
    within_s = max(width_s, *(apart_s(arm.events) for arm in every))
    if not all(are_alike(every[0].marks, arm.marks, within_s) for arm in every):
        return _apart(drawn, x, y)
    marks = median_marks([marks for arm in every for marks in arm.events])
    ceilings = [arm.ceiling for arm in every]
    first = ceilings[0]
    is_common = first is not None and all(one is not None and first.looks_like(one) for one in ceilings)
    return [Panel(tuple(arm.curve for arm in every), x, y, marks=marks, ceiling=first if is_common else None)]


def _apart(drawn: Mapping[str, Arm], x: Axis, y: Axis) -> list[Panel]:
    """Returns a panel for each arm, with the other arms in grey."""
    shown = list(drawn.items())[:MOST_PANELS]
    has_others = len(shown) <= MOST_WITH_OTHERS
    panels = []
    for name, arm in shown:
        others = [
            replace(other.curve, is_context=True, low=None, high=None)
            for label, other in shown
            if has_others and label != name
        ]
        ceiling = replace(arm.ceiling, label=CAPACITY) if arm.ceiling else None
        panels.append(Panel((*others, arm.curve), x, y, name, arm.marks, ceiling))
    return panels


def bars(name: str, title: str, unit: str, spreads: Mapping[str, Spread], marked: str | None = None) -> Drawing:
    """Draws a metric of several arms: medians as dots on a scale from 0, intervals as lines, values
    as text.

    Arms have the colours of the overlays. With an arm ``marked``, that has a colour of its own and
    the others one.
    """
    alt = "; ".join(f"{arm}: {s.median:.4g} [{s.low:.4g}, {s.high:.4g}], n = {s.n}" for arm, s in spreads.items())
    lines = [Line(arm, [s.median], [s.high - s.low]) for arm, s in spreads.items()]
    numbers = {arm: number for number, arm in enumerate(colours.in_order(spreads))}
    if marked is not None:
        numbers = {arm: int(arm == marked) for arm in spreads}
    rows = tuple(Row.of_value(arm, s.median, (s.low, s.high), numbers[arm]) for arm, s in spreads.items())
    shown = Rows(rows, Axis(title, unit), height=0.8 + 0.38 * len(rows))
    return drawing_of_rows(name, title, alt, shown, "median", "interval_width", lines)


def points_over(name: str, title: str, x: Axis, y: Axis, arms: Mapping[str, Mapping[float, Spread]]) -> Drawing:
    """Draws medians with their intervals over a number, a curve for each arm."""
    numbers = {arm: number for number, arm in enumerate(colours.in_order(arms))}
    curves, lines = [], []
    for arm, number in numbers.items():
        at = sorted(arms[arm])
        median, low, high = (
            np.array([getattr(arms[arm][one], end) for one in at]) for end in ("median", "low", "high")
        )
        curves.append(Curve(arm, np.array(at), median, "joined", number, low, high))
        lines.append(Line(arm, at, median))
    alt = "; ".join(f"{line.label}: {', '.join(f'{value:.3g}' for value in line.y)}" for line in lines)
    ends = [float(end) for of_arm in arms.values() for end in of_arm]
    room = MARGIN * (max(ends) - min(ends) or max(ends) or 1.0)
    x = replace(x, low=min(0.0, min(ends)), high=max(ends) + room)
    specification = Specification((Panel(tuple(curves), x, y),), height=3.7).told_apart()
    return Drawing.specified(name, title, alt, specification, x.quantity, y.quantity, lines)


def _rates(repetitions: Sequence[RunData], flow: str, end_s: float, width_s: float) -> Floats:
    """Returns rates in Mbit/s with one row for each run. After its end, a flow has the rate 0."""
    counters = [counter for run in repetitions if (counter := arrived(run, flow)) is not None]
    rates = [metrics.binned_rate(one.times_s, one.values, 0.0, end_s, width_s)[1] / 1e6 for one in counters]
    return np.array(rates)
