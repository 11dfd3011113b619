"""``mptcplab pcap``: explains Multipath TCP in a capture file."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mptcplab.cli.options import As_json, html_only
from mptcplab.errors import UsageError

if TYPE_CHECKING:
    from mptcplab.report.grid import Grid

EXAMPLE = "Example: mptcplab pcap capture.pcapng --report capture.html"
PIPE = Path("-")
STANDARD_INPUT = Path("/dev/stdin")
#: Number of connections and events that are printed.
MOST_CONNECTIONS = 20
MOST_EVENTS = 60


def command(
    file: Annotated[
        Path | None, typer.Argument(help="A pcap or pcapng file, also compressed with gzip; - for a pipe.")
    ] = None,
    peer: Annotated[Path | None, typer.Argument(help="The same traffic, captured at the other end.")] = None,
    interfaces: Annotated[
        list[Path] | None,
        typer.Option("--interface", help="Capture of a further interface of the same host; may be given again."),
    ] = None,
    decode: Annotated[int | None, typer.Option(min=1, help="Show only the options of this packet.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Write a page with charts that can be zoomed.", callback=html_only)
    ] = None,
    series: Annotated[
        Path | None, typer.Option(help="Write one row per TCP packet into this .parquet or .csv file.")
    ] = None,
    follow: Annotated[
        str | None, typer.Option(help="Explain the traffic of this interface, until interrupted.")
    ] = None,
    as_json: As_json = False,
) -> None:
    """Explain a capture: connections, subflows, data, events.

    Reads captures of TCP and of Multipath TCP version 1 or 0, which may begin or end in the middle
    of a connection.
    """
    if follow is not None:
        if file or interfaces or decode or report or series:
            raise UsageError("pcap: --follow reads no FILE and writes none; allowed with it: --json")
        _follow(follow, as_json=as_json)
        return
    if file is None:
        raise UsageError("pcap: needs a FILE, or an interface to --follow")
    files = [STANDARD_INPUT if file == PIPE else file, *(interfaces or [])]
    _refuse_repeated([*files, *([peer] if peer is not None else [])])
    if decode is not None:
        _show_packet(files, decode, as_json=as_json)
        return
    with tempfile.TemporaryDirectory(prefix="mptcplab-") as scratch:
        rows = Path(scratch) / "series.parquet" if report or series else None
        document = _explained(files, rows)
        if peer is not None:
            document["one_way"] = _one_way(files, peer)
        if rows is not None:
            _write(document, rows, report, series)
    if as_json:
        _print_json(document)
    else:
        _print(document, [path for path in (report, series) if path is not None])


def _refuse_repeated(files: list[Path]) -> None:
    """Raises UsageError for a file that is given twice. Its packets would count twice, or be
    compared with themselves.
    """
    places = [file.resolve() for file in files]
    for number, file in enumerate(files):
        if places[number] in places[:number]:
            raise UsageError(f"{file}: is given twice; allowed: captures of different interfaces or hosts")


def _explained(files: list[Path], series: Path | None) -> dict[str, Any]:
    from mptcplab.captures import explain
    from mptcplab.cli.progress import bytes_progress

    sizes = [path.stat().st_size for path in files if path.is_file()]
    with bytes_progress("reading", sum(sizes)) as read:
        return explain(files, series=series, progress=read)


def _follow(interface: str, *, as_json: bool) -> None:
    from rich.console import Console
    from rich.live import Live

    from mptcplab.captures import follow
    from mptcplab.report.capture_tables import overview

    document: dict[str, Any] | None = None
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as display:
        for document in follow(interface):
            display.update(overview(document), refresh=True)
    if document is None:
        return
    if as_json:
        _print_json(document)
    else:
        _print(document, [])


def _print_json(document: dict[str, Any]) -> None:
    from mptcplab.cli.output import print_json
    from mptcplab.report.capture_verdict import with_verdicts

    print_json(with_verdicts(document))


def _one_way(files: list[Path], peer: Path) -> dict[str, Any]:
    from mptcplab.captures import one_way

    if STANDARD_INPUT in files:
        raise UsageError("two captures of the same traffic are read twice, so neither can be a pipe")
    return one_way(files, peer)


def _write(document: dict[str, Any], rows: Path, report: Path | None, series: Path | None) -> None:
    from mptcplab import callers
    from mptcplab.captures import write_series
    from mptcplab.cli.output import write_text

    if report is not None:
        from mptcplab.report.capture import capture_page

        write_text(report, capture_page(document, rows))
    if series is not None:
        write_series(rows, series)
        callers.give(series)


def _show_packet(files: list[Path], number: int, *, as_json: bool) -> None:
    from mptcplab.captures import decode
    from mptcplab.cli.output import print_json, print_line
    from mptcplab.report.capture_tables import packet_grid, packet_sentences

    packet = decode(files, number)
    if as_json:
        print_json({"schema": "mptcplab/packet/1", **packet})
        return
    for sentence in packet_sentences(packet):
        print_line(sentence)
    _print_grid(packet_grid(packet))


def _print(document: dict[str, Any], written: list[Path]) -> None:
    from mptcplab.cli.output import print_line, print_remark
    from mptcplab.report import capture_tables
    from mptcplab.report.capture_verdict import verdict_sentences

    for sentence in capture_tables.capture_sentences(document):
        print_line(sentence)
    connections = sorted(document["connections"], key=capture_tables.importance)
    for connection in connections[:MOST_CONNECTIONS]:
        print_line("")
        print_line(capture_tables.connection_title(connection))
        for sentence in (*verdict_sentences(connection), *capture_tables.connection_sentences(connection)):
            print_line(f"  {sentence}")
        _print_grid(capture_tables.subflow_grid(connection))
        if connection["version"] is not None:
            print_line("")
            _print_grid(capture_tables.event_grid(connection), most=MOST_EVENTS)
    if len(connections) > MOST_CONNECTIONS:
        print_remark(f"and {len(connections) - MOST_CONNECTIONS} more connections: --json has all")
    if "one_way" in document:
        print_line("")
        for sentence in capture_tables.clock_sentences(document["one_way"]):
            print_line(sentence)
        _print_grid(capture_tables.one_way_grid(document["one_way"]))
    for path in written:
        print_remark(f"wrote {path}")


def _print_grid(grid: Grid, most: int | None = None) -> None:
    from mptcplab.cli.console import escape
    from mptcplab.cli.output import print_remark, print_table

    rows = [[escape(cell) for cell in row] for row in grid.rows[:most]]
    print_table(grid.heads, rows, right=grid.numeric)
    if len(rows) < len(grid.rows):
        print_remark(f"and {len(grid.rows) - len(rows)} more: --json has all")
