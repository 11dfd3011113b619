"""The figures of subflows: payload, lifetime, congestion window and round-trip time of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from mptcplab import metrics
from mptcplab.metrics.arrays import Floats
from mptcplab.plots import colours
from mptcplab.plots.bins import bin_width, bins_told, rate_axis, time_of
from mptcplab.plots.drawing import Drawing, Line
from mptcplab.plots.marks import marks_with_handovers
from mptcplab.plots.rows import Row, Rows, Sign, Span, drawing_of_rows
from mptcplab.plots.specification import Axis, Curve, Panel, Specification
from mptcplab.results import RunData, Series, Subflow, capacity_steps, carried, subflows_of
from mptcplab.results.subflows import tells_arrivals

#: If there are more subflows than this, only those with the most payload are drawn.
MOST_SUBFLOWS = 24
MOST_PANELS = 12
MOST_LANES = 24
CAPACITY = "capacity"
#: The gauges of a subflow that hatch its lifetime.
HATCHED = ("backup", "stale")


@dataclass(frozen=True)
class Lane:
    """A row of the timeline: successive subflows between two addresses."""

    label: str
    subflows: list[Subflow]


def stacked(run: RunData) -> Drawing | None:
    """Draws the arrivals on each subflow of the largest connection over time, stacked, and the
    goodput of the flow.

    If the back-end does not report arrivals, it draws the bytes sent, and the title says so.
    """
    flow, shown, more = _largest(run, MOST_SUBFLOWS)
    width = bin_width(run)
    if not shown or width > run.end_s:
        return None
    names = {subflow.addresses: _between(subflow) for subflow in shown}
    numbers = colours.address_pairs(run, shown, names)
    in_order = sorted(shown, key=lambda s: (colours.natural(names[s.addresses]), s.id))
    ids = {pair: ", ".join(str(s.id) for s in in_order if s.addresses == pair) for pair in names}
    floor: Floats = np.zeros(0)
    lines, curves = [], []
    for subflow in in_order:
        starts, rates = _rate(run, subflow, width)
        floor = floor if len(floor) else np.zeros(len(starts))
        # Subflows between the same addresses look the same and share a name.
        name = f"{ids[subflow.addresses]}: {names[subflow.addresses]}"
        middle, colour = starts + width / 2, numbers[subflow.addresses]
        curves.append(Curve(name, middle, floor + rates, "area", colour, low=floor))
        floor = floor + rates
        lines.append(Line(_label(subflow), middle, rates))
    delivered = run.in_order(flow)
    if delivered is not None:
        starts, rates = metrics.binned_rate(delivered.times_s, delivered.values, 0.0, run.end_s, width)
        lines.append(Line("goodput", starts + width / 2, rates / 1e6))
        curves.append(Curve("goodput, in order", starts + width / 2, rates / 1e6, "step"))
    alt = "; ".join(f"subflow {line.label}: mean {np.mean(line.y):.3g} Mbit/s" for line in lines)
    what = "Arrived in order on" if all(tells_arrivals(run, subflow) for subflow in shown) else "Sent on"
    panel = Panel(
        tuple(curves), time_of(run), rate_axis(), marks=tuple(marks_with_handovers(run)), ceiling=_capacity(run, flow)
    )
    title = f"{what} each subflow of {flow}{more}"
    specification = Specification((panel,), remarks=(bins_told(width),), height=3.7)
    return Drawing.specified("subflows", title, alt, specification, "time_s", "rate_mbps", lines)


def _capacity(run: RunData, flow: str) -> Curve | None:
    steps = capacity_steps(run, [flow])
    if steps is None:
        return None
    return Curve(CAPACITY, steps[0], steps[1] / 1e6, "hold", is_dashed=True)


def timeline(run: RunData) -> Drawing | None:
    """Draws when each subflow of the largest connection was open, backup or stale, and the actions
    of path managers.
    """
    flow, _, _ = _largest(run, MOST_SUBFLOWS)
    lanes = sorted(lanes_of(subflows_of(run, flow)) if flow else [], key=lambda lane: colours.natural(lane.label))
    shown = lanes[:MOST_LANES]
    if not shown:
        return None
    lines = [Line(_label(s), list(_life(run, s)), [s.id, s.id]) for lane in shown for s in lane.subflows]
    alt = "; ".join(f"subflow {_label(s)}: {_said(run, s)}" for lane in shown for s in lane.subflows)
    more = f"; {len(shown)} of {len(lanes)} rows" if len(lanes) > len(shown) else ""
    every = [subflow for lane in shown for subflow in lane.subflows]
    numbers = colours.address_pairs(run, every, {subflow.addresses: _between(subflow) for subflow in every})
    actions = _path_events(run, flow, shown)
    rows = tuple(_row(run, lane, numbers, actions[place]) for place, lane in enumerate(shown))
    height = 1.3 + 0.3 * len(rows)
    lifetimes = Rows(rows, time_of(run), height, tuple(marks_with_handovers(run)))
    title = f"Subflow lifetimes ({flow}){more}"
    return drawing_of_rows("timeline", title, alt, lifetimes, "time_s", "subflow", lines)


def congestion_windows(run: RunData) -> Drawing | None:
    """Draws the congestion window of each subflow, with a panel for each pair of addresses."""
    return _panels(run, "cwnd", "Congestion window", "cwnd_bytes", 1e-3, "kB")


def round_trip_times(run: RunData) -> Drawing | None:
    """Draws the smoothed round-trip time of each subflow, with a panel for each
    pair of addresses.
    """
    return _panels(run, "srtt", "Smoothed round-trip time", "srtt_s", 1e3, "ms")


def lanes_of(subflows: Sequence[Subflow]) -> list[Lane]:
    """Returns subflows in rows. A subflow that replaces another between the same addresses follows
    it in its row.
    """
    lanes: list[Lane] = []
    of_pair: dict[frozenset[str], list[Lane]] = {}
    for subflow in subflows:
        mine = of_pair.setdefault(subflow.addresses, [])
        free = next((lane for lane in mine if _over_before(lane.subflows[-1], subflow)), None)
        if free is None:
            several = f" #{len(mine) + 1}" if mine else ""
            free = Lane(f"{_between(subflow)}{several}", [])
            mine.append(free)
            lanes.append(free)
        free.subflows.append(subflow)
    return lanes


def _over_before(earlier: Subflow, later: Subflow) -> bool:
    return earlier.closed_s is not None and later.opened_s is not None and earlier.closed_s <= later.opened_s


def _largest(run: RunData, most: int) -> tuple[str, list[Subflow], str]:
    """Returns the connection with most subflows, its sampled subflows with most payload, and a note
    on omissions.
    """
    found = {flow: [s for s in subflows_of(run, flow) if carried(run, s)] for flow in run.flow_results}
    flow = max(found, key=lambda name: (len(found[name]), sum(s.bytes for s in found[name])), default="")
    several = found.get(flow, [])
    kept = sorted(sorted(several, key=lambda s: -s.bytes)[:most], key=lambda s: s.id)
    others = sum(bool(subflows) for subflows in found.values()) - 1
    more = f"; the {most} largest of {len(several)} subflows" if len(several) > most else ""
    more += f"; {others} more connections" if others > 0 and kept else ""
    return (flow if kept else ""), kept, more


def _rate(run: RunData, subflow: Subflow, width_s: float) -> tuple[Floats, Floats]:
    """Returns the left edges of bins and rates in Mbit/s. Before its first sample, a subflow had
    carried nothing.
    """
    counter = carried(run, subflow)
    assert counter is not None
    opened_s = counter.times_s[0] if subflow.opened_s is None else min(subflow.opened_s, counter.times_s[0])
    times, values = np.append(opened_s, counter.times_s), np.append(0.0, counter.values)
    starts, rates = metrics.binned_rate(times, values, 0.0, run.end_s, width_s)
    return starts, rates / 1e6


def _panels(run: RunData, name: str, title: str, metric: str, factor: float, unit: str) -> Drawing | None:
    flow, subflows, _ = _largest(run, MOST_SUBFLOWS)
    pairs: dict[str, list[tuple[Subflow, Series]]] = {}
    for subflow in subflows:
        series = run.samples.series(subflow.entity, metric)
        if series is not None:
            pairs.setdefault(_between(subflow), []).append((subflow, series))
    shown = dict(sorted(pairs.items(), key=lambda pair: colours.natural(pair[0]))[:MOST_PANELS])
    if not shown:
        return None
    sampled = [subflow for several in shown.values() for subflow, _ in several]
    numbers = colours.address_pairs(run, sampled, {s.addresses: _between(s) for s in sampled})
    marks, panels, lines = tuple(marks_with_handovers(run)), [], []
    for between, several in shown.items():
        curves = []
        for subflow, series in several:
            lines.append(Line(_label(subflow), series.times_s, series.values * factor))
            curves.append(Curve(_label(subflow), lines[-1].x, lines[-1].y, "line", numbers[subflow.addresses]))
        panels.append(Panel(tuple(curves), time_of(run), Axis(title, unit), between, marks))
    alt = "; ".join(f"subflow {line.label}: median {np.median(line.y):.3g} {unit}" for line in lines)
    more = f"; {len(shown)} of {len(pairs)} pairs of addresses" if len(pairs) > len(shown) else ""
    specification = Specification(tuple(panels)).levelled()
    titled, y_name = f"{title} of the subflows of {flow}{more}", f"{name}_{unit}"
    return Drawing.specified(name, titled, alt, specification, "time_s", y_name, lines)


def _row(run: RunData, lane: Lane, numbers: dict[frozenset[str], int], actions: Sequence[float]) -> Row:
    """Returns the lives of the subflows of a lane, with the times at which path managers acted on
    them.
    """
    spans, signs = [], [Sign(at_s, "path manager") for at_s in actions]
    for number, subflow in enumerate(lane.subflows):
        since, until = _life(run, subflow)
        spans.append(Span(since, until, numbers[subflow.addresses]))
        for state in HATCHED:
            stretches = _stretches(run.samples.series(subflow.entity, state), until)
            spans += [Span(begin, end, None, state=state) for begin, end in stretches]
        if number > 0:
            signs.append(Sign(since, "re-created"))
        if subflow.closed_s is not None:
            signs.append(Sign(until, "closed"))
    return Row(lane.label, tuple(spans), tuple(signs))


def _path_events(run: RunData, flow: str, shown: Sequence[Lane]) -> list[list[float]]:
    """Returns the times in seconds at which path managers acted on the addresses of each lane. The
    last lane also has those of other addresses.
    """
    places = {subflow.addresses: place for place, lane in enumerate(shown) for subflow in lane.subflows}
    found: list[list[float]] = [[] for _ in shown]
    for event in run.result.get("path_events") or []:
        if event["flow"] in (flow, None):
            ends = frozenset(end.rpartition(":")[0].strip("[]") for end in (event["local"], event["remote"]) if end)
            found[places.get(ends, -1)].append(event["time_ns"] / 1e9)
    return found


def _stretches(series: Series | None, until_s: float) -> Iterator[tuple[float, float]]:
    """Yields the start and end of each period in which a gauge is 1."""
    if series is None:
        return
    edges = np.flatnonzero(np.diff(np.concatenate([[0.0], series.values > 0.5, [0.0]]).astype(float)))
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        yield float(series.times_s[begin]), float(series.times_s[end]) if end < len(series.times_s) else until_s


def _life(run: RunData, subflow: Subflow) -> tuple[float, float]:
    since = 0.0 if subflow.opened_s is None else subflow.opened_s
    return since, run.end_s if subflow.closed_s is None else subflow.closed_s


def _said(run: RunData, subflow: Subflow) -> str:
    since, until = _life(run, subflow)
    return f"alive from {since:.3g} s to {until:.3g} s"


def _between(subflow: Subflow) -> str:
    """Returns the two interfaces without their hosts, or the addresses if the interfaces are
    unknown.
    """
    ends = (subflow.interface or subflow.local, subflow.remote_interface or subflow.remote)
    return "-".join(end.rpartition(".")[2] if end[:1].isalpha() else end for end in ends)


def _label(subflow: Subflow) -> str:
    return f"{subflow.id}: {_between(subflow)}"
