"""The figures of one run."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.plots.bins import TIME, bin_width
from mptcplab.plots.drawing import (
    INK,
    PALETTE,
    Drawing,
    Line,
    font_size,
    label_line_ends,
    new_figure,
    sampled,
    style,
    thinned,
)
from mptcplab.plots.marks import draw_marks, marks_of
from mptcplab.plots.subflows import congestion_windows, round_trip_times, stacked, timeline
from mptcplab.results import RunData, Series, UnitTimes

FORWARD, BACKWARD = "→", "←"
MOST_LINES = 6
MOST_PANELS = 12
BUSY = 0.05
"""Links with less than this share of the busiest link's traffic are not drawn."""
MOST_DOTS = 2400


def drawings_of(run: RunData) -> list[Drawing]:
    """Returns all figures for which the run has data."""
    drawn: list[Callable[[RunData], Drawing | None]] = [
        throughput,
        stacked,
        timeline,
        congestion_windows,
        round_trip_times,
        link_rates,
        delay,
        queues,
        drops,
        probe_rtt,
        arrivals,
    ]
    with style():
        return [drawing for draw in drawn if (drawing := draw(run)) is not None]


def throughput(run: RunData) -> Drawing | None:
    """Draws the goodput of each flow over time, with its ceiling and the events."""
    width = bin_width(run)
    lines = [line for flow in run.flows if (line := _rate_line(run, flow, f"flows.{flow}", "bytes_in_order", width))]
    if not lines:
        return None
    shown = sorted(lines, key=lambda line: -float(np.mean(line.y)))[:MOST_LINES]
    figure, axes = new_figure(height=3.7)
    (plot,) = axes.flat
    labels = []
    for line, colour in zip(shown, PALETTE, strict=False):
        plot.plot(line.x, line.y, color=colour, drawstyle="steps-mid")
        labels.append((float(line.y[-1]), line.label, colour))
    ceiling = _common_ceiling(run, [line.label for line in shown])
    plot.set(xlim=(0, run.end_s), xlabel=TIME, ylabel=f"Goodput in Mbit/s (bins of {width:g} s)")
    plot.set_ylim(0, 1.08 * max(ceiling or 0, *(float(np.max(line.y)) for line in lines), 0.01))
    if ceiling is not None:
        plot.axhline(ceiling, color=INK, linewidth=1, linestyle=(0, (5, 3)))
        labels.append((ceiling, f"ceiling {ceiling:.3g}", INK))
    label_line_ends(plot, labels)
    draw_marks(plot, marks_of(run))
    more = f"; the {MOST_LINES} largest of {len(lines)} flows" if len(lines) > len(shown) else ""
    alt = "; ".join(f"{line.label}: mean {np.mean(line.y):.3g} Mbit/s" for line in shown)
    return Drawing("throughput", f"Goodput over time{more}", alt, figure, "time_s", "goodput_mbps", lines)


