"""Capture files: what Multipath TCP did in them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mptcplab import _core
from mptcplab.errors import RunFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Frames between two looks at the clock and for interrupts.
STEP_FRAMES = 20_000


def explain(
    files: Sequence[Path], *, series: Path | None = None, progress: Callable[[int], None] = lambda _bytes_read: None
) -> dict[str, Any]:
    """What Multipath TCP did in captures that were made at one place: a file, or one for each interface of a host.

    Gives the document ``mptcplab/pcap/1`` (docs/captures.md); seconds count from the first frame. ``series``, a
    Parquet file, gets a row for every TCP packet. ``progress`` is called now and then with the bytes read of all files.
    Raises UsageError for a file that is no capture, RunFailed if the machine refuses to read or write.
    """
    with _of_files():
        captures = _core.Captures(list(files), series)
        while captures.advance(STEP_FRAMES):
            progress(captures.bytes_read)
        captures.finish()
        document: dict[str, Any] = json.loads(captures.summary())
    return document


@contextmanager
def _of_files() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(str(error)) from error
    except FileNotFoundError as error:
        raise UsageError(str(error)) from error
    except OSError as error:
        raise RunFailed(str(error)) from error
