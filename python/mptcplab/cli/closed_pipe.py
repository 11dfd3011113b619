"""Standard output whose reader may go away: ``mptcplab list | head`` ends as programs that a signal tells so."""

from __future__ import annotations

import io
import os
import sys
from typing import cast

#: 128 + SIGPIPE, what a shell gives for a program that wrote into a closed pipe.
CLOSED_PIPE = 141


class _Output(io.FileIO):
    """Ends the program where others raise BrokenPipeError, which click and rich turn into exit status 1."""

    def write(self, content: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(content)
        except BrokenPipeError:
            # What is still to be flushed goes nowhere.
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise SystemExit(CLOSED_PIPE) from None


def heed_closed_pipe() -> None:
    """Let a write to standard output end the program with status 141 once nobody reads it."""
    if sys.stdout.isatty():
        return
    old = cast("io.TextIOWrapper", sys.stdout)
    old.flush()
    output: io.BufferedIOBase = io.BufferedWriter(_Output(old.fileno(), "wb", closefd=False))  # type: ignore[type-var]
    sys.stdout = io.TextIOWrapper(output, encoding=old.encoding, errors=old.errors)
