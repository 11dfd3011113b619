"""A process that takes back what a host changed to join an overlay, however that host's program
ends.

It gets lines of JSON on its standard input: a command each, or the call of a method. When its input
ends, it carries them out, the last one first. It is in a session of its own, so that no signal to
the group of the program reaches it.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any


class Guardian:
    """The guardian of this process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "mptcplab.overlay.guardian"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
            text=True,
        )

    def will_run(self, command: Sequence[str]) -> None:
        """Records a command before what it takes back is done."""
        self._tell({"run": list(command)})

    def will_call(self, url: str, method: str, **params: Any) -> None:
        """Records a call of the host controller."""
        self._tell({"call": method, "url": url, "params": params})

    def _tell(self, order: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def release(self) -> None:
        """Lets it take everything back, and waits for it."""
        assert self._process.stdin is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait()


def main() -> None:
    """Waits for the end of standard input, then takes everything back."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    orders = [json.loads(line) for line in sys.stdin if line.endswith("\n")]
    for order in reversed(orders):
        if "run" in order:
            # What was not done cannot be taken back, and what is gone need not be.
            subprocess.run(order["run"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        else:
            _call(order)


def _call(order: dict[str, Any]) -> None:
    from mptcplab.errors import MptcplabError
    from mptcplab.overlay.client import HostControllerAddress, call

    # Without an answer, the overlay drops the host for its silence.
    with suppress(MptcplabError):
        call(HostControllerAddress.parse(order["url"]), order["call"], **order["params"])


if __name__ == "__main__":
    main()
