"""The figures of one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.plots import colours
from mptcplab.plots.access import aggregate_sizes, air_time, radio_states
from mptcplab.plots.bins import bin_starts, bin_width, bins_told, per_bin, rate_axis, time_of
from mptcplab.plots.directions import arrows_told, link_of, other_way, short
from mptcplab.plots.drawing import Drawing, Line
from mptcplab.plots.marks import marks_with_handovers
from mptcplab.plots.specification import Axis, Curve, Panel, Specification
from mptcplab.plots.subflows import CAPACITY, congestion_windows, round_trip_times, stacked, timeline
from mptcplab.results import RunData, Series, UnitTimes, arrived, capacity_steps, tells_only_order

MOST_LINES = 6
MOST_PANELS = 12
BUSY = 0.05
"""Links with less than this share of the busiest link's traffic are not drawn."""
#: The colours of units that later ones overtook, and of the others.
OVERTAKEN, IN_ORDER = 1, 0


def drawings_of(run: RunData) -> list[Drawing]:
    """Returns all figures for which the run has data."""
    drawn: list[Callable[[RunData], Drawing | None]] = [
        throughput,
        stacked,
        timeline,
        congestion_windows,
        round_trip_times,
        link_rates,
        air_time,
        aggregate_sizes,
        radio_states,
        delay,
        queues,
        drops,
        probe_rtt,
        arrivals,
    ]
    return [drawing for draw in drawn if (drawing := draw(run)) is not None]


def throughput(run: RunData) -> Drawing | None:
    """Draws what arrived of each flow over time, with what the network can carry and the events."""
    width = bin_width(run)
    lines = [line for flow in run.flows if (line := _rate_line(run, flow, arrived(run, flow), width))]
    if not lines:
        return None
    numbers = colours.flows(run)
    largest = sorted(lines, key=lambda line: -float(np.mean(line.y)))[:MOST_LINES]
    shown = sorted(largest, key=lambda line: colours.natural(line.label))
    curves = tuple(Curve(line.label, line.x, line.y, "step", numbers[line.label]) for line in shown)
    panel = Panel(
        curves,
        time_of(run),
        rate_axis(),
        marks=tuple(marks_with_handovers(run)),
        ceiling=capacity_curve(run, [line.label for line in shown]),
    )
    more = f"; the {MOST_LINES} largest of {len(lines)} flows" if len(lines) > len(shown) else ""
    alt = "; ".join(f"{line.label}: mean {np.mean(line.y):.3g} Mbit/s" for line in shown)
    remarks = (bins_told(width), *only_in_order(run, [line.label for line in shown]))
    if panel.ceiling is not None and len(shown) > 1:
        remarks += ("The capacity shown is that of the flow with the highest ceiling.",)
    specification = Specification((panel,), remarks=remarks, height=3.7)
    title = f"Throughput over time{more}"
    return Drawing.specified("throughput", title, alt, specification, "time_s", "throughput_mbps", lines)


def capacity_curve(run: RunData, flows: Sequence[str]) -> Curve | None:
    """Returns what the network can carry for the largest of the flows, as a step line."""
    steps = capacity_steps(run, flows)
    if steps is None:
        return None
    times, values = steps
    return Curve(f"{CAPACITY} {_range(values / 1e6)}", times, values / 1e6, "hold", is_dashed=True)


def only_in_order(run: RunData, flows: Sequence[str]) -> tuple[str, ...]:
    """Returns a remark if arrivals are known only in order."""
    concerned = [flow for flow in flows if tells_only_order(run, flow)]
    if not concerned:
        return ()
    return (f"Of {', '.join(concerned)} only the delivery in order is known, which jumps when a gap is filled.",)


