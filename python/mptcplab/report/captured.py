"""The captures of a run, with the run's own counters."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mptcplab.captures import explain
from mptcplab.report.capture import capture_page
from mptcplab.report.capture_tables import connection_sentences, connection_title, importance, size
from mptcplab.report.capture_verdict import verdict_sentences
from mptcplab.report.grid import Grid
from mptcplab.report.quantities import MISSING
from mptcplab.results.capture_metrics import captured_files
from mptcplab.results.entities import Json

MOST_CONNECTIONS = 20
HEADS = [
    "connection",
    "subflow",
    "client",
    "server",
    "link",
    "payload in the capture",
    "sent again in the capture",
    "sent again by the run's count",
]


@dataclass(frozen=True)
class CapturedHost:
    """The captures of one host's interfaces, analyzed together. ``series`` has a row for every TCP
    packet.
    """

    host: str
    files: list[Path]
    document: Json
    series: Path
    grid: Grid

    @property
    def page(self) -> str:
        """The file name of the host's page, in the directory of the run's report."""
        return f"captures-{self.host}.html"

    @property
    def sentences(self) -> list[str]:
        """Returns sentences about the largest MPTCP connection."""
        largest = sorted(self.document["connections"], key=importance)[:1]
        return [
            line
            for one in largest
            for line in (connection_title(one), *verdict_sentences(one), *connection_sentences(one))
        ]


def captured_hosts(record: Json, directory: Path, scratch: Path) -> list[CapturedHost]:
    """Returns every host that the run captured. The series of the packets are written to the
    directory ``scratch``.

    Raises UsageError if a file is not a capture any more.
    """
    counted = {
        (subflow["local"], subflow["remote"]): subflow for flow in record["flows"] for subflow in flow["subflows"]
    }
    return [
        _captured(host, paths, counted, scratch / f"{host}.parquet")
        for host, paths in captured_files(directory).items()
    ]


def _captured(host: str, files: list[Path], counted: dict[tuple[str, str], Json], series: Path) -> CapturedHost:
    document = explain(files, series=series)
    connections = sorted(document["connections"], key=importance)[:MOST_CONNECTIONS]
    rows = [
        _row(connection, subflow, _counted(counted, subflow))
        for connection in connections
        for subflow in connection["subflows"]
    ]
    return CapturedHost(host, files, document, series, Grid(HEADS, rows, frozenset({0, 1, 5, 6, 7})))


def _counted(counted: dict[tuple[str, str], Json], subflow: Json) -> Json | None:
    """Returns the counters of the run for a subflow, whose sender can be on either side."""
    ends = subflow["local"], subflow["remote"]
    return counted.get(ends) or counted.get((ends[1], ends[0]))


def _row(connection: Json, subflow: Json, counted: Json | None) -> list[str]:
    directions = subflow["directions"].values()
    resent = None if counted is None else counted.get("retransmitted_bytes")
    return [
        str(connection["id"]),
        str(subflow["id"]),
        subflow["local"],
        subflow["remote"],
        MISSING if counted is None else counted["link"],
        size(subflow["bytes"]),
        size(max(direction["retransmitted_bytes"] for direction in directions)),
        MISSING if resent is None else size(resent),
    ]


def host_page(host: CapturedHost) -> str:
    """Returns the page of the captures of a host as HTML."""
    return capture_page(host.document, host.series)
