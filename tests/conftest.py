"""What all tests stand on."""

from __future__ import annotations

import os
import signal

from mptcplab import callers, consent


def pytest_configure() -> None:
    """What the programs under test inherit.

    A shell starts its background jobs with SIGINT ignored. What descriptions bring along is ours here, and runs as
    these tests do.
    """
    os.environ[consent.ALLOW] = "1"
    for name in (callers.USER, callers.GROUP):
        os.environ.pop(name, None)
    signal.signal(signal.SIGINT, signal.default_int_handler)
