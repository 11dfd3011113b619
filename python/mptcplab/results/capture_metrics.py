"""The metrics of a run that its captures tell: options of Multipath TCP, and their lengths."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from mptcplab.captures import decode, explain
from mptcplab.errors import MptcplabError
from mptcplab.results.entities import Json
from mptcplab.results.run_data import Absent, RunData, Value, once_a_run

DIRECTORY = "captures"
NO_CAPTURE = "the run has no captures; measure.captures names interfaces"
INCOMPLETE = "the captures have more events than their analysis lists"

#: The captures of each host with their analysis.
Captured = Sequence[tuple[Sequence[Path], Json]]


def captured_files(directory: Path) -> dict[str, list[Path]]:
    """Returns the captures in the directory of a run, by host."""
    files: defaultdict[str, list[Path]] = defaultdict(list)
    for path in sorted((directory / DIRECTORY).glob("*.pcapng")):
        files[path.name.partition(".")[0]].append(path)
    return files


@once_a_run
def _analysed(run: RunData) -> Captured | Absent:
    files = {} if run.directory is None else captured_files(run.directory)
    try:
        found = [(paths, explain(paths)) for paths in files.values()]
    except MptcplabError as error:
        return Absent(str(error))
    return found or Absent(NO_CAPTURE)


def _of_captures(value: Callable[[Captured], Value]) -> Callable[[RunData], Value]:
    def metric(run: RunData) -> Value:
        found = _analysed(run)
        return found if isinstance(found, Absent) else value(found)

    return metric


def _connections(captured: Captured) -> Iterator[tuple[Sequence[Path], Json]]:
    for paths, document in captured:
        for connection in document["connections"]:
            yield paths, connection


def _seen(kind: str) -> Callable[[RunData], Value]:
    """Counts options, each time they were sent."""

    def count(captured: Captured) -> Value:
        if any(connection["events_left_out"] for _, connection in _connections(captured)):
            return Absent(INCOMPLETE)
        events = (event for _, connection in _connections(captured) for event in connection["events"])
        return float(sum(event["times"] for event in events if event["kind"] == kind))

    return _of_captures(count)


def _length(kind: str, option: str) -> Callable[[RunData], Value]:
    """Returns the length of an option in the first packet that has it."""

    def length(captured: Captured) -> Value:
        for paths, connection in _connections(captured):
            for event in connection["events"]:
                if event["kind"] == kind:
                    options = decode(paths, event["packet"])["options"]
                    return float(next(one["bytes"] for one in options if one["name"] == option))
        return Absent(f"no {option} is in the captures")

    return _of_captures(length)


def _tokens(captured: Captured) -> Value:
    return float(len({one["token"] for _, one in _connections(captured) if one["token"] is not None}))


def _packets(captured: Captured) -> Value:
    return float(sum(document["frames"]["frames"] for _, document in captured))


CAPTURE_METRICS: dict[str, Callable[[RunData], Value]] = {
    "tokens": _of_captures(_tokens),
    "add_addr_seen": _seen("add_addr"),
    "add_addr_bytes": _length("add_addr", "ADD_ADDR"),
    "remove_addr_seen": _seen("remove_addr"),
    "mp_join_seen": _seen("mp_join"),
    "mp_join_syn_bytes": _length("mp_join", "MP_JOIN"),
    "data_fin_seen": _seen("data_fin"),
    "data_fin_dss_bytes": _length("data_fin", "DSS"),
    "captured_packets": _of_captures(_packets),
}
