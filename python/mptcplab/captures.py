"""Analyzes capture files: what MPTCP did in them."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from mptcplab import _core
from mptcplab.errors import PrivilegeError, RunFailed, Unsupported, UsageError
from mptcplab.signals import on_signals
from mptcplab.unfinished import removed_if_unfinished

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Frames between two checks of the clock and for interrupts.
STEP_FRAMES = 20_000
#: Seconds between two documents of a growing capture.
REFRESH_S = 0.5
#: Bytes of a packet to capture: the headers with all options.
SNAP_LENGTH = 144


def explain(
    files: Sequence[Path], *, series: Path | None = None, progress: Callable[[int], None] = lambda _bytes_read: None
) -> dict[str, Any]:
    """Analyzes captures from one place: a single file, or one file for each interface of a host.

    Returns the document ``mptcplab/pcap/1`` (docs/guide/captures.md). Its seconds count from the
    first frame. ``series`` is a Parquet file that gets a row for every TCP packet. ``progress`` is
    called from time to time with the bytes read of all files. Raises UsageError for a file that is
    not a capture, and RunFailed if reading or writing fails.
    """
    with _of_files():
        captures = _core.Captures(list(files), series)
        while captures.advance(STEP_FRAMES):
            progress(captures.bytes_read)
        captures.finish()
        document: dict[str, Any] = json.loads(captures.summary())
    return document


def follow(interface: str) -> Iterator[dict[str, Any]]:
    """Analyzes the traffic of an interface, and yields a new document of ``explain`` while packets
    come.

    SIGINT and SIGTERM end tcpdump and then the iteration. The last document has all packets. Raises
    PrivilegeError without the rights to capture, Unsupported without tcpdump, UsageError if tcpdump
    refuses.
    """
    command = ["tcpdump", "-i", interface, "-n", "-U", "--immediate-mode", "-s", str(SNAP_LENGTH), "-w", "-", "tcp"]
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except FileNotFoundError as error:
        raise Unsupported("pcap", [("--follow", "it needs tcpdump, which is not installed")]) from error
    assert process.stdout is not None
    assert process.stderr is not None
    with process, on_signals({signal.SIGINT: process.terminate, signal.SIGTERM: process.terminate}):
        documents: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        # Reading waits for packets, but this thread must receive signals.
        threading.Thread(target=_tell_as_it_grows, args=(process.stdout.fileno(), documents)).start()
        try:
            yield from iter(documents.get, None)
        finally:
            process.terminate()
        said = process.stderr.read().decode(errors="replace").strip()
    if process.returncode == 1:
        refusal = said.splitlines()[-1] if said else "tcpdump ended"
        # In a second line, tcpdump gives the error of its system call.
        if "permission" in said:
            remedy = f"use `sudo mptcplab pcap --follow {interface}`"
            raise PrivilegeError(None, f"{interface}: capturing needs the rights of root", remedy)
        raise UsageError(f"{interface}: {refusal.strip('()')}")


def _tell_as_it_grows(pipe: int, documents: SimpleQueue[dict[str, Any] | None]) -> None:
    """Puts the current document into the queue from time to time, then the last document, and then
    None.
    """
    # Input that ends before its header is not a capture. The message of tcpdump says why.
    with suppress(ValueError, OSError):
        captures = _core.Captures([Path(f"/dev/fd/{pipe}")])
        told = time.monotonic()
        while captures.advance(1):
            if time.monotonic() - told >= REFRESH_S:
                told = time.monotonic()
                documents.put(json.loads(captures.summary()))
        documents.put(json.loads(captures.summary()))
    documents.put(None)


def decode(files: Sequence[Path], number: int) -> dict[str, Any]:
    """Decodes a packet with its options, in the words of RFC 8684.

    Each of ``options`` has ``name``, ``source`` and ``fields``. Raises UsageError if no TCP packet
    has that number, and otherwise as ``explain``.
    """
    with _of_files():
        packet = _core.Captures(list(files)).decode(number)
    if packet is None:
        raise UsageError(f"{', '.join(map(str, files))}: no TCP packet has the number {number}")
    decoded: dict[str, Any] = json.loads(packet)
    return decoded


def one_way(here: Sequence[Path], there: Path) -> dict[str, Any]:
    """Measures one-way delays and losses from captures of the same traffic at both hosts.

    Returns ``clock_offset_s`` (how far the clock of ``there`` is ahead) with its ``uncertainty_s``,
    and ``ways``, one for each direction of each subflow. Raises UsageError if the captures have no
    packets in common, and otherwise as ``explain``.
    """
    with _of_files():
        summary: dict[str, Any] = json.loads(_core.one_way(list(here), there))
    return summary


def read_series(rows: Path) -> dict[str, Any]:
    """Reads the rows of ``explain`` by column: numpy arrays with NaN for unknown values, and
    (codes, words) for text.

    Raises RunFailed if the rows cannot be read.
    """
    with _of_files():
        return _core.read_table(rows)


def write_series(rows: Path, to: Path) -> None:
    """Copies the rows of ``explain`` to a .parquet or .csv file. Raises UsageError for another name
    or place.
    """
    import csv
    import shutil

    if to.suffix not in (".parquet", ".csv"):
        raise UsageError(f"{to}: a series is written as .parquet or .csv")
    try:
        with removed_if_unfinished(to):
            if to.suffix == ".parquet":
                shutil.copyfile(rows, to)
                return
            columns = {name: _texts(values) for name, values in read_series(rows).items()}
            with to.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(zip(*columns.values(), strict=True))
    except OSError as error:
        raise UsageError(f"{to}: cannot be written: {error.strerror}") from error


def _texts(column: Any) -> list[Any]:
    """Returns a column as text, with empty fields for missing numbers."""
    if isinstance(column, tuple):
        codes, words = column
        return [words[code] for code in codes]
    return ["" if value != value else value for value in column.tolist()]


@contextmanager
def _of_files() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(_without_number(error)) from error
    except OSError as error:
        raise RunFailed(_without_number(error)) from error


def _without_number(error: Exception) -> str:
    """Returns the message without the number that the compiled part adds to
    errors of the system.
    """
    return re.sub(r" \(os error \d+\)", "", str(error))
