"""The packets of a capture as points for the charts of its page: quantized, compressed columns in
text form.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mptcplab.metrics.arrays import Integers, Numbers
from mptcplab.results.entities import Json

#: The resolution of time, because captures rarely have a better one.
TIME_UNIT_S = 1e-6
#: The number of steps of windows and of bytes in flight, more than the height of a chart in pixels.
STEPS = 1 << 15
#: In a stream with more segments than this, neighbours are merged into one point.
MOST_POINTS = 1_000_000
#: Fast; the result is at most a tenth larger than zlib's smallest for these columns.
COMPRESSION_LEVEL = 4
KINDS = ("new", "reinjection", "retransmission", "unmapped")
SIDES = ("client", "server")

#: Columns of equal length, by name.
Columns = dict[str, Any]


@dataclass(frozen=True)
class Points:
    """The points of a connection.

    ``series`` holds, by the sender of the data and by the kind of points, the number of ``points``
    and the layout of each of the ``columns``: ``unit``, ``width`` in bytes, and ``start`` in
    ``text``, which is zlib in base64. A column holds the differences of successive values in units,
    modulo 2^(8 width): first all low bytes, last all high bytes. The largest value of a width means
    "unknown".
    """

    series: Json
    text: str
    #: The largest number of packets that a point stands for.
    merged: int


def rows_by_connection(series: Mapping[str, Any], connections: Sequence[Json]) -> list[Columns]:
    """Returns, for each connection, the rows of a capture's series that belong to its subflows.

    ``subflow`` becomes the index in the connection's list of subflows. ``from`` and ``kind`` become
    indices into SIDES and KINDS, with -1 for packets without payload.
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
    # Each row has the connection of its time. A subflow that joined another connection later is
    # found by its id.
    connection = connection_of[columns["subflow"]]
    columns["subflow"] = place_of[columns["subflow"]]
    return [_rows(columns, np.flatnonzero(connection == number)) for number in range(len(connections))]


def points_of(rows: Columns, *, most: int = MOST_POINTS) -> Points:
    """Returns the points of a connection from its rows (see `rows_by_connection`)."""
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
    """Returns the series that show the data of one host: columns with their units."""
    knowing = {
        name: _rows(answers, np.flatnonzero(~np.isnan(answers[name]))[::every])
        for name in ("data_ack", "rtt_s", "data_rtt_s", "window_bytes")
    }
    progress = knowing["data_ack"]
    # Acknowledgments without progress are not drawn.
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
    """Returns the unit with which all times fit into 32 bits."""
    return max(TIME_UNIT_S, float(rows["time_s"].max(initial=0)) / ((1 << 32) - 2))


def _byte_unit(values: Numbers, steps: int) -> float:
    """Returns the smallest whole number of bytes with which the largest value needs at most
    ``steps`` steps.
    """
    known = np.asarray(values)[~np.isnan(values)]
    return float(max(1, -(-int(known.max(initial=0)) // (steps - 2))))


def _merged(sent: Columns, every: int) -> Columns:
    """Merges each ``every`` neighbours of one subflow and kind into one row with their total
    payload.
    """
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
    """Appends the bytes of a column to ``into`` and returns its layout."""
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
