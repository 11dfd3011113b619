"""The packets of a capture as points for the charts of its page: columns, quantised, compressed, as text."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mptcplab.metrics.arrays import Integers, Numbers
from mptcplab.results.entities import Json

#: What is seen of time: captures rarely know better.
TIME_UNIT_S = 1e-6
#: Steps in which windows and bytes under way are told: finer than any chart is high.
STEPS = 1 << 15
#: In a stream of segments with more than these, neighbours become one point.
MOST_POINTS = 1_000_000
#: Fast, and within a tenth of the smallest that zlib makes of these columns.
COMPRESSION_LEVEL = 4
KINDS = ("new", "reinjection", "retransmission", "unmapped")
SIDES = ("client", "server")

#: Columns of one length by name.
Columns = dict[str, Any]


@dataclass(frozen=True)
class Points:
    """The points of a connection.

    ``series`` says, by sender of the data and by what the points are, how many ``points`` there are and for each of
    the ``columns`` its ``unit``, its ``width`` in bytes and its ``start`` in ``text``, which is zlib in base64.
    A column is the differences from one value to the next in units, modulo 2^(8 width), all low bytes first, all high
    bytes last; the largest value of its width means that none is known.
    """

    series: Json
    text: str
    #: Packets for which a point stands, at most.
    merged: int


def rows_by_connection(series: Mapping[str, Any], connections: Sequence[Json]) -> list[Columns]:
    """For each of these connections the rows of a capture's series that are of its subflows.

    ``subflow`` is then the place in its list of subflows; ``from`` and ``kind`` are places in SIDES and KINDS, -1 for
    packets without payload.
    """
    columns = dict(series)
    columns["from"] = _places(columns["from"], SIDES)
    columns["kind"] = _places(columns["kind"], KINDS)
    most = 1 + max((s["id"] for connection in connections for s in connection["subflows"]), default=0)
    connection_of = np.full(max(most, int(columns["subflow"].max(initial=0)) + 1), -1)
    place_of = np.zeros(len(connection_of), dtype=np.int64)
    for number, connection in enumerate(connections):
        for place, subflow in enumerate(connection["subflows"]):
            connection_of[subflow["id"]] = number
            place_of[subflow["id"]] = place
    # Rows tell the connection of their moment; a part that joined another later is found by its subflow.
    connection = connection_of[columns["subflow"]]
    columns["subflow"] = place_of[columns["subflow"]]
    return [_rows(columns, np.flatnonzero(connection == number)) for number in range(len(connections))]


def points_of(rows: Columns, *, most: int = MOST_POINTS) -> Points:
    """The points of a connection from its rows (see `rows_by_connection`)."""
    described: Json = {}
    packed = bytearray()
    merged = 1
    for side, sender in enumerate(SIDES):
        sent = _rows(rows, np.flatnonzero((rows["from"] == side) & (rows["kind"] >= 0)))
        if not len(sent["packet"]):
            continue
        every = -(-len(sent["packet"]) // most)
        merged = max(merged, every)
        described[sender] = {}
        for name, columns in _series(_merged(sent, every), _rows(rows, np.flatnonzero(rows["from"] != side)), every):
            layout = {column: _packed(values, unit, packed) for column, (values, unit) in columns.items()}
            described[sender][name] = {"points": len(columns["time_s"][0]), "columns": layout}
    text = base64.b64encode(zlib.compress(packed, COMPRESSION_LEVEL))
    return Points(described, text.decode(), merged)


def _series(sent: Columns, answers: Columns, every: int) -> list[tuple[str, dict[str, tuple[Numbers, float]]]]:
    """What is shown of the data of one side: columns with their units."""
    knowing = {
        name: _rows(answers, np.flatnonzero(~np.isnan(answers[name]))[::every])
        for name in ("data_ack", "rtt_s", "data_rtt_s", "window_bytes")
    }
    progress = knowing["data_ack"]
    # Acknowledgments that say nothing new are not drawn.
    progress = _rows(progress, np.flatnonzero(np.diff(np.maximum.accumulate(progress["data_ack"]), prepend=-1) > 0))
    windows = knowing["window_bytes"]
    windows = _rows(windows, np.flatnonzero(np.diff(windows["window_bytes"], prepend=-1) != 0))
    return [
        (
            "segments",
            {
                "time_s": (sent["time_s"], _time_unit(sent)),
                "subflow": (sent["subflow"], 1),
                "kind": (sent["kind"], 1),
                "packet": (sent["packet"], 1),
                "data": (sent["data"], _byte_unit(sent["data"], 1 << 32)),
                "payload_bytes": (sent["payload_bytes"], 1),
                "unacknowledged_bytes": (
                    sent["unacknowledged_bytes"],
                    _byte_unit(sent["unacknowledged_bytes"], STEPS),
                ),
            },
        ),
        ("acknowledged", _with_time(progress, "data_ack", _byte_unit(progress["data_ack"], 1 << 32))),
        ("windows", _with_time(windows, "window_bytes", _byte_unit(windows["window_bytes"], STEPS))),
        ("round_trips", _with_time(knowing["rtt_s"], "rtt_s", TIME_UNIT_S, "subflow")),
        ("data_round_trips", _with_time(knowing["data_rtt_s"], "data_rtt_s", TIME_UNIT_S)),
    ]


def _with_time(rows: Columns, name: str, unit: float, *others: str) -> dict[str, tuple[Numbers, float]]:
    further = {other: (rows[other], 1.0) for other in others}
    return {"time_s": (rows["time_s"], _time_unit(rows)), **further, name: (rows[name], unit)}


def _time_unit(rows: Columns) -> float:
    """In 32 bits."""
    return max(TIME_UNIT_S, float(rows["time_s"].max(initial=0)) / ((1 << 32) - 2))


def _byte_unit(values: Numbers, steps: int) -> float:
    """Whole bytes, as few as that many steps to the largest value allow."""
    known = np.asarray(values)[~np.isnan(values)]
    return float(max(1, -(-int(known.max(initial=0)) // (steps - 2))))


def _merged(sent: Columns, every: int) -> Columns:
    """So many neighbours of a subflow that are of one kind as one, with all their payload."""
    if every == 1:
        return sent
    stream = sent["subflow"] * len(KINDS) + sent["kind"]
    order = np.argsort(stream, kind="stable")
    _, firsts, counts = np.unique(stream[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(firsts, counts)
    starts = np.flatnonzero(place % every == 0)
    merged = _rows(sent, order[starts])
    merged["payload_bytes"] = np.add.reduceat(sent["payload_bytes"][order], starts)
    return _rows(merged, np.argsort(merged["packet"], kind="stable"))


def _packed(values: Numbers, unit: float, into: bytearray) -> Json:
    """Adds the bytes of a column; how they are to be read."""
    array = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(array) & (array >= 0)
    units = np.rint(np.where(known, array, 0) / unit).astype(np.int64)
    width = next(width for width in (1, 2, 4) if units.max(initial=0) < (1 << 8 * width) - 1)
    units[~known] = (1 << 8 * width) - 1
    differences = np.diff(units, prepend=0).astype(f"<u{width}")
    start = len(into)
    into += differences.view(np.uint8).reshape(-1, width).T.tobytes()
    return {"start": start, "unit": unit, "width": width}


def _places(words: tuple[Integers, list[str]], known: Sequence[str]) -> Integers:
    codes, names = words
    return np.array([known.index(name) if name in known else -1 for name in names])[codes]


def _rows(columns: Columns, rows: Integers) -> Columns:
    return {name: values[rows] for name, values in columns.items()}
