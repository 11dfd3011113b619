"""A lock on a bundle, so that one process at a time writes into it."""

from __future__ import annotations

import sys
from pathlib import Path

LOCK = ".lock"


class Lock:
    """A lock on a directory. The system releases it when the process ends, so it never becomes
    stale.
    """

    def __init__(self, directory: Path) -> None:
        """Raises BlockingIOError if another process holds the lock, and other OSErrors if it cannot
        lock.
        """
        self._file = (directory / LOCK).open("w")
        try:
            _lock(self._file.fileno())
        except OSError:
            self._file.close()
            raise

    def release(self) -> None:
        """Releases the lock. The file stays, because another process may be locking it at this
        moment.
        """
        self._file.close()


def is_held(directory: Path) -> bool:
    """Returns whether a process is writing there now."""
    try:
        with (directory / LOCK).open("r+") as file:
            _lock(file.fileno())
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


if sys.platform == "win32":

    def _lock(descriptor: int) -> None:
        import msvcrt

        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError as error:
            raise BlockingIOError from error

else:

    def _lock(descriptor: int) -> None:
        import fcntl

        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
