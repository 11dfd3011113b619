"""The overlay of this machine as files: a lock that its process holds, and where its host
controller is.

All else of an overlay ends with its process, however that ends, so a lock that nobody holds means
that nothing is left but these files.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mptcplab.overlay.client import HostControllerAddress
from mptcplab.overlay.failure import OverlayFailed, OverlayMissing

#: The environment variable with the directory, for more than one overlay on a machine, each in a
#: network namespace of its own.
VARIABLE = "MPTCPLAB_OVERLAY"
_DEFAULT = "/run/mptcplab/overlay"
_PATIENCE_S = 10.0
_LOG = "log.txt"
_FILES = ("overlay.json", _LOG)
#: How the line of the log begins that says why the overlay ended.
_ENDED = "ended: "


@dataclass(frozen=True)
class Running:
    """An overlay that is up."""

    pid: int
    name: str
    host: HostControllerAddress
    """With the token that hosts get."""
    operator: HostControllerAddress


class State:
    """The directory of the overlay of this machine."""

    def __init__(self, directory: Path | None = None) -> None:
        self.directory = directory or Path(os.environ.get(VARIABLE) or _DEFAULT)
        self._lock: int | None = None

    @property
    def log(self) -> Path:
        """What the process of the overlay says."""
        return self.directory / _LOG

    @property
    def is_taken(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock is not None

    def take(self) -> None:
        """Takes the lock for this process, and removes what a killed overlay left. Raises
        OverlayFailed if an overlay is up.
        """
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = os.pread(lock, 20, 0).decode().strip()
            os.close(lock)
            raise OverlayFailed(f"an overlay is up already, process {pid}; first: mptcplab overlay down") from None
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        self._lock = lock
        (self.directory / "overlay.json").unlink(missing_ok=True)
        with self.log.open("w"):
            pass

    def write(self, name: str, address: str, port: int, tokens: dict[str, str]) -> None:
        """Records where the host controller is. Only the owner may read it."""
        document = {"name": name, "address": address, "port": port, "tokens": tokens}
        path = self.directory / "overlay.json"
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(opened, "w") as file:
            json.dump(document, file)

    def clear(self) -> None:
        """Removes the files, at the end of the process that took the lock."""
        for name in _FILES:
            (self.directory / name).unlink(missing_ok=True)
        (self.directory / "lock").unlink(missing_ok=True)

    def end_by(self, reason: str) -> None:
        """Removes the files except the log, which gets the reason. Whoever waited for the start may
        be gone.
        """
        with self.log.open("a") as log:
            log.write(f"{_ENDED}{reason}\n")
        for name in ("overlay.json", "lock"):
            (self.directory / name).unlink(missing_ok=True)

    def _why_ended(self) -> str:
        """Returns the end of a message that no overlay is up: why the last one ended, if that is
        known.
        """
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return ""
        found = [line.removeprefix(_ENDED) for line in lines if line.startswith(_ENDED)]
        return f"; the last one ended: {found[-1]}" if found else ""

    def running(self) -> Running:
        """Returns the overlay that is up. Raises OverlayMissing."""
        pid = self._holder()
        if pid is None:
            allowed = "allowed: after mptcplab overlay up, as the same user"
            raise OverlayMissing(f"no overlay is up here; {allowed}{self._why_ended()}")
        try:
            found: dict[str, Any] = json.loads((self.directory / "overlay.json").read_text())
        except (OSError, ValueError):
            raise OverlayMissing(
                "the overlay is not up yet; allowed: once mptcplab overlay up has printed it"
            ) from None
        at = {
            role: HostControllerAddress(found["address"], found["port"], token)
            for role, token in found["tokens"].items()
        }
        return Running(pid, found["name"], at["host"], at["operator"])

    def _holder(self) -> int | None:
        """Returns the process that holds the lock."""
        try:
            lock = os.open(self.directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return int(os.pread(lock, 20, 0) or b"0") or None
        finally:
            os.close(lock)
        return None

    def end(self) -> bool:
        """Ends the overlay, and removes its files. Returns whether one was up; False if a killed
        one had left files. Raises OverlayMissing if there was neither.
        """
        pid = self._holder()
        if pid is None:
            if not (self.directory / "lock").exists():
                raise OverlayMissing("no overlay is up here")
            self.clear()
            return False
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + _PATIENCE_S
        while self._holder() == pid:
            if time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
                deadline += _PATIENCE_S
            time.sleep(0.02)
        self.clear()
        return True
