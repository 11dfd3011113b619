"""Standard output whose reader closes it: ``mptcplab list | head`` ends like a program that SIGPIPE
ends. Standard output that cannot be written, as a file on a full disk, is one message.
"""

from __future__ import annotations

import io
import os
import sys
from typing import cast

#: 128 + SIGPIPE: the exit status in a shell of a program that wrote into a closed pipe.
CLOSED_PIPE = 141


class _Output(io.FileIO):
    """Ends the program instead of raising BrokenPipeError, which click and rich turn into exit
    status 1.
    """

    #: The exit status for any other error.
    unwritable: int

    def write(self, content: bytes, /) -> int | None:  # type: ignore[override]
        try:
            return super().write(content)
        except BrokenPipeError:
            self._discard()
            raise SystemExit(CLOSED_PIPE) from None
        except OSError as error:
            self._discard()
            print(f"mptcplab: standard output: cannot be written: {error.strerror}", file=sys.stderr)
            raise SystemExit(self.unwritable) from None

    def _discard(self) -> None:
        """Discards what is still to be flushed."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())


def heed_closed_pipe(unwritable: int) -> None:
    """Makes a write to a closed standard output end the program with status 141, and one to a full
    disk with `unwritable`.
    """
    if sys.stdout.isatty():
        return
    old = cast("io.TextIOWrapper", sys.stdout)
    old.flush()
    raw = _Output(old.fileno(), "wb", closefd=False)
    raw.unwritable = unwritable
    output: io.BufferedIOBase = io.BufferedWriter(raw)  # type: ignore[type-var]
    sys.stdout = io.TextIOWrapper(output, encoding=old.encoding, errors=old.errors)
