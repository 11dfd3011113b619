"""The figures of access networks: air time by station, packets in a transmission, states of the
radio.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mptcplab.metrics.arrays import Floats
from mptcplab.plots import colours
from mptcplab.plots.bins import bin_starts, bin_width, bins_told, per_bin, time_of
from mptcplab.plots.directions import DIRECTIONS, arrows_told, link_of, short
from mptcplab.plots.drawing import Drawing, Line
from mptcplab.plots.marks import handovers_s, marks_with_handovers
from mptcplab.plots.rows import Row, Rows, Sign, Span, drawing_of_rows
from mptcplab.plots.specification import Axis, Curve, Panel, Specification
from mptcplab.results import RunData, Series
from mptcplab.results.entities import Json
from mptcplab.results.radio import DISCONNECTED, RADIO_STATES

MOST_STATIONS = 8
MOST_ROWS = 24
ALL_OF_THE_AIR = 100.0


def air_time(run: RunData) -> Drawing | None:
    """Draws the share of the air that each station of a Wi-Fi network occupies, both directions
    together, stacked.
    """
    width, numbers, marks = bin_width(run), colours.links(run), tuple(marks_with_handovers(run))
    panels, lines = [], []
    for network in _networks(run):
        shares = {link: share for link in _stations(network) if (share := _share_of_air(run, link, width)).any()}
        curves, floor = [], np.zeros(0)
        starts = bin_starts(run, width)
        for link in sorted(shares, key=colours.natural):
            floor = floor if len(floor) else np.zeros(len(starts))
            lines.append(Line(link, starts + width / 2, shares[link]))
            curves.append(Curve(link, lines[-1].x, floor + shares[link], "area", numbers[link], low=floor))
            floor = floor + shares[link]
        if curves:
            title = network["medium"] if len(_networks(run)) > 1 else ""
            axis = Axis("Share of the air", "%", ALL_OF_THE_AIR)
            panels.append(Panel(tuple(curves), time_of(run), axis, title, marks))
    if not panels:
        return None
    has_neighbours = any(network["neighbours"] for network in _networks(run))
    remarks = ("The air of neighbours is not shown.",) if has_neighbours else ()
    alt = "; ".join(f"{line.label}: mean {np.mean(line.y):.3g} %" for line in lines)
    height = None if len(panels) > 1 else 3.0
    specification = Specification(tuple(panels), remarks=(bins_told(width), *remarks), height=height)
    return Drawing.specified("air", "Air time by station", alt, specification, "time_s", "share_of_air_percent", lines)


def aggregate_sizes(run: RunData) -> Drawing | None:
    """Draws how many packets a transmission of Wi-Fi carries, for each
    direction of each station.
    """
    width, numbers = bin_width(run), colours.links(run)
    starts = bin_starts(run, width)
    found: dict[str, Floats] = {}
    for network in _networks(run):
        if any(station["aggregation"]["max_mpdus"] > 1 for station in network["stations"]):
            paths = [f"links.{link}.{way}" for link in _stations(network) for way in DIRECTIONS]
            found |= {path: sizes for path in paths if np.isfinite(sizes := _packets_each(run, path, width)).any()}
    if not found:
        return None
    largest = sorted(found, key=lambda path: -float(np.nanmean(found[path])))[:MOST_STATIONS]
    shown = sorted(largest, key=lambda path: (colours.natural(link_of(path)), path.endswith("backward")))
    curves = tuple(
        Curve(
            short(path),
            starts + width / 2,
            found[path],
            "step",
            numbers[link_of(path)],
            is_dashed=path.endswith("backward"),
        )
        for path in shown
    )
    panel = Panel(curves, time_of(run), Axis("Packets in a transmission"), marks=tuple(marks_with_handovers(run)))
    lines = [Line(short(path), starts + width / 2, sizes) for path, sizes in found.items()]
    alt = "; ".join(f"{short(path)}: mean {np.nanmean(found[path]):.3g} packets" for path in shown)
    more = f"; the {len(shown)} largest of {len(found)} directions" if len(found) > len(shown) else ""
    remarks = (bins_told(width), *arrows_told(run, shown))
    specification = Specification((panel,), remarks=remarks, height=2.8)
    title = f"Packets in a Wi-Fi transmission{more}"
    return Drawing.specified("aggregates", title, alt, specification, "time_s", "packets_per_transmission", lines)


def radio_states(run: RunData) -> Drawing | None:
    """Draws the state of the radio of each device over time, and its handovers.

    Stations of Wi-Fi that are awake all the time are left out.
    """
    numbers, rows, lines = colours.links(run), [], []
    for kind, link in sorted(_devices(run), key=lambda device: colours.natural(device[1])):
        series = run.samples.series(f"links.{link}.forward", "radio_state")
        handovers = handovers_s(run, link)
        if series is None or (kind == "wifi" and not handovers and not series.values.any()):
            continue
        lines.append(Line(link, series.times_s, series.values))
        spans = tuple(_spans(series, RADIO_STATES[kind], run.end_s, numbers[link]))
        rows.append(Row(link, spans, tuple(Sign(at_s, "handover") for at_s in handovers)))
    shown = tuple(rows[:MOST_ROWS])
    if not shown:
        return None
    alt = "; ".join(f"{row.label}: {_time_in_states(row)}" for row in shown)
    more = f"; {len(shown)} of {len(rows)} devices" if len(rows) > len(shown) else ""
    states = Rows(shown, time_of(run), 1.3 + 0.3 * len(shown), tuple(marks_with_handovers(run)))
    return drawing_of_rows("radio", f"State of the radio{more}", alt, states, "time_s", "radio_state", lines)


def _networks(run: RunData) -> list[Json]:
    """Returns the Wi-Fi networks of the experiment."""
    return [access for access in run.resolved["access"] if access["kind"] == "wifi"]


def _stations(network: Json) -> list[str]:
    return [station["link"] for station in network["stations"]]


def _devices(run: RunData) -> Iterator[tuple[str, str]]:
    """Yields the kind of access network and the link of each device that has a radio."""
    for access in run.resolved["access"]:
        if access["kind"] not in RADIO_STATES:
            continue
        links = _stations(access) if access["kind"] == "wifi" else [access["link"]]
        yield from ((access["kind"], link) for link in links)


def _grown(run: RunData, path: str, metric: str, width_s: float) -> Floats:
    """Returns by how much a counter grows in each bin, 0 if there are no samples of it."""
    starts, counter = bin_starts(run, width_s), run.samples.series(path, metric)
    return np.zeros(len(starts)) if counter is None else per_bin(counter, starts, width_s)


def _share_of_air(run: RunData, link: str, width_s: float) -> Floats:
    """Returns the share of each bin in percent, of both directions together."""
    there, back = (_grown(run, f"links.{link}.{way}", "air_time_s", width_s) for way in DIRECTIONS)
    share: Floats = 100 * (there + back) / width_s
    return share


def _packets_each(run: RunData, path: str, width_s: float) -> Floats:
    """Returns the mean number of packets in a transmission of each bin; NaN
    without transmissions.
    """
    exchanges, packets = (_grown(run, path, name, width_s) for name in ("exchanges", "aggregated_packets"))
    mean: Floats = np.divide(packets, exchanges, out=np.full(len(packets), np.nan), where=exchanges > 0)
    return mean


def _spans(series: Series, names: Sequence[str], end_s: float, colour: int) -> Iterator[Span]:
    """Yields a coloured part while the device is connected, and a hatched part in each state other
    than the first.
    """
    states = series.values.astype(int)
    is_connected = np.array([names[state] not in DISCONNECTED for state in states])
    for since_s, until_s, connected in _stretches(series.times_s, is_connected, end_s):
        if connected:
            yield Span(since_s, until_s, colour, name="connected")
    for since_s, until_s, state in _stretches(series.times_s, states, end_s):
        if state:
            yield Span(since_s, until_s, None, state=names[state])


def _stretches(times_s: Floats, values: Floats, end_s: float) -> Iterator[tuple[float, float, int]]:
    """Yields the start, the end and the value of each period in which a gauge does not change."""
    edges = [0, *(np.flatnonzero(np.diff(values.astype(int))) + 1).tolist()]
    ends = [*(float(times_s[edge]) for edge in edges[1:]), end_s]
    for edge, end in zip(edges, ends, strict=True):
        yield float(times_s[edge]), end, int(values[edge])


def _time_in_states(row: Row) -> str:
    seconds: dict[str, float] = {}
    for span in row.spans:
        name = span.state or span.name
        seconds[name] = seconds.get(name, 0.0) + span.end - span.start
    told = [f"{name} for {length:.3g} s" for name, length in seconds.items()]
    handovers = f"{len(row.signs)} handovers" if row.signs else ""
    return ", ".join([*told, handovers] if handovers else told)