def link_rates(run: RunData) -> Drawing | None:
    """Draws the rate of each link direction in small panels on one scale."""
    width = bin_width(run)
    counters = {path: run.samples.series(path, "wire_bytes") for path in run.samples.entities("links.")}
    used = {path: counter for path, counter in counters.items() if counter is not None and counter.last()}
    order = sorted(used, key=lambda path: -used[path].last())
    lines = {path: line for path in order if (line := _rate_line(run, short(path), used[path], width))}
    if not lines:
        return None
    busiest = float(np.mean(next(iter(lines.values())).y))
    busy = [path for path, line in lines.items() if np.mean(line.y) >= BUSY * busiest][:MOST_PANELS]
    shown = sorted(busy, key=lambda path: (colours.natural(link_of(path)), not path.endswith("forward")))
    numbers, marks = colours.links(run), tuple(marks_with_handovers(run))
    panels = [
        Panel(
            (
                Curve(
                    "",
                    lines[path].x,
                    lines[path].y,
                    "step",
                    numbers[link_of(path)],
                    low=np.zeros(len(lines[path].x)),
                    high=lines[path].y,
                ),
            ),
            time_of(run),
            Axis("Rate on the wire", "Mbit/s"),
            lines[path].label,
            marks,
        )
        for path in shown
    ]
    more = f"; the {len(shown)} busiest of {len(lines)} directions" if len(lines) > len(shown) else ""
    alt = "; ".join(f"{lines[path].label}: mean {np.mean(lines[path].y):.3g} Mbit/s" for path in shown)
    specification = Specification(tuple(panels), remarks=(bins_told(width), *arrows_told(run, shown))).levelled()
    every = list(lines.values())
    return Drawing.specified("links", f"Rate on each link{more}", alt, specification, "time_s", "wire_rate_mbps", every)


def queues(run: RunData) -> Drawing | None:
    """Draws the queue length of the link directions with the longest queues."""
    series = {path: run.samples.series(path, "queue_bytes") for path in run.samples.entities("links.")}
    used = {path: s for path, s in series.items() if s is not None and s.values.max() > 0}
    order = sorted(used, key=lambda path: -float(used[path].values.mean()))
    shown = sorted(order[:MOST_LINES], key=lambda path: (colours.natural(link_of(path)), path.endswith("backward")))
    numbers = colours.links(run)
    curves = [
        Curve(
            short(path),
            used[path].times_s,
            used[path].values / 1000,
            "hold",
            numbers[link_of(path)],
            # Only the two directions of one link need to be told apart.
            is_dashed=path.endswith("backward") and other_way(path) in shown,
        )
        for path in shown
    ]
    lines = [Line(short(path), used[path].times_s, used[path].values / 1000) for path in order]
    alt = "; ".join(f"{curve.label}: largest {np.max(curve.y):.3g} kB" for curve in curves)
    axis, remarks = Axis("Bytes in the queue", "kB"), arrows_told(run, shown)
    more = f"; the {len(shown)} longest of {len(order)} queues" if len(order) > len(shown) else ""
    return _overlaid(run, "queues", f"Queue length{more}", curves, lines, axis, alt, remarks)


def probe_rtt(run: RunData) -> Drawing | None:
    """Draws the round-trip times of the probes."""
    found = {path: run.samples.series(path, "rtt_s") for path in run.samples.entities("probes.")}
    lines = [
        Line(path.removeprefix("probes."), s.times_s, s.values * 1000) for path, s in found.items() if s is not None
    ]
    curves = [Curve(line.label, line.x, line.y, "dots", number) for number, line in enumerate(lines[:MOST_LINES])]
    alt = "; ".join(f"{line.label}: median {np.median(line.y):.3g} ms" for line in lines[:MOST_LINES])
    more = f"; the first {MOST_LINES} of {len(lines)} probes" if len(lines) > MOST_LINES else ""
    axis = Axis("Round-trip time", "ms")
    return _overlaid(run, "rtt", f"Round-trip time of probes{more}", curves, lines, axis, alt)


def delay(run: RunData) -> Drawing | None:
    """Draws the one-way delay of data units, over time and as a distribution."""
    units = _largest_units(run)
    if not units:
        return None
    numbers = colours.flows(run)
    lines = [Line(flow, times.delivered_s, times.delays_s * 1000) for flow, times in units.items()]
    over_time = [Curve("", line.x, line.y, "dots", numbers[line.label]) for line in lines]
    distribution = [_distribution(line, numbers[line.label]) for line in lines]
    axis = Axis("One-way delay", "ms")
    panels = (
        Panel(tuple(over_time), time_of(run), axis, marks=tuple(marks_with_handovers(run))),
        Panel(tuple(distribution), Axis("Units at or below", "%", 100.0), axis),
    )
    alt = "; ".join(
        f"{line.label}: median {np.median(line.y):.3g} ms, 99th percentile {np.percentile(line.y, 99):.3g} ms"
        for line in lines
    )
    specification = Specification(panels, "columns", parts=(2, 1), height=3.3).levelled()
    title = "One-way delay of data units"
    return Drawing.specified("delay", title, alt, specification, "delivered_s", "delay_ms", lines)


def _distribution(line: Line, number: int) -> Curve:
    ordered = np.sort(np.asarray(line.y))
    share = 100 * np.arange(1, len(ordered) + 1) / len(ordered)
    kept = np.unique(np.linspace(0, len(ordered) - 1, 400).astype(int))
    return Curve(line.label, share[kept], ordered[kept], "line", number)


