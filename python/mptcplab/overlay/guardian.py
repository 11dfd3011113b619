"""A process that takes back what a program changed on its machine, however that program ends: a host
that joins an overlay, or a site on a machine of its own.

It gets lines of JSON: a command each, a setting, a limit, a directory, or the call of a method.
When they end, it carries them out, the last one first. It is in a session of its own, so that no
signal to the group of the program reaches it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Any

#: How long the removal of a directory is tried, and the pause between two attempts.
_REMOVAL_S, _PAUSE_S = 5.0, 0.01


class Guardian:
    """The guardian of this process, which has no other thread yet."""

    def __init__(self) -> None:
        reading, writing = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            status = 1
            try:
                os.close(writing)
                _guard(reading)
                status = 0
            finally:
                os._exit(status)
        os.close(reading)
        self._orders = os.fdopen(writing, "w")

    def will_run(self, command: Sequence[str]) -> None:
        """Records a command before what it takes back is done."""
        self._tell({"run": list(command)})

    def will_call(self, url: str, method: str, **params: Any) -> None:
        """Records a call of the host controller."""
        self._tell({"call": method, "url": url, "params": params})

    def will_lower_limit(self, raised: int, before: int) -> None:
        """Records what the limit on subflows will be again, unless another program changes it from
        `raised`, as a host that joins later does.
        """
        self._tell({"raised": raised, "before": before})

    def will_write(self, path: Path, text: str) -> None:
        """Records what a setting of the kernel will be again."""
        self._tell({"write": str(path), "text": text})

    def will_remove(self, directory: Path) -> None:
        """Records a directory of the program's own."""
        self._tell({"remove": str(directory)})

    def _tell(self, order: dict[str, Any]) -> None:
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()

    def release(self) -> None:
        """Lets it take everything back, and waits for it."""
        if self._orders.closed:
            return
        with suppress(OSError):
            self._orders.close()
        os.waitpid(self._pid, 0)


def _guard(orders: int) -> None:
    """Waits for the end of the orders, then takes everything back."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # Nobody waits for the end of output that the guardian would keep open.
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    with os.fdopen(orders) as lines:
        given = [json.loads(line) for line in lines if line.endswith("\n")]
    for order in reversed(given):
        _take_back(order)


def _take_back(order: dict[str, Any]) -> None:
    """Carries out an order. What was not done cannot be taken back, and what is gone need not be."""
    with suppress(OSError):
        if "run" in order:
            subprocess.run(order["run"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        elif "write" in order:
            Path(order["write"]).write_text(order["text"])
        elif "raised" in order:
            _lower_limit(order["raised"], order["before"])
        elif "remove" in order:
            _remove(Path(order["remove"]))
        else:
            _call(order)


def _lower_limit(raised: int, before: int) -> None:
    limits = ["ip", "mptcp", "limits"]
    shown = subprocess.run([*limits, "show"], capture_output=True, text=True, check=False).stdout.split()
    if shown[shown.index("subflows") + 1 :][:1] == [str(raised)]:
        subprocess.run([*limits, "set", "subflows", str(before)], stdin=subprocess.DEVNULL, check=False)


def _remove(directory: Path) -> None:
    """Removes a directory, in which programs that are being killed may still write."""
    deadline = monotonic() + _REMOVAL_S
    while directory.exists() and monotonic() < deadline:
        shutil.rmtree(directory, ignore_errors=True)
        sleep(_PAUSE_S)


def _call(order: dict[str, Any]) -> None:
    from mptcplab.errors import MptcplabError
    from mptcplab.overlay.client import HostControllerAddress, call

    # Without an answer, the overlay drops the host for its silence.
    with suppress(MptcplabError):
        call(HostControllerAddress.parse(order["url"]), order["call"], **order["params"])
