"""The page of a capture: what MPTCP did in it, with charts that can be zoomed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath

from mptcplab.captures import read_series
from mptcplab.report import capture_tables
from mptcplab.report.capture_points import Points, points_of, rows_by_connection
from mptcplab.report.capture_verdict import verdict_sentences
from mptcplab.report.grid import Grid
from mptcplab.report.page import render
from mptcplab.report.quantities import quantity
from mptcplab.results.entities import Json

#: Limits of the page. If there are more connections, packets, subflows or events, it says how many.
MOST_CONNECTIONS = 24
MOST_PACKETS = 4_000_000
MOST_LANES = 24
MOST_ROWS = 500
#: Simulated time begins with 1970.
START_OF_SIMULATIONS = 1970
#: Events that are marked as problems of a connection.
TROUBLE = {"mp_fail", "mp_fastclose", "reset", "fallback", "timeout", "violation"}
DATA_HEADS = [
    "sender",
    "data",
    "goodput",
    "reinjected",
    "of it needed",
    "duplicate",
    "DATA_ACK after",
    "early segments",
    "waited at most",
    "held by window",
    "gaps",
]


@dataclass(frozen=True)
class Section:
    """The section of a connection. ``described`` and ``points`` are the data of its charts; None
    without charts.
    """

    id: int
    title: str
    verdict: list[str]
    sentences: list[str]
    subflows: Grid
    more_subflows: int
    data: Grid
    events: Grid
    more_events: int
    legend: list[Json]
    described: Json | None
    points: Points | None


def capture_page(document: Json, series: Path) -> str:
    """Returns the page of a capture as HTML, from the result of `mptcplab.captures.explain` and its
    Parquet file.

    Raises RunFailed if the file cannot be read.
    """
    connections = sorted(document["connections"], key=capture_tables.importance)
    shown = connections[:MOST_CONNECTIONS]
    one_way = document.get("one_way")
    return render(
        "capture.html.j2",
        title=_title(document["files"]),
        where=_where(document),
        verdict=capture_tables.capture_sentences(document),
        sections=_sections(shown, series),
        more=len(connections) - len(shown),
        clocks=capture_tables.clock_sentences(one_way) if one_way else [],
        one_way=capture_tables.one_way_grid(one_way) if one_way else None,
    )


def _title(files: Sequence[Json]) -> str:
    first, *others = [PurePath(file["path"]).name for file in files]
    if not others:
        return first
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} more'}"


def _where(document: Json) -> str:
    start = datetime.fromtimestamp(document["start_unix_s"], UTC)
    if start.year == START_OF_SIMULATIONS:
        return (
            f"capture · starts {quantity(document['start_unix_s'], 's')} after 1970, in simulated time or by a clock"
            " that was not set"
        )
    return f"capture · starts on {start:%Y-%m-%d} at {start:%H:%M:%S} UTC"


def _sections(connections: Sequence[Json], series: Path) -> list[Section]:
    charted: list[Json] = []
    packets = 0
    for connection in connections:
        packets += _packets(connection)
        if charted and packets > MOST_PACKETS:
            break
        charted.append(connection)
    rows = rows_by_connection(read_series(series), charted)
    points: list[Points | None] = [points_of(of_one) for of_one in rows]
    points += [None] * (len(connections) - len(charted))
    return [_section(connection, its_points) for connection, its_points in zip(connections, points, strict=True)]


def _packets(connection: Json) -> int:
    return sum(way["packets"] for subflow in connection["subflows"] for way in subflow["directions"].values())


def _section(connection: Json, points: Points | None) -> Section:
    subflows, events = capture_tables.subflow_grid(connection), capture_tables.event_grid(connection)
    return Section(
        id=connection["id"],
        title=capture_tables.connection_title(connection),
        verdict=verdict_sentences(connection),
        sentences=capture_tables.connection_sentences(connection),
        subflows=_first(subflows),
        more_subflows=max(0, len(subflows.rows) - MOST_ROWS),
        data=_data(connection),
        events=_first(events),
        more_events=max(0, len(events.rows) - MOST_ROWS) + connection["events_left_out"],
        legend=connection["subflows"][:MOST_LANES],
        described=None if points is None else _described(connection, points),
        points=points,
    )


def _first(grid: Grid) -> Grid:
    return Grid(grid.heads, grid.rows[:MOST_ROWS], grid.numeric)


def _data(connection: Json) -> Grid:
    """Returns a row for each host that sent data."""
    rows = [_data_row(side, connection["data"][side]) for side in capture_tables.SIDES if _sent(connection, side)]
    return Grid(DATA_HEADS, rows, frozenset(range(1, len(DATA_HEADS))))


def _sent(connection: Json, side: str) -> bool:
    return any(subflow["directions"][side]["bytes"] for subflow in connection["subflows"])


def _data_row(side: str, data: Json) -> list[str]:
    reinjected, waits, rtt = data["reinjected"], data["head_of_line"], data["rtt"]
    gaps = [gap["seconds"] for gap in data["gaps"]]
    return [
        side,
        quantity(data["bytes"], "B"),
        quantity(data["goodput_bps"], "bit/s"),
        quantity(reinjected["bytes"], "B"),
        quantity(reinjected["useful_bytes"], "B"),
        quantity(data["duplicate_bytes"], "B"),
        quantity(rtt and rtt["median_s"], "s"),
        str(data["order"]["early_segments"]),
        quantity(waits and waits["max_s"], "s"),
        quantity(data["window_limited_s"], "s"),
        f"{len(gaps)}, {quantity(sum(gaps), 's')}" if gaps else "none",
    ]


def _described(connection: Json, points: Points) -> Json:
    """Returns the data of the charts of a connection besides its points."""
    place = {subflow["id"]: place for place, subflow in enumerate(connection["subflows"])}
    return {
        "start_s": connection["start_s"],
        "end_s": connection["end_s"],
        "subflows": [
            {
                "name": f"subflow {subflow['id']}",
                "ends": f"{subflow['local']} \N{RIGHTWARDS ARROW} {subflow['remote']}",
                **{key: subflow[key] for key in ("id", "start_s", "usable_s", "end_s", "backup")},
            }
            for subflow in connection["subflows"]
        ],
        "events": [
            {
                "subflow": place[event["subflow"]],
                "name": capture_tables.EVENT_NAMES[event["kind"]],
                "is_trouble": event["kind"] in TROUBLE,
                **{key: event[key] for key in ("packet", "at_s", "from", "text", "times")},
            }
            for event in connection["events"]
        ],
        "gaps": {side: connection["data"][side]["gaps"] for side in capture_tables.SIDES},
        "series": points.series,
    }
