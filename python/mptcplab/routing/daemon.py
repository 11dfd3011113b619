"""The daemon: brings the machine to what it should have at its start and at every event of an
interface, an address, a route or a rule, and removes everything at its end.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from selectors import EVENT_READ, DefaultSelector
from types import FrameType
from typing import IO

from mptcplab import iproute
from mptcplab.errors import RunFailed
from mptcplab.routing.changes import LEFT_OUT, Record, applied, removed
from mptcplab.routing.plan import Choice

#: Several events come together. This long without one ends a group, which is no longer than the
#: second time.
QUIET_S, GROUP_S = 0.1, 1.0
#: The state is also compared this often, because the kernel may lose events.
COMPARE_S = 30.0
BYTES = 1 << 16


class _Ended(BaseException):
    """A signal ends the daemon."""


def run(choice: Choice, tell: Callable[[str], None]) -> None:
    """Runs until SIGTERM, SIGINT or SIGHUP. `tell` gets a line for each change and each problem.
    Raises MachineError if a daemon runs here already, PrivilegeError without the rights.
    """
    with Record.here().as_daemon(), _ended_by_signals():
        try:
            while True:
                _follow(choice, tell)
        except _Ended:
            pass
        finally:
            for line in removed():
                tell(line)


def _follow(choice: Choice, tell: Callable[[str], None]) -> None:
    """Compares at once and after each event, until `ip monitor` ends."""
    with _monitor() as monitor, DefaultSelector() as selector:
        selector.register(monitor, EVENT_READ)
        is_open, problem = True, ""
        while is_open:
            problem = _compare(choice, tell, problem)
            is_open = _waited(selector, monitor)


def _compare(choice: Choice, tell: Callable[[str], None], known: str) -> str:
    """Applies the choice, and returns the problem, which is told unless it is the known one."""
    problem = ""
    try:
        lines = applied(choice)
    except RunFailed as failure:
        # The next event may remove the reason.
        lines, problem = [], str(failure)
    for line in lines:
        if line.startswith(LEFT_OUT):
            problem = line
        else:
            tell(line)
    if problem not in ("", known):
        tell(problem)
    return problem


def _waited(selector: DefaultSelector, monitor: IO[bytes]) -> bool:
    """Waits for a group of events, or `COMPARE_S`. Returns whether `ip monitor` still runs."""
    limit_s, end = COMPARE_S, None
    while selector.select(limit_s):
        if not os.read(monitor.fileno(), BYTES):
            time.sleep(QUIET_S)
            return False
        now = time.monotonic()
        end = end or now + GROUP_S
        limit_s = min(QUIET_S, end - now)
        if limit_s <= 0:
            break
    return True


@contextmanager
def _monitor() -> Iterator[IO[bytes]]:
    """Starts `ip monitor`, and yields what it prints."""
    setpriv = shutil.which("setpriv")
    ends_with_us = [setpriv, "--pdeathsig", "KILL"] if setpriv else []
    command = [*ends_with_us, iproute.program(), "monitor", "link", "address", "route", "rule"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        process.kill()
        process.communicate()


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    def end(_number: int, _frame: FrameType | None) -> None:
        for one in ends:
            signal.signal(one, signal.SIG_IGN)
        raise _Ended

    ends = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.signal(number, end) for number in ends}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
