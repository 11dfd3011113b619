"""Figures over several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from mptcplab import metrics
from mptcplab.plots.bins import TIME, bin_width
from mptcplab.plots.drawing import INK, PALETTE, Drawing, Line, font_size, label_line_ends, new_figure, sampled, style
from mptcplab.plots.marks import are_alike, draw_marks, marks_of
from mptcplab.results import RunData, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The largest number of points of an arm in a scatter plot.
MOST_DOTS = 800


def overlay(name: str, arms: Mapping[str, Sequence[RunData]], flow: str) -> Drawing | None:
    """Draws the goodput of one flow in several arms: the median of an arm's repetitions and the band of their range."""
    runs = [run for repetitions in arms.values() for run in repetitions if run.in_order(flow) is not None]
    if not runs:
        return None
    end_s, width = max(run.end_s for run in runs), max(bin_width(run) for run in runs)
    panels = _panels(arms)
    with style():
        height = 3.7 if len(panels) == 1 else 0.6 + 1.8 * len(panels)
        figure, axes = new_figure(rows=len(panels), height=height, sharex=True, sharey=True)
        drawn = [_medians(plot, panel, flow, end_s, width) for plot, panel in zip(axes.flat, panels, strict=True)]
        lines = [line for of_panel in drawn for line, _ in of_panel]
        axes.flat[0].set(xlim=(0, end_s), ylim=(0, None))
        # The shared axes have their limits only after all panels are drawn.
        for plot, of_panel in zip(axes.flat, drawn, strict=True):
            label_line_ends(plot, [(float(line.y[-1]), line.label, colour) for line, colour in of_panel])
        for number, (plot, panel) in enumerate(zip(axes.flat, panels, strict=True)):
            marks, *others = [marks_of(run) for repetitions in panel.values() for run in repetitions]
            if all(are_alike(marks, other, width) for other in others):
                draw_marks(plot, marks, labels=number == 0)
        axes.flat[-1].set(xlabel=TIME)
        figure.supylabel(f"Goodput in Mbit/s (bins of {width:g} s)", fontsize=font_size(1))
    alt = "; ".join(f"{line.label}: mean of medians {np.mean(line.y):.3g} Mbit/s" for line in lines)
    return Drawing(
        name,
        f"Goodput of {flow}: median and range of the runs",
        alt,
        figure,
        "time_s",
        "goodput_mbps",
        lines,
    )


def arrivals_of(name: str, arms: Mapping[str, Sequence[RunData]], flow: str) -> Drawing | None:
    """Draws when the data units of one flow were delivered in each arm, and which units waited for earlier ones.

    Each arm shows its first run, because the order of units differs between runs.
    """
    firsts = {arm: runs[0] for arm, runs in arms.items() if runs and len(runs[0].units.of(flow))}
    if not firsts:
        return None
    with style():
        figure, axes = new_figure(2, 1, height=5.0, sharex=True, height_ratios=(2, 1))
        units, waiting = axes.flat
        lines, labels = [], []
        for (arm, run), colour in zip(firsts.items(), PALETTE, strict=False):
            times = run.units.of(flow)
            line = Line(arm, times.delivered_s, times.unit)
            units.plot(*sampled(line.x, line.y, MOST_DOTS), ".", color=colour, markersize=2)
            labels.append((float(times.unit[-1]), arm, colour))
            held = run.samples.series(f"flows.{flow}", "out_of_order_bytes")
            if held is not None:
                waiting.plot(held.times_s, held.values / 1000, color=colour, linewidth=1.2, drawstyle="steps-post")
            lines.append(line)
        units.set(xlim=(0, max(run.end_s for run in firsts.values())), ylim=(0, None), ylabel="Number of the data unit")
        waiting.set(ylim=(0, None), xlabel=TIME, ylabel="Waits for order, kB")
        label_line_ends(units, labels)
        for plot in (units, waiting):
            draw_marks(plot, marks_of(next(iter(firsts.values()))), labels=plot is units)
    alt = "; ".join(f"{line.label}: {len(line.x)} units, the last at {line.x[-1]:.4g} s" for line in lines)
    return Drawing(name, f"Arrival of the data units of {flow}", alt, figure, "delivered_s", "unit", lines)