def drops(run: RunData) -> Drawing | None:
    """Draws the packets dropped per bin on all links and at all interfaces, stacked by reason."""
    width = bin_width(run)
    counts: dict[str, Floats] = {}
    starts = bin_starts(run, width)
    for path in (*run.samples.entities("links."), *run.samples.entities("interfaces.")):
        for metric in run.samples.metrics(path):
            series = run.samples.series(path, metric) if metric.startswith("dropped_") else None
            if series is not None and series.last() > 0:
                reason = metric.removeprefix("dropped_").replace("_", " ")
                counts[reason] = counts.get(reason, 0.0) + per_bin(series, starts, width)
    if not counts:
        return None
    curves, floor = [], np.zeros(len(starts))
    for number, (reason, packets) in enumerate(sorted(counts.items()), start=1):
        label = f"{reason} ({packets.sum():.0f})"
        curves.append(Curve(label, starts + width / 2, floor + packets, "area", number, low=floor))
        floor = floor + packets
    axis = Axis(f"Packets dropped per {width:g} s")
    panel = Panel(tuple(curves), time_of(run), axis, marks=tuple(marks_with_handovers(run)))
    alt = "; ".join(f"{reason}: {packets.sum():.0f} packets" for reason, packets in counts.items())
    lines = [Line(reason, starts, packets) for reason, packets in counts.items()]
    specification = Specification((panel,), height=2.6)
    return Drawing.specified("drops", "Packets dropped, by reason", alt, specification, "time_s", "packets", lines)


def arrivals(run: RunData) -> Drawing | None:
    """Draws data units in order of arrival. Units that later ones overtook are marked."""
    units = _largest_units(run)
    if not units:
        return None
    # The flow with most bytes: that with most units may be a call, whose units arrive in a straight
    # line.
    flow = max(units, key=lambda name: run.flow_results[name]["bytes"] or 0)
    times = units[flow]
    late = times.unit < np.maximum.accumulate(times.unit)
    lines = [
        Line("in order", times.received_s[~late], times.unit[~late]),
        Line("overtaken", times.received_s[late], times.unit[late]),
    ]
    curves = [Curve("in order", lines[0].x, lines[0].y, "dots", IN_ORDER)]
    if late.any():
        name = f"{int(late.sum())} overtaken"
        curves.append(Curve(name, lines[1].x, lines[1].y, "marks", OVERTAKEN))
    panel = Panel(tuple(curves), time_of(run), Axis("Number of the data unit"), marks=tuple(marks_with_handovers(run)))
    alt = f"{len(times)} units arrived, {int(late.sum())} of them after a later one"
    specification, title = Specification((panel,), height=3.0), f"Arrival of the data units of {flow}"
    return Drawing.specified("arrivals", title, alt, specification, "received_s", "unit", lines)


def _overlaid(
    run: RunData,
    name: str,
    title: str,
    curves: Sequence[Curve],
    lines: list[Line],
    axis: Axis,
    alt: str,
    remarks: tuple[str, ...] = (),
) -> Drawing | None:
    """Draws curves of several entities over time in one panel."""
    if not curves:
        return None
    panel = Panel(tuple(curves), time_of(run), axis, marks=tuple(marks_with_handovers(run)))
    specification = Specification((panel,), remarks=remarks, height=2.8)
    y_name = f"{name}_{axis.unit}"
    return Drawing.specified(name, title, alt, specification, "time_s", y_name, lines)


def _rate_line(run: RunData, label: str, counter: Series | None, width_s: float) -> Line | None:
    if counter is None:
        return None
    starts, rates = metrics.binned_rate(counter.times_s, counter.values, 0.0, run.end_s, width_s)
    return Line(label, starts + width_s / 2, rates / 1e6) if len(starts) else None


def _range(values: Floats) -> str:
    """``7.4``, or ``3.7 to 7.4``."""
    low, high = float(values.min()), float(values.max())
    return f"{high:.3g}" if low == high else f"{low:.3g} to {high:.3g}"


def _largest_units(run: RunData) -> dict[str, UnitTimes]:
    """Returns the units of the flows that have most of them."""
    found = {flow: run.units.of(flow) for flow in run.flows}
    order = sorted((flow for flow in found if len(found[flow])), key=lambda flow: -len(found[flow]))
    return {flow: found[flow] for flow in order[:MOST_LINES]}
