"""One process at a time writes into a bundle."""

from __future__ import annotations

import sys
from pathlib import Path

LOCK = ".lock"


class Lock:
    """A directory held by this process. The system ends it with the process, so that none is ever stale."""

    def __init__(self, directory: Path) -> None:
        """Raises BlockingIOError if somebody holds it, other OSErrors if it cannot be locked."""
        self._file = (directory / LOCK).open("w")
        try:
            _lock(self._file.fileno())
        except OSError:
            self._file.close()
            raise

    def release(self) -> None:
        """Let others have it. The file stays: to remove it would take it from under one who is just locking it."""
        self._file.close()


def is_held(directory: Path) -> bool:
    """Whether somebody is writing there now."""
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
