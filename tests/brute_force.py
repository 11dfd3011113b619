"""Counts the content of an MPTCP capture byte by byte from the fields that Wireshark decodes: slow
and simple.
"""

from __future__ import annotations

import hashlib
import subprocess
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FIELDS = (
    "frame.number",
    "tcp.stream",
    "mptcp.stream",
    "ip.src",
    "tcp.srcport",
    "ip.dst",
    "tcp.dstport",
    "tcp.flags.syn",
    "tcp.seq_raw",
    "tcp.len",
    "tcp.options.mptcp.sendkey",
    "tcp.options.mptcp.version",
    "tcp.options.mptcp.rawdataseqno",
    "tcp.options.mptcp.subflowseqno",
    "tcp.options.mptcp.datalvllen",
    "tcp.options.mptcp.datafin.flag",
)
#: The largest number of bytes of a direction in a test, with one bit for each.
MOST_BYTES = 1 << 25


@dataclass
class Direction:
    """One direction of a subflow."""

    bytes: int = 0
    retransmitted_bytes: int = 0
    isn: int | None = None
    seen: np.ndarray = field(default_factory=lambda: np.zeros(MOST_BYTES, bool))
    #: The first and last relative subflow sequence number, and the DSN of the first.
    mappings: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass
class Data:
    """The data that one host of a connection sends."""

    bytes: int = 0
    reinjected_bytes: int = 0
    origin: int | None = None
    seen: np.ndarray = field(default_factory=lambda: np.zeros(MOST_BYTES, bool))


@dataclass
class Counted:
    """The counts of a capture."""

    directions: dict[tuple[str, str], Direction] = field(default_factory=lambda: defaultdict(Direction))
    #: The data by Wireshark's number of the connection, and by whether the client of its initial
    #: subflow sends.
    data: dict[tuple[str, bool], Data] = field(default_factory=lambda: defaultdict(Data))
    #: Wireshark's numbers of connections, by the addresses and ports of their subflows.
    connections: dict[frozenset[str], str] = field(default_factory=dict)


def count(capture: Path) -> Counted:
    """Counts a capture in which all connections begin."""
    counted = Counted()
    #: The host of each connection's client. The first bytes of addresses are enough for tests.
    openers: dict[str, str] = {}
    for row in _rows(capture):
        source = f"{row['ip.src']}:{row['tcp.srcport']}"
        destination = f"{row['ip.dst']}:{row['tcp.dstport']}"
        direction = counted.directions[source, destination]
        seq, length = int(row["tcp.seq_raw"]), int(row["tcp.len"])
        if row["tcp.flags.syn"] in ("1", "True"):
            direction.isn = seq
        connection = row["mptcp.stream"]
        if connection:
            counted.connections[frozenset((source, destination))] = connection
        # The clients of these tests have addresses that end in 1.
        is_client = row["ip.src"].rpartition(".")[2] == "1"
        openers.setdefault(connection, source)
        data = counted.data[connection, is_client]
        keys = [int(key, 0) for key in row["tcp.options.mptcp.sendkey"].split(",") if key]
        if keys and data.origin is None:
            # RFC 6824, section 3.1, and RFC 8684, section 3.1: version 0 has SHA-1.
            hashed = hashlib.sha1 if row["tcp.options.mptcp.version"] == "0" else hashlib.sha256
            digest = hashed(keys[0].to_bytes(8, "big")).digest()
            data.origin = (int.from_bytes(digest[-8:], "big") + 1) % 2**64
        _map(row, direction, data)
        _send(direction, data, seq, length)
    return counted


def _map(row: dict[str, str], direction: Direction, data: Data) -> None:
    if not row["tcp.options.mptcp.datalvllen"]:
        return
    length = int(row["tcp.options.mptcp.datalvllen"]) - (row["tcp.options.mptcp.datafin.flag"] in ("1", "True"))
    if row["tcp.options.mptcp.rawdataseqno"]:
        start = int(row["tcp.options.mptcp.rawdataseqno"], 0)
        relative = int(row["tcp.options.mptcp.subflowseqno"])
    else:
        assert data.origin is not None
        start, relative = data.origin, 1
    if length > 0:
        direction.mappings.append((relative, relative + length, start))


def _send(direction: Direction, data: Data, seq: int, length: int) -> None:
    if length == 0:
        return
    assert direction.isn is not None
    relative = (seq - direction.isn) % 2**32
    direction.bytes += length
    seen = direction.seen[relative : relative + length]
    direction.retransmitted_bytes += int(seen.sum())
    for offset in np.flatnonzero(~seen):
        place = _place(direction, data, relative + int(offset))
        if data.seen[place]:
            data.reinjected_bytes += 1
        else:
            data.bytes += 1
            data.seen[place] = True
    direction.seen[relative : relative + length] = True


def _place(direction: Direction, data: Data, relative: int) -> int:
    for start, end, number in reversed(direction.mappings):
        if start <= relative < end:
            assert data.origin is not None
            # The number of a short form has only 32 bits.
            distance = number + (relative - start) - data.origin
            return distance % 2**64 if number >= 2**32 else distance % 2**32
    raise AssertionError(f"no mapping for {relative}")


def _rows(capture: Path) -> list[dict[str, str]]:
    wanted = [word for name in FIELDS for word in ("-e", name)]
    command = ["tshark", "-r", str(capture), "-Y", "tcp", "-T", "fields", "-E", "occurrence=f", *wanted]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return [dict(zip(FIELDS, line.split("\t"), strict=True)) for line in lines]
