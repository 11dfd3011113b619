"""The text of a trace file: its lines with their numbers, its comments, and errors that name file
and line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from mptcplab.errors import SpecError, Where
from mptcplab.traces.model import Origin
from mptcplab.units import NANOS_PER_SECOND

#: The first line of a pointer of Git LFS, which takes the place of a large file.
_POINTER = b"version https://git-lfs"
_MOST_BYTES = 500_000_000
_LONGEST_NS = 100 * 366 * 24 * 3600 * NANOS_PER_SECOND
_HIGHEST_BPS = 10**13
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,25}(?:\.[0-9]{0,25})?|\.[0-9]{1,25})(?:[eE][+-]?[0-9]{1,2})?")
_ORIGIN = re.compile(r"#\s*(source|licence|license)\s*:\s*(.*)", re.IGNORECASE)


class TraceError(SpecError):
    """A trace is wrong. The message has file and line, what was found, and what is allowed."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line that is not a comment, and its number from 1."""

    file: str
    number: int
    text: str

    def wrong(self, problem: str, allowed: str | None = None) -> TraceError:
        """Returns the error about this line."""
        return TraceError(problem, Where(self.file, self.number), allowed=allowed)

    def decimal(self, text: str, what: str) -> Decimal:
        """Returns a number that is not negative."""
        if not _NUMBER.fullmatch(text):
            raise self.wrong(f"found '{text[:20]}' as {what}", "a number, as in 12 or 0.25")
        if (number := Decimal(text)) < 0:
            raise self.wrong(f"{what} {text[:20]} is negative", "0 or more")
        return number

    def whole(self, text: str, what: str) -> int:
        """Returns a whole number that is not negative and has less than 15 digits."""
        if not (text.isascii() and text.isdigit() and len(text) < 15):
            raise self.wrong(f"found '{text[:20]}' as {what}", "a whole number")
        return int(text)

    def nanoseconds(self, text: str, what: str, unit_ns: int) -> int:
        """Returns a time in nanoseconds, rounded, of a number of units."""
        return self.bounded(round(self.decimal(text, what) * unit_ns), what)

    def bounded(self, time_ns: int, what: str) -> int:
        """Returns a time of at most 100 years, of which those since 1970 have more than half."""
        if time_ns > _LONGEST_NS:
            raise self.wrong(f"{what} is more than 100 years", "less")
        return time_ns

    def rate_bps(self, text: str, unit_bps: int) -> int:
        """Returns a rate in bit/s, rounded, of a number of units."""
        rate = round(self.decimal(text, "rate") * unit_bps)
        if rate > _HIGHEST_BPS:
            raise self.wrong(f"rate {text[:20]} is more than 10 Tbit/s", "less")
        return rate


@dataclass(frozen=True, slots=True)
class Text:
    """A trace file."""

    file: str
    rows: tuple[Row, ...]
    origin: Origin

    def wrong(self, problem: str, allowed: str | None = None) -> TraceError:
        """Returns the error about the whole file."""
        return TraceError(problem, Where(self.file), allowed=allowed)


def read(path: Path) -> Text:
    """Reads a trace file. Raises TraceError if it cannot be read, is not text, is empty or is a
    pointer of Git LFS.
    """
    name = str(path)
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise TraceError(f"has more than {_MOST_BYTES} bytes", Where(name), allowed="a shorter trace")
        content = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", Where(name), allowed="a file with a trace") from None
    if content.startswith(_POINTER):
        problem = "is a pointer of Git LFS, and not the trace"
        raise TraceError(problem, Where(name, 1), allowed="the file itself, which `git lfs pull` fetches")
    return parse(name, content)


def parse(name: str, content: bytes) -> Text:
    """Returns the lines of the content of a file."""
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        problem = f"byte 0x{content[error.start]:02x} is not text"
        raise TraceError(problem, Where(name, line), allowed="a text file") from None
    stripped = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    rows = tuple(Row(name, number, line) for number, line in stripped if line and not line.startswith("#"))
    if not rows:
        raise TraceError("is empty", Where(name, 1), allowed="at least one line of a trace")
    return Text(name, rows, _origin(line for _, line in stripped if line.startswith("#")))


def _origin(comments: Iterator[str]) -> Origin:
    found: dict[str, str] = {}
    for comment in comments:
        if match := _ORIGIN.fullmatch(comment):
            found.setdefault(match[1].lower().replace("license", "licence"), match[2].strip())
    return Origin(found.get("source") or None, found.get("licence") or None)


def comments(origin: Origin) -> str:
    """Returns the comment lines that keep an origin in a file."""
    lines = [("source", origin.source), ("licence", origin.licence)]
    return "".join(f"# {key}: {value}\n" for key, value in lines if value)