def link_rates(run: RunData) -> Drawing | None:
    """Draws the rate of each link direction in small panels on one scale."""
    width = bin_width(run)
    paths = sorted(run.samples.entities("links."), key=lambda path: -(run.samples.last(path, "wire_bytes") or 0))
    paths = [path for path in paths if run.samples.last(path, "wire_bytes")]
    lines = [line for path in paths if (line := _rate_line(run, _short(path), path, "wire_bytes", width))]
    busy = [line for line in lines if np.mean(line.y) >= BUSY * np.mean(lines[0].y)]
    if not lines:
        return None
    shown = sorted(busy[:MOST_PANELS], key=lambda line: (line.label[:-1], line.label[-1] != FORWARD))
    columns = min(2 if len(shown) <= 4 else 4, len(shown))
    rows = -(-len(shown) // columns)
    figure, axes = new_figure(rows, columns, height=0.5 + 1.55 * rows, sharex=True, sharey=True)
    marks = marks_of(run)
    for plot, line in zip(axes.flat, shown, strict=False):
        plot.fill_between(line.x, line.y, color=PALETTE[0], alpha=0.18, linewidth=0, step="mid")
        plot.plot(line.x, line.y, color=PALETTE[0], linewidth=1.3, drawstyle="steps-mid")
        plot.set_title(line.label)
        draw_marks(plot, marks, labels=False)
    axes.flat[0].set(xlim=(0, run.end_s), ylim=(0, 1.05 * max(float(np.max(line.y)) for line in shown)))
    for plot in axes.flat[len(shown) :]:
        plot.set_visible(False)
    for plot in axes[-1]:
        plot.set_xlabel(TIME)
    figure.supylabel("Mbit/s on the wire", fontsize=font_size(1))
    more = f"; the {len(shown)} busiest of {len(lines)} directions" if len(lines) > len(shown) else ""
    alt = "; ".join(f"{line.label}: mean {np.mean(line.y):.3g} Mbit/s" for line in shown)
    return Drawing("links", f"Rate on each link{more}", alt, figure, "time_s", "wire_rate_mbps", lines)


def queues(run: RunData) -> Drawing | None:
    """Draws the queue length of the link directions with the longest queues."""
    series = {path: run.samples.series(path, "queue_bytes") for path in run.samples.entities("links.")}
    used = {path: s for path, s in series.items() if s is not None and s.values.max() > 0}
    order = sorted(used, key=lambda path: -float(used[path].values.mean()))
    lines = [Line(_short(path), used[path].times_s, used[path].values / 1000) for path in order]
    alt = "; ".join(f"{line.label}: largest {np.max(line.y):.3g} kB" for line in lines[:MOST_LINES])
    return _overlaid(run, "queues", "Queue length", lines, "Queue in kB", alt)


def probe_rtt(run: RunData) -> Drawing | None:
    """Draws the round-trip times of the probes."""
    found = {path: run.samples.series(path, "rtt_s") for path in run.samples.entities("probes.")}
    lines = [
        Line(path.removeprefix("probes."), s.times_s, s.values * 1000) for path, s in found.items() if s is not None
    ]
    alt = "; ".join(f"{line.label}: median {np.median(line.y):.3g} ms" for line in lines[:MOST_LINES])
    return _overlaid(run, "rtt", "Round-trip time of probes", lines, "RTT in ms", alt, dots=True)


def delay(run: RunData) -> Drawing | None:
    """Draws the one-way delay of data units, over time and as a distribution."""
    units = _largest_units(run)
    if not units:
        return None
    figure, axes = new_figure(1, 2, width_ratios=(2, 1), sharey=True)
    over_time, distribution = axes.flat
    lines, labels = [], []
    for (flow, times), colour in zip(units.items(), PALETTE, strict=False):
        line = Line(flow, times.delivered_s, times.delays_s * 1000)
        over_time.plot(*sampled(line.x, line.y, MOST_DOTS // len(units)), ".", color=colour, markersize=2.5, alpha=0.7)
        ordered = np.sort(np.asarray(line.y))
        share = np.arange(1, len(ordered) + 1) / len(ordered)
        kept = np.unique(np.linspace(0, len(ordered) - 1, 400).astype(int))
        distribution.plot(100 * share[kept], ordered[kept], color=colour)
        labels.append((float(ordered[-1]), flow, colour))
        lines.append(line)
    over_time.set(xlim=(0, run.end_s), ylim=(0, None), xlabel=TIME, ylabel="One-way delay in ms")
    distribution.set(xlim=(0, 100), xlabel="Share of units at or below, in %")
    label_line_ends(distribution, labels)
    draw_marks(over_time, marks_of(run))
    alt = "; ".join(
        f"{line.label}: median {np.median(line.y):.3g} ms, 99th percentile {np.percentile(line.y, 99):.3g} ms"
        for line in lines
    )
    return Drawing("delay", "One-way delay of data units", alt, figure, "delivered_s", "delay_ms", lines)


def drops(run: RunData) -> Drawing | None:
    """Draws the packets dropped per bin on all links and at all interfaces, stacked by reason."""
    width = bin_width(run)
    counts: dict[str, Floats] = {}
    starts = width * np.arange(max(1, int(run.end_s / width + 1e-9)))
    for path in (*run.samples.entities("links."), *run.samples.entities("interfaces.")):
        for metric in run.samples.metrics(path):
            series = run.samples.series(path, metric) if metric.startswith("dropped_") else None
            if series is not None and series.last() > 0:
                reason = metric.removeprefix("dropped_").replace("_", " ")
                counts[reason] = counts.get(reason, 0.0) + _per_bin(series, starts, width)
    if not counts:
        return None
    figure, axes = new_figure(height=2.6)
    (plot,) = axes.flat
    floor = np.zeros(len(starts))
    for (reason, packets), colour in zip(counts.items(), PALETTE[1:], strict=False):
        plot.bar(
            starts, packets, width, bottom=floor, align="edge", color=colour, label=f"{reason} ({packets.sum():.0f})"
        )
        floor = floor + packets
    plot.set(xlim=(0, run.end_s), xlabel=TIME, ylabel=f"Packets dropped per {width:g} s")
    plot.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    draw_marks(plot, marks_of(run))
    alt = "; ".join(f"{reason}: {packets.sum():.0f} packets" for reason, packets in counts.items())
    lines = [Line(reason, starts, packets) for reason, packets in counts.items()]
    return Drawing("drops", "Packets dropped, by reason", alt, figure, "time_s", "packets", lines)


def arrivals(run: RunData) -> Drawing | None:
    """Draws data units in order of arrival. Units that later ones overtook are marked."""
    units = _largest_units(run)
    if not units:
        return None
    flow, times = next(iter(units.items()))
    late = times.unit < np.maximum.accumulate(times.unit)
    figure, axes = new_figure(height=3.0)
    (plot,) = axes.flat
    in_order = sampled(times.received_s[~late], times.unit[~late], MOST_DOTS // 2)
    out_of_order = sampled(times.received_s[late], times.unit[late], MOST_DOTS // 2)
    plot.plot(*in_order, ".", color=PALETTE[0], markersize=2)
    plot.plot(*out_of_order, "o", color=PALETTE[1], markersize=4)
    plot.set(xlim=(0, run.end_s), ylim=(0, None), xlabel=TIME, ylabel="Number of the data unit")
    label_line_ends(plot, [(float(times.unit[-1]), "in order", PALETTE[0])])
    if late.any():
        plot.annotate(
            f"{int(late.sum())} overtaken",
            (out_of_order[0][0], out_of_order[1][0]),
            xytext=(10, -14),
            textcoords="offset points",
            color=PALETTE[1],
        )
    draw_marks(plot, marks_of(run))
    lines = [
        Line("in order", times.received_s[~late], times.unit[~late]),
        Line("overtaken", times.received_s[late], times.unit[late]),
    ]
    alt = f"{len(times)} units arrived, {int(late.sum())} of them after a later one"
    return Drawing("arrivals", f"Arrival of the data units of {flow}", alt, figure, "received_s", "unit", lines)


def _overlaid(
    run: RunData, name: str, title: str, lines: list[Line], ylabel: str, alt: str, *, dots: bool = False
) -> Drawing | None:
    """Draws lines of several entities over time in one panel."""
    if not lines:
        return None
    figure, axes = new_figure(height=2.8)
    (plot,) = axes.flat
    labels = []
    for line, colour in zip(lines[:MOST_LINES], PALETTE, strict=False):
        mark = {"linestyle": "none", "marker": ".", "markersize": 3} if dots else {"linewidth": 1.2}
        points = sampled(line.x, line.y, MOST_DOTS // len(lines)) if dots else thinned(line.x, line.y)
        plot.plot(*points, color=colour, **mark)
        labels.append((float(line.y[-1]), line.label, colour))
    plot.set(xlim=(0, run.end_s), ylim=(0, None), xlabel=TIME, ylabel=ylabel)
    label_line_ends(plot, labels)
    draw_marks(plot, marks_of(run))
    return Drawing(name, title, alt, figure, "time_s", name, lines)


def _rate_line(run: RunData, label: str, entity: str, counter: str, width_s: float) -> Line | None:
    series = run.samples.series(entity, counter)
    if series is None:
        return None
    starts, rates = metrics.binned_rate(series.times_s, series.values, 0.0, run.end_s, width_s)
    return Line(label, starts + width_s / 2, rates / 1e6) if len(starts) else None


def _per_bin(series: Series, starts: Floats, width_s: float) -> Floats:
    edges = np.append(starts, starts[-1] + width_s)
    return np.diff(metrics.counter_at(series.times_s, series.values, edges))


def _common_ceiling(run: RunData, flows: list[str]) -> float | None:
    """Returns the largest ceiling of the flows shown, in Mbit/s."""
    ceilings = [run.flows[flow]["ceiling_bps"] for flow in flows]
    known = [ceiling for ceiling in ceilings if ceiling is not None]
    return max(known) / 1e6 if known else None


def _largest_units(run: RunData) -> dict[str, UnitTimes]:
    """Returns the units of the flows that have most of them."""
    found = {flow: run.units.of(flow) for flow in run.flows}
    order = sorted((flow for flow in found if len(found[flow])), key=lambda flow: -len(found[flow]))
    return {flow: found[flow] for flow in order[:MOST_LINES]}


def _short(path: str) -> str:
    """Shortens ``links.wifi.forward`` to ``wifi`` with an arrow for the direction."""
    name, direction = path.removeprefix("links.").rsplit(".", 1)
    return f"{name} {FORWARD if direction == 'forward' else BACKWARD}"