def _panels(arms: Mapping[str, Sequence[RunData]]) -> list[dict[str, Sequence[RunData]]]:
    """Returns all arms together if there are enough colours, or else the arms of each experiment in groups that fit."""
    groups: dict[str, list[str]] = {}
    for arm, (run, *_) in arms.items():
        groups.setdefault(run.resolved["name"], []).append(arm)
    if len(arms) <= len(PALETTE) or len(groups) == len(arms):
        groups = {"": list(arms)}
    most = len(PALETTE)
    panels = [names[first : first + most] for names in groups.values() for first in range(0, len(names), most)]
    return [{arm: arms[arm] for arm in names} for names in panels]


def _medians(
    plot: Axes, arms: Mapping[str, Sequence[RunData]], flow: str, end_s: float, width_s: float
) -> list[tuple[Line, str]]:
    """Draws the median and the range of each arm. Returns the medians and their colours."""
    drawn = []
    for (arm, repetitions), colour in zip(arms.items(), PALETTE, strict=False):
        rates = _rates(repetitions, flow, end_s, width_s)
        if not len(rates):
            continue
        middle = width_s * (np.arange(rates.shape[1]) + 0.5)
        median = np.median(rates, axis=0)
        plot.fill_between(
            middle, rates.min(axis=0), rates.max(axis=0), color=colour, alpha=0.2, linewidth=0, step="mid"
        )
        plot.plot(middle, median, color=colour, drawstyle="steps-mid")
        drawn.append((Line(arm, middle, median), colour))
    return drawn


def bars(name: str, title: str, unit: str, spreads: Mapping[str, Spread], marked: str | None = None) -> Drawing:
    """Draws a metric of several arms: medians as dots on a scale from 0, intervals as lines, values as text.

    The arm ``marked`` has its own colour.
    """
    with style():
        figure, axes = new_figure(height=0.8 + 0.38 * len(spreads))
        (plot,) = axes.flat
        places = np.arange(len(spreads))[::-1]
        medians = [spread.median for spread in spreads.values()]
        colours = [PALETTE[1] if arm == marked else PALETTE[0] for arm in spreads]
        plot.barh(places, medians, height=0.62, color=colours, alpha=0.25)
        for place, spread, colour in zip(places, spreads.values(), colours, strict=True):
            plot.plot([spread.low, spread.high], [place, place], color=INK, linewidth=1.6)
            plot.plot([spread.median], [place], "o", color=colour, markersize=6)
            plot.annotate(
                f"{spread.median:.4g}",
                (max(spread.high, spread.median), place),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
            )
        plot.set_yticks(places, list(spreads), color=INK)
        plot.set(xlabel=f"{title}, {unit}" if unit else title, ylim=(-0.6, len(spreads) - 0.4))
        plot.set_xlim(0, 1.12 * max([spread.high for spread in spreads.values()] + [1e-12]))
        plot.grid(visible=False, axis="y")
    alt = "; ".join(f"{arm}: {s.median:.4g} [{s.low:.4g}, {s.high:.4g}], n = {s.n}" for arm, s in spreads.items())
    lines = [Line(arm, [s.median], [s.high - s.low]) for arm, s in spreads.items()]
    return Drawing(name, title, alt, figure, "median", "interval_width", lines)


def _rates(
    repetitions: Sequence[RunData], flow: str, end_s: float, width_s: float
) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Returns rates in Mbit/s with one row for each run. After its end, a flow has the rate 0."""
    rows = []
    for run in repetitions:
        counter = run.in_order(flow)
        if counter is not None:
            rows.append(metrics.binned_rate(counter.times_s, counter.values, 0.0, end_s, width_s)[1] / 1e6)
    return np.array(rows)
